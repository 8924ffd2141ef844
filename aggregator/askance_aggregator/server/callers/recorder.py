"""Recorder of what callers did, in the audit log."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from askance_aggregator.server.outer.addresses import address_of
from askance_aggregator.store import AuditEvent, AuditLog

MAX_REFUSALS = 60  # entries per caller and minute; the entry after them counts those in between
_WINDOW_S = 60
_LOCAL = "local"


@dataclass(slots=True)
class _Window:
    """Refusals of one caller in one minute: how many, and the last one that has no entry yet."""

    minute: int
    refusals: int = 0
    left_out: AuditEvent | None = None


class AuditRecorder:
    """Append what callers do to an audit log; blocks, for any thread."""

    def __init__(self, log: AuditLog, now_s: Callable[[], int]) -> None:
        self._log = log
        self._now_s = now_s
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}

    def record(self, event: AuditEvent, nonce: bytes = b"") -> int:
        """Append an event now, and return the number of its entry.

        Args:
          event: what happened; its time is set here.
          nonce: of the call; empty: none.

        Raises:
          NonceKnown: a call with this nonce was recorded before. StoreError: nothing was recorded.
        """
        return self._log.append(replace(event, at_unix_s=self._now_s()), nonce).number

    def refuse(self, event: AuditEvent) -> None:
        """Append a refusal, or count it if its caller was refused too often in this minute.

        Raises:
          StoreError: nothing was recorded.
        """
        self.flush()
        with self._lock:
            minute = self._now_s() // _WINDOW_S
            window = self._windows.setdefault(event.who, _Window(minute))
            window.refusals += 1
            if window.refusals > MAX_REFUSALS:
                before = window.left_out
                count = 1 if before is None else before.count + 1
                window.left_out = replace(event, count=count)
                return
        self.record(event)

    def flush(self, *, all_of_them: bool = False) -> None:
        """Append the refusals that were counted in minutes that are over."""
        minute = self._now_s() // _WINDOW_S
        with self._lock:
            over = [
                who
                for who, window in self._windows.items()
                if all_of_them or window.minute != minute
            ]
            counted = [self._windows.pop(who).left_out for who in over]
        for event in counted:
            if event is not None:
                self.record(event)


def record_command(
    log: AuditLog,
    action: str,
    subject: str,
    *,
    now_s: Callable[[], int],
    outcome: str = "done",
    changed: int | None = None,
    began: int = 0,
    user: Callable[[], str] = getpass.getuser,
) -> int:
    """Record a command that an operator ran on the aggregator's machine; return the entry's number.

    Args:
      log: the store's.
      action: the command's words, as "device revoke".
      subject: what it was about: how devices were selected, or a file; no user's value or name.
      now_s: the time, in whole seconds since 1970, UTC.
      outcome: "begun", "done" or "failed: WORD".
      changed: devices and gateways that it changed.
      began: number of the entry with which it began.
      user: returns the name of the operator's account.

    Raises:
      StoreError: nothing was recorded; the command is not to be carried out, or to fail.
    """
    event = AuditEvent(
        now_s(), user(), _LOCAL, action, subject, _LOCAL, outcome, changed=changed, began=began
    )
    return log.append(event).number


def origin_of(peer: str) -> str:
    """Return the address in gRPC's name of a peer, without a port; empty if it has none."""
    address = address_of(peer)
    return "" if address is None else str(address)
