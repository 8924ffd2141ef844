"""The application: its parts, its table of routes, and the pages that belong to no module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from askance.console import login
from askance.console.formats import FILTERS
from askance.console.history import FleetHistory
from askance.console.link import AggregatorLink, permitted
from askance.console.pages import PAGES
from askance.console.routes import ConsoleRoute, Visit
from askance.console.security import GuardedApplication
from askance.console.sessions import ConsoleSession, ConsoleSessions, LoginLinks, Secrets
from askance_client.errors import AskanceError
from askance_client.version import __version__

ROUTES: tuple[ConsoleRoute, ...] = (
    *(route for page in PAGES for route in page.ROUTES),
    login.START,
    login.LOGOUT,
)
"""All routes that need a session. The others: /login, and the files of `static/`."""

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


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
      link: connection to the aggregator.
      hosts: values that the header Host may have, lower case; the first one is in login links.
      secure: True if the console is served over TLS.
      announce: called with each login link; it prints the link where only the caller reads it.
      secrets: source of randomness.
      clock_s: the time in seconds, on a clock that is never set.
    """

    def __init__(
        self,
        link: AggregatorLink,
        *,
        hosts: Collection[str],
        secure: bool,
        announce: Callable[[str], None],
        secrets: Secrets,
        clock_s: Callable[[], float],
    ) -> None:
        self.link = link
        self.hosts = tuple(hosts)
        self.secure = secure
        self.clock_s = clock_s
        self.templates = Templates()
        self.history = FleetHistory(link, clock_s)
        scheme = "https" if secure else "http"
        self.origins = tuple(f"{scheme}://{host}" for host in self.hosts)  # of forms
        self.links = LoginLinks(secrets, clock_s)
        self.sessions = ConsoleSessions(secrets, clock_s)
        self.live_pages = 0
        self._announce = announce
        port = self.hosts[0].rpartition(":")[2]
        # Cookies are shared by the ports of a host; each console has one of its own name.
        self.cookie = f"__Host-askance_{port}" if secure else f"askance_{port}"

    @property
    def origin(self) -> str:
        """Address of the console for a browser, without a path."""
        return self.origins[0]

    def announce_link(self) -> None:
        """Print a login link, unless one that was printed can still be used."""
        if not self.links.is_outstanding:
            self._announce(f"{self.origin}/login?token={self.links.issue()}")

    def session_of(self, request: Request) -> ConsoleSession | None:
        """Return the session of a browser; None if it has not logged in."""
        return self.sessions.find(request.cookies.get(self.cookie, ""))

    async def first_page(self) -> str:
        """Return the path of the first page that the caller's role may see.

        Raises:
          CallRefused: the caller is unknown, or the aggregator is away.
        """
        identity = await self.link.identity()
        role = None if identity is None else identity.role
        listed = (r.path for r in ROUTES if r.is_listed and permitted(role, r.calls))
        return next(listed, "/")

    async def page(
        self, visit: Visit, template: str, status: int, values: Mapping[str, Any]
    ) -> Response:
        """Return a whole page, with the navigation of the caller's role; see `Visit.page`."""
        try:
            identity = await self.link.identity()
        except AskanceError:  # the page itself says what is wrong
            identity = None
        role = None if identity is None else identity.role
        notices = [*visit.session.notices]
        visit.session.notices.clear()
        common = {
            "title": visit.route.title,
            "caller": identity,
            "role": role,
            "aggregator": self.link.aggregator.address,
            "listed": [r for r in ROUTES if r.is_listed and permitted(role, r.calls)],
            "path": visit.route.path,
            "csrf": visit.session.csrf,
            "notices": notices,
        }
        return HTMLResponse(self.templates.text(template, common | dict(values)), status)


def application(console: Console) -> ASGIApp:
    """Return the application of a console, guarded."""
    routes: list[BaseRoute] = [route.of(console) for route in ROUTES]
    routes += login.routes(console)
    routes.append(_static_route())

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(error.detail, error.status_code, headers=error.headers)
        text = console.templates.text(
            "problem.html", {"status": error.status_code, "message": error.detail}
        )
        return HTMLResponse(text, error.status_code, headers=error.headers)

    inner = Starlette(routes=routes, exception_handlers={HTTPException: problem})
    return GuardedApplication(inner, console.hosts)


def _static_route() -> Route:
    """Return the route of the files of `static/`, which are all read now: no path is followed."""
    files = {
        file.name: (file.read_bytes(), _TYPES[PurePosixPath(file.name).suffix])
        for file in resources.files("askance.console").joinpath("static").iterdir()
        if PurePosixPath(file.name).suffix in _TYPES
    }

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404, "file: expected one of the console's own")
        content, media_type = files[name]
        return Response(content, media_type=media_type, headers={"cache-control": "max-age=300"})

    return Route("/static/{name}", static)
