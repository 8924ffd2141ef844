"""Routes of the console: each names the calls it makes, and every request of it is checked here.

An endpoint is a coroutine that is given a `Visit` and returns a response. It runs only for a
session, and for a POST only with the session's CSRF token; an aggregator's refusal becomes a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from askance.console.link import AggregatorLink, permitted, roles_of
from askance.console.sessions import ConsoleSession
from askance.console.shared import Console, NavigationEntry
from askance_aggregator.analyst import CallRefused
from askance_client.errors import AskanceError, InvalidParameter, PlanRefused

P = ParamSpec("P")
T = TypeVar("T")
MAX_FIELDS = 500  # of a form
_FORM = "application/x-www-form-urlencoded"
_FORBIDDEN = (
    "not-permitted",
    "no-role",
    "no-key",
    "untrusted-key",
    "own-study",
    "bad-token",
    "bad-signature",
)
_STATUSES = {
    **dict.fromkeys(_FORBIDDEN, 403),
    "unknown-study": 404,
    "unknown-epoch": 404,
    "unknown-device": 404,
    "results-deleted": 404,
    "unreachable": 502,
    "store-failed": 503,
    "too-many-calls": 503,
    "unread-answers": 503,
    "deadline-exceeded": 504,
}


@dataclass(frozen=True, slots=True)
class ConsoleForm:
    """Fields of a form, in the order in which they came; a name may stand more than once."""

    fields: tuple[tuple[str, str], ...] = ()

    def text(self, name: str) -> str:
        """Return the last value of a field without blanks around it; empty if there is none."""
        return next((value for key, value in reversed(self.fields) if key == name), "").strip()

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for key, value in self.fields if key == name]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that has passed the checks of its route.

    Args:
      request: the request; its body is in `form`.
      session: of the browser.
      form: fields of a POST; empty for a GET.
    """

    request: Request
    console: Console
    route: ConsoleRoute
    session: ConsoleSession
    form: ConsoleForm = ConsoleForm()

    @property
    def link(self) -> AggregatorLink:
        """Connection to the aggregator."""
        return self.console.caller_of(self.session).link

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call of the aggregator in a thread; see `AggregatorLink.call`."""
        return await self.link.call(work, *args, **kwargs)

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the address without blanks around it."""
        return str(self.request.query_params.get(name, default)).strip()

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return a parameter of the address that is a whole number."""
        text = self.query(name) or str(default)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
            raise InvalidParameter(f"{name}: expected a whole number, got {text[:40]!r}")
        if not low <= int(text) <= high:
            raise InvalidParameter(f"{name}: expected {low} to {high}, got {text}")
        return int(text)

    async def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a whole page."""
        return await self.console.page(self.session, self.route.entry, template, status, values)

    def fragment(self, template: str, **values: Any) -> str:
        """Return a part of a page, for live updates."""
        return self.console.templates.text(template, values)

    def redirect(self, path: str, notice: str = "") -> Response:
        """Return the answer after a change: the browser gets `path`, with a notice on top."""
        if notice:
            self.session.notices.append(notice)
        return RedirectResponse(path, 303)


Endpoint = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ConsoleRoute:
    """Route of the console.

    Args:
      path: with parameters in braces, as Starlette has them.
      calls: of the aggregator that it needs, as "Operators/Fleet"; a caller whose role may not make
        them all is refused before the endpoint runs, and the aggregator refuses it too.
      title: of the page, and in the navigation.
      method: GET, or POST for what changes something.
      is_listed: True if the navigation has it, for roles that may see it.
    """

    path: str
    endpoint: Endpoint
    calls: tuple[str, ...] = ()
    title: str = ""
    method: str = "GET"
    is_listed: bool = field(default=False, kw_only=True)

    @property
    def entry(self) -> NavigationEntry:
        """The route as a page of the navigation."""
        return NavigationEntry(self.path, self.title, self.calls)

    def of(self, console: Console) -> Route:
        """Return the route with its checks, for Starlette."""

        async def checked(request: Request) -> Response:
            session = console.session_of(request)
            if session is None:
                return _without_session(request)
            form = await self._form(request, console, session)
            visit = Visit(request, console, self, session, form)
            try:
                await self._permit(visit)
                answer = await self.endpoint(visit)
            except AskanceError as error:
                if session.is_over(console.clock_s()):  # the person's token has ended
                    return _without_session(request)
                answer = await _refused(visit, error)
            made = None
            if self.method == "GET" and "text/html" in request.headers.get("accept", ""):
                made = console.sessions.rotate(request.cookies.get(console.cookie, ""))
            if made is not None:
                console.set_cookie(answer, made)
            return answer

        return Route(self.path, checked, methods=[self.method])

    async def _form(
        self, request: Request, console: Console, session: ConsoleSession
    ) -> ConsoleForm:
        """Read and check a form; raise HTTPException if it is not from a page of this session."""
        if self.method != "POST":
            return ConsoleForm()
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in console.origins:
            raise HTTPException(403, "form: expected one of the console's own pages")
        form = await read_form(request)
        if not session.is_own(form.text("csrf")):
            raise HTTPException(
                403, "form: expected the token of this session; load the page again"
            )
        return form

    async def _permit(self, visit: Visit) -> None:
        """Raise CallRefused if the caller's role lacks one of the calls."""
        identity = await visit.link.identity() if self.calls else None
        if identity is not None and not permitted(identity.role, self.calls):
            raise CallRefused(
                "not-permitted", f"{self.title or self.path}: your role is {identity.role}"
            )


async def read_form(request: Request) -> ConsoleForm:
    """Read the fields of a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, f"form: expected {_FORM}")
    try:
        text = (await request.body()).decode()
        found = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(400, f"form: expected UTF-8 and at most {MAX_FIELDS} fields") from None
    return ConsoleForm(tuple(found))


def _without_session(request: Request) -> Response:
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/login", 303)
    raise HTTPException(401, "session: expected a browser that has logged in")


def refusal_status(error: AskanceError) -> int:
    """Return the status of HTTP of a refusal."""
    return _STATUSES.get(error.reason if isinstance(error, CallRefused) else "", 400)


async def _refused(visit: Visit, error: AskanceError) -> Response:
    """Return the page of a refusal: the role that is needed, or what the aggregator said."""
    reason = error.reason if isinstance(error, CallRefused) else ""
    known: Mapping[str, Any] = {
        "reason": reason,
        "message": str(error),
        "needed": roles_of(visit.route.calls) if reason == "not-permitted" else [],
        "is_refusal_of_plan": isinstance(error, PlanRefused),
    }
    return await visit.page("refused.html", refusal_status(error), **known)
