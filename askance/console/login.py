"""Login by a link that works once, or by an issuer; and logout."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from askance.console import openid
from askance.console.routes import ConsoleRoute, Visit
from askance.console.sessions import ConsoleCaller
from askance.console.shared import Console

_CALLS = 4
"""Logins that wait for the issuer at one time; other pages have the remaining threads."""


def routes(console: Console) -> list[BaseRoute]:
    """Return the routes that need no session."""
    if console.issuer is not None:
        return _issuer_routes(console, console.issuer)

    async def login(request: Request) -> Response:
        token = request.query_params.get("token", "")
        if token and console.links.redeem(token):
            return _begun(console, console.sessions.begin())
        if not token and console.session_of(request) is not None:
            return RedirectResponse("/start", 303)
        values = {"state": "refused" if token else "needed"}
        return HTMLResponse(console.templates.text("login.html", values), 403 if token else 200)

    async def renew(_: Request) -> Response:
        """Print another link in the terminal; without one that can be used, any browser may ask."""
        console.announce_link()
        return HTMLResponse(console.templates.text("login.html", {"state": "printed"}))

    return [Route("/login", login), Route("/login", renew, methods=["POST"])]


def _issuer_routes(console: Console, issuer: openid.OpenIdIssuer) -> list[BaseRoute]:
    """Return the routes of logins by an issuer."""
    pending, free = f"{console.cookie}_login", asyncio.Semaphore(_CALLS)
    call = console.own.link.call

    async def login(request: Request) -> Response:
        if console.session_of(request) is not None:
            return RedirectResponse("/start", 303)
        return _page(console, issuer)

    async def begin(_: Request) -> Response:
        """Send the browser to the issuer, with a cookie by which it is known when it is back."""
        cookie, values = console.logins.begin()
        try:
            async with free:
                address = await call(issuer.address, values, console.redirect)
        except openid.LoginRefused as error:
            return _page(console, issuer, error)
        answer = RedirectResponse(address, 303)
        answer.set_cookie(
            pending,
            cookie,
            max_age=openid.LOGIN_S,
            httponly=True,
            secure=console.secure,
            samesite="lax",  # the issuer's redirection has to bring it
        )
        return answer

    async def callback(request: Request) -> Response:
        """Redeem the issuer's code, and begin a session of the person."""
        query = request.query_params
        try:
            values = console.logins.end(request.cookies.get(pending, ""), query.get("state", ""))
            issuer.check_sender(query.get("iss"))
            if "error" in query or not query.get("code"):
                said = openid.error_word(query.get("error", ""))
                raise openid.LoginRefused(
                    "issuer-refused", f"login: the issuer refused it ({said})"
                )
            async with free:
                tokens = await call(issuer.redeem, query["code"], values, console.redirect)
        except openid.LoginRefused as error:
            answer = _page(console, issuer, error)
        else:
            console.sessions.end(request.cookies.get(console.cookie, ""))
            answer = _begun(console, _session_of(console, issuer, tokens))
        answer.delete_cookie(pending, secure=console.secure, httponly=True, samesite="lax")
        return answer

    return [
        Route("/login", login),
        Route("/login/begin", begin),
        Route("/login/callback", callback),
    ]


def _page(
    console: Console, issuer: openid.OpenIdIssuer, problem: openid.LoginRefused | None = None
) -> HTMLResponse:
    """Return the page that leads to the issuer."""
    away = problem is not None and problem.reason == "issuer-away"
    values = {"state": "issuer", "issuer": issuer.settings.issuer, "problem": problem}
    text = console.templates.text("login.html", values)
    return HTMLResponse(text, 200 if problem is None else 502 if away else 403)


def _session_of(console: Console, issuer: openid.OpenIdIssuer, tokens: openid.PersonTokens) -> str:
    """Begin the session of a person, who makes calls by tokens of the issuer; return its cookie."""
    source = openid.PersonSource(issuer, tokens, console.now_s)
    link = console.own.link.for_token(source.current)
    cookie = console.sessions.begin(ConsoleCaller.of(link, console.clock_s, tokens.subject))
    session = console.sessions.find(cookie)
    assert session is not None  # it has just begun
    source.on_end(lambda: session.end(console.clock_s()))
    return cookie


def _begun(console: Console, cookie: str) -> HTMLResponse:
    """Return the page of a session that has begun."""
    # The browser goes on by itself from this page, not by a redirection: a link that was followed
    # in another site's page would arrive without the new cookie, which is for our own pages only.
    answer = HTMLResponse(console.templates.text("login.html", {"state": "begun"}))
    console.set_cookie(answer, cookie)
    return answer


async def _logout(visit: Visit) -> Response:
    cookie = visit.console.cookie
    visit.console.sessions.end(visit.request.cookies.get(cookie, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(cookie, secure=visit.console.secure, httponly=True, samesite="strict")
    return answer


async def _start(visit: Visit) -> Response:
    """Lead to the first page that the caller's role may see."""
    return RedirectResponse(await visit.console.first_page(visit.session), 303)


START = ConsoleRoute("/start", _start, title="Start")
LOGOUT = ConsoleRoute("/logout", _logout, method="POST", title="Log out")
