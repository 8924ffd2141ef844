"""Login of one browser: a link that works once, then a cookie on a path that no other site knows.

A cookie of 127.0.0.1 is sent to every port of it, so also to a server of another user of the same
machine. This one is bound to a random path, so that only requests below that path carry it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from threading import Lock

LINK_S = 600
"""Seconds for which the printed link works."""

LIFE_S = 8 * 3_600
"""Seconds after which a login ends: a working day."""

COOKIE = "askance_owner"


def write_link(file: Path, origin: str, secret: str, now_s: int) -> str:
    """Write the link that logs the next browser in, in place of an earlier one, and return it.

    Args:
      file: that only the owner's account reads; the page reads it for each login, so that another
        process may write a link.
      origin: address of the page, without a path.
      secret: the link's last part, which no other process can guess.
      now_s: the time on a clock that all processes of the machine share.
    """
    link = f"{origin}/login/{secret}"
    file.unlink(missing_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(f"{now_s + LINK_S} {link}")
    return link


class OwnerSession:
    """Link, login and form token of one run of the page; shared between threads.

    `path` is the start of all paths that need a login; `form_token` what a form must send back. A
    login ends the one before it.

    Args:
      file: of the link (`write_link`).
    """

    def __init__(self, secret: Callable[[], str], now_s: Callable[[], int], file: Path) -> None:
        self._now_s, self._secret, self._file = now_s, secret, file
        self._lock = Lock()
        self._cookie, self._until_s = secret(), now_s()  # no browser is logged in
        self.path = f"/{secret()}/"
        self.form_token = secret()

    @property
    def link(self) -> str:
        """Path that logs the next browser in; empty: it was used, is old, or there is none."""
        with suppress(OSError, ValueError):
            until, link = self._file.read_text().split()
            return f"/login/{link.rpartition('/')[2]}" if self._now_s() < int(until) else ""
        return ""

    def redeem(self, path: str) -> str | None:
        """Return the header that logs a browser in; None if the link is another, old or used."""
        with self._lock:
            link = self.link
            if not link or not _equal(path, link):
                return None
            self._file.write_text(f"0 {self._file.read_text().split()[1]}")
            self._cookie, self._until_s = self._secret(), self._now_s() + LIFE_S
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
