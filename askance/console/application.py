"""The application: its parts, its table of routes, and the pages that belong to no module."""

from __future__ import annotations

from importlib import resources
from pathlib import PurePosixPath

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from askance.console import login
from askance.console.pages import PAGES
from askance.console.routes import ConsoleRoute
from askance.console.security import GuardedApplication
from askance.console.shared import Console

ROUTES: tuple[ConsoleRoute, ...] = (
    *(route for page in PAGES for route in page.ROUTES),
    login.START,
    login.LOGOUT,
)
"""All routes that need a session. The others: /login, and the files of `static/`."""

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def application(console: Console) -> ASGIApp:
    """Return the application of a console, guarded."""
    console.navigation = tuple(route.entry for route in ROUTES if route.is_listed)
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
    """Return the route of the files of `static/`, which are all read now: no path is followed.

    Styles and mark of the owner's page are among them, so that both consoles have one look.
    """
    folders = (
        resources.files("askance.console").joinpath("static"),
        resources.files("askance_client").joinpath("console"),
    )
    files = {
        file.name: (file.read_bytes(), _TYPES[PurePosixPath(file.name).suffix])
        for folder in folders
        for file in folder.iterdir()
        if PurePosixPath(file.name).suffix in _TYPES
    }

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404, "file: expected one of the console's own")
        content, media_type = files[name]
        return Response(content, media_type=media_type, headers={"cache-control": "max-age=300"})

    return Route("/static/{name}", static)
