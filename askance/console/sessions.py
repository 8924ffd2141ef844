"""Login links that work once, and sessions: those of links, and those of people by an issuer.

A person's session ends when nothing was asked for half an hour, and its cookie is replaced every
quarter of an hour; the one before is good for the requests that are on their way.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from askance.console.history import FleetHistory
from askance.console.link import AggregatorLink


@dataclass(slots=True)
class ConsoleCaller:
    """A caller of the aggregator; what is read for one is shown to no other.

    Args:
      link: calls the aggregator with the caller's key or token.
      history: readings of the fleet that the caller was permitted to make.
      person: the subject at the issuer; empty: the console's own caller.
      live_pages: streams that are open for the caller.
    """

    link: AggregatorLink
    history: FleetHistory
    person: str = ""
    live_pages: int = 0

    @classmethod
    def of(
        cls, link: AggregatorLink, clock_s: Callable[[], float], person: str = ""
    ) -> ConsoleCaller:
        """Return a caller of whom nothing was read yet."""
        return cls(link, FleetHistory(link, clock_s), person)


LINK_S = 600  # life of a login link: long enough to copy it to a browser
SESSION_S = 12 * 3_600  # life of a session: a working day
MAX_SESSIONS = 32  # the oldest ends when one more begins
MAX_SUBMITTED = 1_000  # forms of a session whose second submission is refused
MAX_PEOPLE_SESSIONS = 1_000  # of a console that serves several people
MAX_PERSON_SESSIONS = 8  # of one of them, in several browsers
IDLE_S = 1_800  # after which a person's session without a request ends
ROTATE_S = 900  # after which a person's cookie is replaced
_BEFORE_S = 60  # for which the cookie before is good
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
      caller: a person who has logged in by the issuer; None: the console's own caller.
      seen_s: when a page was asked for last.
      cookie_s: when its cookie was made.
    """

    csrf: str
    ends_s: float
    caller: ConsoleCaller | None = None
    seen_s: float = 0.0
    cookie_s: float = 0.0
    notices: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)

    def end(self, now_s: float) -> None:
        """End it, and its live pages; for any thread."""
        self.ends_s = now_s

    def is_over(self, now_s: float) -> bool:
        """Return whether it has ended, of itself or because nothing was asked."""
        is_idle = self.caller is not None and now_s - self.seen_s >= IDLE_S
        return is_idle or now_s >= self.ends_s

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
        self._before: dict[bytes, tuple[ConsoleSession, float]] = {}  # and until when it is good

    def begin(self, caller: ConsoleCaller | None = None) -> str:
        """Begin a session and return its cookie; the oldest ones end where there are too many."""
        now_s, cookie = self._now_s(), self._secrets(_SECRET_BYTES).hex()
        most = MAX_SESSIONS if caller is None else MAX_PEOPLE_SESSIONS
        for digest, session in [*self._sessions.items()]:
            if session.is_over(now_s):
                self._drop(digest)
        if caller is not None:
            same = [
                digest
                for digest, one in self._sessions.items()
                if one.caller is not None and one.caller.person == caller.person
            ]
            for digest in same[: max(len(same) - MAX_PERSON_SESSIONS + 1, 0)]:
                self._drop(digest)
        while len(self._sessions) >= most:
            self._drop(next(iter(self._sessions)))
        csrf = self._secrets(_SECRET_BYTES).hex()
        made = ConsoleSession(csrf, now_s + SESSION_S, caller, seen_s=now_s, cookie_s=now_s)
        self._sessions[_digest(cookie)] = made
        return cookie

    def find(self, cookie: str, *, is_request: bool = True) -> ConsoleSession | None:
        """Return the session of a cookie; None if there is none or it has ended.

        `is_request` is False for a stream, which opens again by itself and keeps no session alive.
        """
        now_s, digest = self._now_s(), _digest(cookie)
        known = self._sessions.get(digest)
        if known is None:
            known, until_s = self._before.get(digest, (None, 0.0))
            known = known if now_s < until_s else None
        if known is None or known.is_over(now_s):
            return None
        if is_request:
            known.seen_s = now_s
        return known

    def rotate(self, cookie: str) -> str | None:
        """Return a new cookie of a person's session; None: the one that it has is new enough."""
        now_s, digest = self._now_s(), _digest(cookie)
        session = self._sessions.get(digest)
        if session is None or session.caller is None or now_s - session.cookie_s < ROTATE_S:
            return None
        made = self._secrets(_SECRET_BYTES).hex()
        # Under a new name at its old place: the oldest session stays the first one.
        self._sessions = {
            _digest(made) if one == digest else one: found for one, found in self._sessions.items()
        }
        self._before = {one: old for one, old in self._before.items() if now_s < old[1]}
        self._before[digest] = (session, now_s + _BEFORE_S)
        session.cookie_s = now_s
        return made

    def end(self, cookie: str) -> None:
        """End the session of a cookie, if there is one, and its live pages."""
        session = self.find(cookie)
        for digest, one in [*self._sessions.items()]:
            if one is session:
                self._drop(digest)

    def _drop(self, digest: bytes) -> None:
        self._sessions.pop(digest).end(self._now_s())


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
