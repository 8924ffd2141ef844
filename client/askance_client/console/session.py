"""Login of one browser: a link that works once, then a cookie on a path that no other site knows.

A cookie of 127.0.0.1 is sent to every port of it, so also to a server of another user of the same
machine. This one is bound to a random path, so that only requests below that path carry it.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from threading import Lock

LINK_S = 600
"""Seconds for which the printed link works."""

LIFE_S = 8 * 3_600
"""Seconds after which a login ends: a working day."""

COOKIE = "askance_owner"


class OwnerSession:
    """Link, login and form token of one run of the page; shared between threads.

    `link` is the path that logs the first browser in, empty once it was used; `path` the start of
    all paths that need a login; `form_token` what a form must send back.
    """

    def __init__(self, secret: Callable[[], str], now_s: Callable[[], int]) -> None:
        self._now_s = now_s
        self._lock = Lock()
        self.link = f"/login/{secret()}"
        self._link_until_s = now_s() + LINK_S
        self._cookie = secret()
        self._until_s = now_s()  # no browser is logged in
        self.path = f"/{secret()}/"
        self.form_token = secret()

    def redeem(self, path: str) -> str | None:
        """Return the header that logs a browser in; None if the link is another, old or used."""
        with self._lock:
            now_s = self._now_s()
            if not self.link or now_s >= self._link_until_s or not _equal(path, self.link):
                return None
            self.link, self._until_s = "", now_s + LIFE_S
            return f"{COOKIE}={self._cookie}; Path={self.path}; HttpOnly; SameSite=Strict"

    def holds(self, cookies: str) -> bool:
        """Return whether a `Cookie` header is of the browser that is logged in."""
        parts = [part.strip().partition("=") for part in cookies.split(";")]
        with self._lock:
            if self._now_s() >= self._until_s:
                return False
        return any(name == COOKIE and _equal(value, self._cookie) for name, _, value in parts)

    def accepts(self, form_token: str) -> bool:
        """Return whether a form was made by this page."""
        return _equal(form_token, self.form_token)

    def end(self) -> None:
        """Log out; the cookie is worth nothing from now on."""
        with self._lock:
            self._until_s = self._now_s()


def _equal(given: str, expected: str) -> bool:
    """Compare in a time that does not depend on how much agrees."""
    return compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
