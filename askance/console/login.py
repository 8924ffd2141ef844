"""Login by a link that works once, and logout."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from askance.console.routes import ConsoleRoute, Visit
from askance.console.sessions import SESSION_S
from askance.console.shared import Console


def routes(console: Console) -> list[BaseRoute]:
    """Return the routes that need no session."""

    async def login(request: Request) -> Response:
        token = request.query_params.get("token", "")
        if token and console.links.redeem(token):
            return _begun(console)
        if not token and console.session_of(request) is not None:
            return RedirectResponse("/start", 303)
        values = {"state": "refused" if token else "needed"}
        return HTMLResponse(console.templates.text("login.html", values), 403 if token else 200)

    async def renew(_: Request) -> Response:
        """Print another link in the terminal; without one that can be used, any browser may ask."""
        console.announce_link()
        return HTMLResponse(console.templates.text("login.html", {"state": "printed"}))

    return [Route("/login", login), Route("/login", renew, methods=["POST"])]


def _begun(console: Console) -> Response:
    """Begin a session.

    The browser goes on by itself from this page, not by a redirection: a link that was followed in
    another site's page would arrive without the new cookie, which is for our own pages only.
    """
    answer = HTMLResponse(console.templates.text("login.html", {"state": "begun"}))
    answer.set_cookie(
        console.cookie,
        console.sessions.begin(),
        max_age=SESSION_S,
        httponly=True,
        secure=console.secure,
        samesite="strict",
    )
    return answer


async def _logout(visit: Visit) -> Response:
    cookie = visit.console.cookie
    visit.console.sessions.end(visit.request.cookies.get(cookie, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(cookie, secure=visit.console.secure, httponly=True, samesite="strict")
    return answer


async def _start(visit: Visit) -> Response:
    """Lead to the first page that the caller's role may see."""
    return RedirectResponse(await visit.console.first_page(), 303)


START = ConsoleRoute("/start", _start, title="Start")
LOGOUT = ConsoleRoute("/logout", _logout, method="POST", title="Log out")
