"""`device console`: serve the owner's page until a signal."""

from __future__ import annotations

import argparse
import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

from askance_client.console import pages
from askance_client.console.parts import OwnersView, plain_page
from askance_client.console.server import OwnerServer, PageAnswer, PageRequest
from askance_client.console.session import LINK_S, OwnerSession, write_link
from askance_client.errors import AskanceError, InvalidParameter, StoreError
from askance_client.owner.consents import MAX_DAYS
from askance_client.printable import value_text

ROWS = 50
"""Rows of a page of the history."""

STUDIES = 10
"""Studies of a page, each with its budgets, for which a device reads all its members' sums."""

_NEWEST = 5  # questions of the first page

_MAX_PAGE = 10_000

Ask = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]
"""Lets the device do an operation of its owner (`askance_client.cli.folder.ask`)."""

_TITLES = {400: "Bad request", 403: "Not logged in", 404: "No such page", 421: "Wrong host"}
_LOG_IN = """Log in with the link that device console printed. It works once: device console FOLDER
--link prints a new one."""
_LOGGED_OUT = "device console FOLDER --link prints a new link."


class NotServed(Exception):
    """Request that is not answered; its argument is the status of HTTP."""


@dataclass(frozen=True, slots=True)
class OwnerSite:
    """Site of one device or gateway, for one browser; safe to call from several threads.

    Args:
      hosts: values of the header `Host` that are answered: a name that another site made point to
        loopback is not among them.
    """

    ask: Ask
    csv: Callable[[dict[str, Any]], str]
    session: OwnerSession
    view: OwnersView
    hosts: frozenset[str]
    _lock: Lock = field(default_factory=Lock)  # a folder without a running device opens once

    def respond(self, request: PageRequest) -> PageAnswer:
        """Answer a request."""
        try:
            return self._routed(request)
        except NotServed as error:
            return refusal(error.args[0])
        except InvalidParameter as error:
            return PageAnswer(pages.failure(self.view, "Not accepted", str(error)), 400)
        except AskanceError as error:
            return PageAnswer(pages.failure(self.view, "No answer", str(error)), 503)

    def _routed(self, request: PageRequest) -> PageAnswer:
        if request.host not in self.hosts:
            raise NotServed(421)
        if request.path == "/style.css" and request.method == "GET":
            style = files(__package__).joinpath("style.css").read_bytes()
            return PageAnswer(style, kind="text/css; charset=utf-8")
        if request.path.startswith("/login/") and request.method == "GET":
            return self._log_in(request.path)
        if not (request.path.startswith(self.session.path) and self.session.holds(request.cookies)):
            raise NotServed(403)
        route = _ROUTES.get((request.method, request.path.removeprefix(self.session.path)))
        if route is None:
            raise NotServed(404)
        if request.method == "POST" and not self._is_own(request):
            raise NotServed(403)
        return route(self, request)

    def _is_own(self, request: PageRequest) -> bool:
        """Return whether a form is this page's, sent by it."""
        own = request.origin in (None, f"http://{request.host}")
        return own and self.session.accepts(request.form.get("token", ""))

    def _log_in(self, path: str) -> PageAnswer:
        cookie = self.session.redeem(path)
        if cookie is None:
            raise NotServed(403)
        return _moved(self.session.path, {"Set-Cookie": cookie})

    def _budgets(self, _: PageRequest) -> PageAnswer:
        policy = self._allowed()
        known = sorted(self._known(), key=lambda found: found.get("state") != "waiting")
        shown = [self._whole(found) for found in known[:STUDIES]]
        return PageAnswer(pages.budgets(self.view, policy, shown, self._rows(newest=_NEWEST)[::-1]))

    def _history(self, request: PageRequest) -> PageAnswer:
        page = _number("page", request.query.get("page", "1"), _MAX_PAGE)
        found = self._rows(newest=page * ROWS + 1)[::-1][(page - 1) * ROWS :]
        return PageAnswer(pages.history(self.view, found[:ROWS], page, older=len(found) > ROWS))

    def _studies(self, request: PageRequest) -> PageAnswer:
        page = _number("page", request.query.get("page", "1"), _MAX_PAGE)
        known = self._known()[(page - 1) * STUDIES :]
        shown = [self._whole(found) for found in known[:STUDIES]]
        older = len(known) > STUDIES
        return PageAnswer(pages.studies(self.view, shown, page, older=older))

    def _study(self, request: PageRequest) -> PageAnswer:
        found = self._whole(request.query)
        if "study" not in found:  # the digits of a request, which has no page
            raise NotServed(404)
        return PageAnswer(pages.study(self.view, found))

    def _policy(self, _: PageRequest) -> PageAnswer:
        return PageAnswer(pages.policy(self.view, self._allowed()))

    def _export(self, _: PageRequest) -> PageAnswer:
        body = f"{self.csv({'entries': self._rows()})}\n".encode("utf-8", "backslashreplace")
        headers = {"Content-Disposition": 'attachment; filename="history.csv"'}
        return PageAnswer(body, kind="text/csv; charset=utf-8", headers=headers)

    def _decide(self, request: PageRequest) -> PageAnswer:
        verdict = request.form.get("verdict", "")
        if self.view.member or verdict not in ("approve", "deny"):
            raise NotServed(400)
        given: dict[str, Any] = {k: request.form.get(k, "") for k in ("study", "analyst", "why")}
        if verdict == "approve" and (days := request.form.get("days", "")):
            given["days"] = _number("days", days, MAX_DAYS)
        (decided,) = self._asked(verdict, given)
        return _moved(self.session.path + pages.study_path(decided["study"], decided["analyst"]))

    def _end(self, _: PageRequest) -> PageAnswer:
        self.session.end()
        return PageAnswer(plain_page("Logged out", _LOGGED_OUT))

    def _asked(self, name: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            return self.ask(name, arguments)

    def _allowed(self) -> dict[str, Any]:
        return self._asked("policy", {"member": self.view.member})[0]

    def _known(self) -> list[dict[str, Any]]:
        """Studies, newest first."""
        return self._asked("studies", {})[::-1]

    def _whole(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Study with its questions, and with what is left to the owner or the member."""
        if len(found.get("study", "")) != 64:  # digits; fewer would name another, or all
            raise NotServed(404)
        named = {"name": found["study"], "analyst": found.get("analyst", "")}
        return self._asked("explain", {**named, "member": self.view.member})[0]

    def _rows(self, **which: int) -> list[dict[str, Any]]:
        """Rows of the history, oldest first."""
        return self._asked("history", {"member": self.view.member, **which})


_ROUTES: Mapping[tuple[str, str], Callable[[OwnerSite, PageRequest], PageAnswer]] = {
    ("GET", ""): OwnerSite._budgets,
    ("GET", "history"): OwnerSite._history,
    ("GET", "studies"): OwnerSite._studies,
    ("GET", "study"): OwnerSite._study,
    ("GET", "policy"): OwnerSite._policy,
    ("GET", "history.csv"): OwnerSite._export,
    ("POST", "decide"): OwnerSite._decide,
    ("POST", "end"): OwnerSite._end,
}


def refusal(status: int) -> PageAnswer:
    """Make the answer to a request that is not served; it says nothing of the device."""
    text = "This page does not exist." if status == 404 else _LOG_IN
    return PageAnswer(plain_page(_TITLES.get(status, f"Error {status}"), text), status)


def _moved(path: str, headers: Mapping[str, str] | None = None) -> PageAnswer:
    return PageAnswer(b"", 303, headers={"Location": path, **(headers or {})})


def _number(name: str, text: str, most: int) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
        raise InvalidParameter(f"{name}: expected 1 to {most}, got {value_text(text)}")
    return int(text)


_SECRET = partial(secrets.token_urlsafe, 32)
_TEXT = f"Open {{}}\nIt works once, within {LINK_S // 60} minutes."


def run_console(
    ask: Ask, csv: Callable[[dict[str, Any]], str], arguments: argparse.Namespace
) -> int:
    """Serve the page on loopback until an interrupt, and print a login link; or print another one.

    Raises:
      StoreError: the port cannot be had, the device's folder cannot be used, or no page is served.
      InvalidParameter: bad configuration, or a name that no member can have.
    """
    file = arguments.folder.joinpath(f"console-link{arguments.member.encode().hex()}")
    if arguments.link:
        try:
            origin = file.read_text().split()[1].partition("/login/")[0]
        except (OSError, IndexError):
            raise StoreError(
                f"--link: expected a page that is served, got none of {arguments.folder}"
            ) from None
        _print_link(file, origin, arguments)
        return 0
    ask("policy", {"member": arguments.member})  # a folder that cannot be used fails at once
    session = OwnerSession(_SECRET, _now_s, file)
    with OwnerServer(arguments.port) as server:
        view = OwnersView(session.form_token, arguments.member)
        site = OwnerSite(ask, csv, session, view, server.hosts)
        server.respond, server.refuse = site.respond, refusal
        _print_link(file, f"http://127.0.0.1:{server.server_port}", arguments)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        file.unlink(missing_ok=True)
    return 0


def _print_link(file: Path, origin: str, arguments: argparse.Namespace) -> None:
    link = write_link(file, origin, _SECRET(), _now_s())
    as_json = json.dumps({"link": link, "valid_s": LINK_S})
    print(as_json if arguments.json else _TEXT.format(link), flush=True)


def _now_s() -> int:
    """Return seconds of a clock that all processes share and that is never set."""
    return time.monotonic_ns() // 10**9
