"""Parts that the routes of a console share: the link, templates, sessions and the navigation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from askance.console import sessions
from askance.console.formats import FILTERS
from askance.console.link import AggregatorLink, permitted
from askance.console.openid import BegunLogins, OpenIdIssuer
from askance_aggregator.analyst import CallRefused
from askance_aggregator.clock import system_now_s
from askance_client.errors import AskanceError
from askance_client.version import __version__


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """Page with its path, its title and the calls that a caller must be permitted to make."""

    path: str
    title: str
    calls: tuple[str, ...]


class Templates:
    """Templates of the package; every value is escaped, and one that is missing is an error."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("askance.console", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals["version"] = __version__

    def text(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template with its values filled in."""
        return self._environment.get_template(template).render(values)


class Console:
    """Parts that the routes of one console share.

    Args:
      link: to the aggregator, with the key or token of the console's own caller; in a console with
        an issuer nothing is called by it.
      hosts: values that the header Host may have, lower case; the first one is in login links.
      secure: True if the console is served over TLS.
      announce: called with each login link; it prints the link where only the caller reads it.
      issuer: by which people log in, each with calls of their own; None: by a link, one caller.
      now_s: the time in whole seconds since 1970, UTC, for the tokens of the issuer.
    """

    def __init__(
        self,
        link: AggregatorLink,
        *,
        hosts: Collection[str],
        secure: bool,
        announce: Callable[[str], None],
        secrets: sessions.Secrets,
        clock_s: Callable[[], float],
        issuer: OpenIdIssuer | None = None,
        now_s: Callable[[], int] = system_now_s,
    ) -> None:
        self.own = sessions.ConsoleCaller.of(link, clock_s)
        self.issuer = issuer
        self.now_s = now_s
        self.logins = BegunLogins(secrets, now_s)
        self.hosts = tuple(hosts)
        self.secure = secure
        self.clock_s = clock_s
        self.templates = Templates()
        scheme = "https" if secure else "http"
        self.origins = tuple(f"{scheme}://{host}" for host in self.hosts)  # of forms
        self.links = sessions.LoginLinks(secrets, clock_s)
        self.sessions = sessions.ConsoleSessions(secrets, clock_s)
        self.live_pages = 0
        self.navigation: tuple[NavigationEntry, ...] = ()  # filled by the application
        self._announce = announce
        port = self.hosts[0].rpartition(":")[2]
        # Cookies are shared by the ports of a host; each console has one of its own name.
        self.cookie = f"__Host-askance_{port}" if secure else f"askance_{port}"

    @property
    def origin(self) -> str:
        """Address of the console for a browser, without a path."""
        return self.origins[0]

    @property
    def redirect(self) -> str:
        """Address to which the issuer sends a browser back."""
        default = ":443" if self.secure else ":80"
        return f"{self.origin.removesuffix(default)}/login/callback"

    def caller_of(self, session: sessions.ConsoleSession) -> sessions.ConsoleCaller:
        """Return the caller for whom the pages of a session are made."""
        return session.caller or self.own

    def announce_link(self) -> None:
        """Print a login link, unless one that was printed can still be used."""
        if self.issuer is None and not self.links.is_outstanding:
            self._announce(f"{self.origin}/login?token={self.links.issue()}")

    def session_of(self, request: Request) -> sessions.ConsoleSession | None:
        """Return the session of a browser; None if it has not logged in."""
        is_live = request.url.path.startswith("/live/")
        return self.sessions.find(request.cookies.get(self.cookie, ""), is_request=not is_live)

    def set_cookie(self, answer: Response, cookie: str) -> None:
        """Give a browser its session's cookie, for this console's own pages alone."""
        answer.set_cookie(
            self.cookie,
            cookie,
            max_age=sessions.SESSION_S,
            httponly=True,
            secure=self.secure,
            samesite="strict",
        )

    async def first_page(self, session: sessions.ConsoleSession) -> str:
        """Return the path of the first page that the caller's role may see."""
        identity = await self.caller_of(session).link.identity()
        role = None if identity is None else identity.role
        return next((entry.path for entry in self._listed(role)), "/")

    async def page(
        self,
        session: sessions.ConsoleSession,
        entry: NavigationEntry,
        template: str,
        status: int,
        values: Mapping[str, Any],
    ) -> Response:
        """Return a whole page, with the navigation of the caller's role."""
        link, has_no_role = self.caller_of(session).link, False
        try:
            identity = await link.identity()
        except AskanceError as error:  # the page itself says what is wrong
            identity = None
            has_no_role = isinstance(error, CallRefused) and error.reason == "no-role"
        role = None if identity is None else identity.role
        notices = [*session.notices]
        session.notices.clear()
        common = {
            "title": entry.title,
            "caller": identity,
            "role": role,
            "aggregator": link.aggregator.address,
            "listed": [] if has_no_role else self._listed(role),
            "path": entry.path,
            "csrf": session.csrf,
            "notices": notices,
        }
        return HTMLResponse(self.templates.text(template, common | dict(values)), status)

    def _listed(self, role: str | None) -> list[NavigationEntry]:
        return [entry for entry in self.navigation if permitted(role, entry.calls)]
