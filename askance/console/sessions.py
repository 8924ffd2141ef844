"""Login links that work once, and the sessions that they begin."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

LINK_S = 600  # life of a login link: long enough to copy it to a browser
SESSION_S = 12 * 3_600  # life of a session: a working day
MAX_SESSIONS = 32  # the oldest ends when one more begins
MAX_SUBMITTED = 1_000  # forms of a session whose second submission is refused
_SECRET_BYTES = 32

Secrets = Callable[[int], bytes]
"""Return that many random bytes."""


@dataclass(slots=True)
class ConsoleSession:
    """Session of a browser that has logged in.

    Args:
      csrf: text that every form of the session carries.
      ends_s: from then on it is no session.
      notices: messages for the next page.
      submitted: texts of the forms that were submitted, the oldest first.
    """

    csrf: str
    ends_s: float
    notices: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)

    def is_own(self, csrf: str) -> bool:
        """Return whether a form's text is that of the session."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode())

    def begin_submission(self, once: str) -> bool:
        """Note that a form is submitted; return False if it was before."""
        if once in self.submitted:
            return False
        self.submitted[:] = [*self.submitted[-MAX_SUBMITTED + 1 :], once]
        return True

    def withdraw_submission(self, once: str) -> None:
        """Let a form be submitted again, since its submission was refused."""
        if once in self.submitted:
            self.submitted.remove(once)


class LoginLinks:
    """Tokens of login links; each is kept as its digest and redeemed once."""

    def __init__(self, secrets: Secrets, now_s: Callable[[], float]) -> None:
        self._secrets = secrets
        self._now_s = now_s
        self._ends_s: dict[bytes, float] = {}

    def issue(self) -> str:
        """Return a new token, valid for ten minutes; earlier ones are void."""
        token = self._secrets(_SECRET_BYTES).hex()
        self._ends_s = {_digest(token): self._now_s() + LINK_S}
        return token

    @property
    def is_outstanding(self) -> bool:
        """True while a token can be redeemed."""
        return any(self._now_s() < ends_s for ends_s in self._ends_s.values())

    def redeem(self, token: str) -> bool:
        """Return whether a token is valid now; it is void from then on."""
        return self._now_s() < self._ends_s.pop(_digest(token), 0.0)


class ConsoleSessions:
    """Sessions by the digests of their cookies."""

    def __init__(self, secrets: Secrets, now_s: Callable[[], float]) -> None:
        self._secrets = secrets
        self._now_s = now_s
        self._sessions: dict[bytes, ConsoleSession] = {}

    def begin(self) -> str:
        """Begin a session and return its cookie."""
        cookie = self._secrets(_SECRET_BYTES).hex()
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions))).ends_s = self._now_s()
        csrf = self._secrets(_SECRET_BYTES).hex()
        self._sessions[_digest(cookie)] = ConsoleSession(csrf, self._now_s() + SESSION_S)
        return cookie

    def find(self, cookie: str) -> ConsoleSession | None:
        """Return the session of a cookie; None if there is none or it has ended."""
        known = self._sessions.get(_digest(cookie))
        return known if known is not None and self._now_s() < known.ends_s else None

    def end(self, cookie: str) -> None:
        """End the session of a cookie, if there is one, and its live pages."""
        ended = self._sessions.pop(_digest(cookie), None)
        if ended is not None:
            ended.ends_s = self._now_s()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
