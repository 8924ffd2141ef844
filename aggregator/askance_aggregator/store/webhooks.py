"""Queue of what is sent to webhooks: a row per receiver and end of a study or of an epoch.

A row is written by the transaction that ends the study (`Store.conclude`), for the receivers
that this process was told of. Any replica delivers it.

    pending --claim--> pending          the number of tries rises; not due for the claim's seconds
    pending --delivered--> delivered
    pending --failed--> pending         due after a wait; the last error is kept
    pending --failed--> failed          tried for longer than the receiver is waited for
    failed --retry--> pending           an operator asks for it

A claim is a lease on one row: the number of tries is its fencing token, and its end is on the
store's clock. A replica that was paused past its claim notes nothing, since another has claimed the
row. A study's rows are claimed one at a time, its epochs in their order and its own end last; one
that is given up lets the next pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256

from askance_aggregator.store.dialect import Dialect, Execute, list_rows
from askance_aggregator.store.listing import StudyState

_ID_DIGITS = 32


class DeliveryState(IntEnum):
    """State of a row of the queue."""

    PENDING = 1
    DELIVERED = 2
    FAILED = 3


_PENDING, _DELIVERED, _FAILED = map(int, DeliveryState)
_KEY = f"WHERE receiver = ? AND study = ? AND epoch = ? AND attempts = ? AND state = {_PENDING}"
# A study's own end has epoch 0, and comes after those of its epochs.
_NEXT = f"""
SELECT study, epoch FROM webhook_deliveries AS waiting
WHERE receiver = ? AND state = {_PENDING} AND due_unix_s <= {{now}}
  AND NOT EXISTS (SELECT 1 FROM webhook_deliveries AS earlier
    WHERE earlier.receiver = waiting.receiver AND earlier.study = waiting.study
      AND earlier.state = {_PENDING}
      AND (earlier.epoch = 0, earlier.epoch) < (waiting.epoch = 0, waiting.epoch))
ORDER BY due_unix_s, study, epoch LIMIT 1
"""
_CLAIM = """
UPDATE webhook_deliveries SET attempts = attempts + 1, due_unix_s = {now} + ?,
  first_unix_s = coalesce(first_unix_s, {now}), tried_unix_s = {now}
WHERE receiver = ? AND (study, epoch) = ({next}{skip}) RETURNING study, epoch, attempts
"""
_CLAIMED = """
SELECT message_id, digest, public_key, studies.study, ended_unix_s, ended.state, reason, message,
  result_json
FROM webhook_deliveries AS queued
JOIN conclusions AS ended ON ended.study = queued.study AND ended.epoch = queued.epoch
JOIN studies ON studies.number = queued.study
WHERE receiver = ? AND queued.study = ? AND queued.epoch = ?
"""


@dataclass(frozen=True, slots=True)
class Receiving:
    """Receiver of ends of studies: its name, and the key of the one analyst whose; None: all."""

    name: str
    analyst: bytes | None = None


@dataclass(frozen=True, slots=True)
class WebhookClaim:
    """End of a study or of an epoch that this process is to deliver now.

    Args:
      receiver: name of it.
      message_id: the same at each try of this end, and at no other end.
      digest: of the study.
      analyst: public key of the analyst who signed it.
      study: its bytes.
      epoch: index; 0: the study's own end.
      ended_unix_s: when it ended, on the store's clock.
      result_json: "" if it was deleted.
    """

    receiver: str
    number: int
    epoch: int
    attempt: int
    message_id: str
    digest: bytes
    analyst: bytes
    study: bytes
    ended_unix_s: int
    state: StudyState
    reason: str
    message: str
    result_json: str


@dataclass(frozen=True, slots=True)
class WebhookFigures:
    """State of a receiver's queue.

    Args:
      oldest_pending_s: seconds since the end of the study that has waited longest; 0: none waits.
      last_error: of the try that failed last and whose row is not delivered; "": none.
    """

    receiver: str
    pending: int
    failed: int
    delivered: int
    oldest_pending_s: int
    last_error: str


def message_id(digest: bytes, epoch: int, content: Sequence[str]) -> str:
    """Return the id of an end: another content has another id, whichever process computes it."""
    text = "\0".join((digest.hex(), str(epoch), *content))
    return f"msg_{sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"


class WebhookQueue:
    """Ends of studies on their way to receivers; durable when a method returns.

    Safe to share between threads. Every method raises StoreError when the store cannot be read or
    written.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._receivers: tuple[Receiving, ...] = ()

    def announce_to(self, receivers: Sequence[Receiving]) -> None:
        """Queue the ends that this process notes from now on for these receivers."""
        self._receivers = tuple(receivers)

    def note_end(
        self, execute: Execute, study: int, epoch: int, id_: str, ended_unix_s: int | None
    ) -> None:
        """Queue an end in the transaction that makes it durable.

        Args:
          execute: of the transaction.
          study: its number.
          epoch: index; 0: the study's own end.
          id_: see `message_id`.
          ended_unix_s: when it ended; None: now, on the store's clock.
        """
        now = self._dialect.now_s
        for receiver in self._receivers:
            execute(
                "INSERT INTO webhook_deliveries"
                " (receiver, study, epoch, message_id, ended_unix_s, due_unix_s)"
                f" SELECT ?, number, ?, ?, coalesce(?, {now}), {now}"
                " FROM studies WHERE number = ? AND public_key = coalesce(?, public_key)"
                " ON CONFLICT DO NOTHING",
                (receiver.name, epoch, id_, ended_unix_s, study, receiver.analyst),
            )

    def claim(self, receiver: str, claim_s: int) -> WebhookClaim | None:
        """Claim the next end that is due for a receiver, for so many seconds; None: none is due."""
        next_ = _NEXT.format(now=self._dialect.now_s)
        if not list_rows(self._dialect, next_, (receiver,)):
            return None  # without a transaction that writes
        statement = _CLAIM.format(
            now=self._dialect.now_s, next=next_, skip=self._dialect.skip_locked
        )

        def step(execute: Execute) -> WebhookClaim | None:
            claimed = execute(statement, (claim_s, receiver, receiver)).fetchall()
            if not claimed:
                return None
            number, epoch, attempt = claimed[0]
            ((id_, digest, analyst, study, ended_s, state, *content),) = execute(
                _CLAIMED, (receiver, number, epoch)
            ).fetchall()
            return WebhookClaim(
                *(receiver, number, epoch, attempt, id_),
                *(bytes(digest), bytes(analyst), bytes(study), ended_s),
                StudyState(state),
                *content,
            )

        return self._dialect.write(step)

    def delivered(self, claim: WebhookClaim) -> bool:
        """Note that a claimed end was delivered; False: the claim was another's by then."""
        return self._note(claim, f"state = {_DELIVERED}, error = ''")

    def failed(self, claim: WebhookClaim, error: str, wait_s: int, try_for_s: int) -> bool:
        """Note that a delivery failed, and try again after a wait; False as of `delivered`.

        It is given up if the next try would come later than `try_for_s` after the first one.
        """
        now = self._dialect.now_s
        return self._note(
            claim,
            f"error = ?, due_unix_s = {now} + ?,"
            f" state = CASE WHEN {now} + ? > first_unix_s + ? THEN {_FAILED} ELSE {_PENDING} END",
            *(error, wait_s, wait_s, try_for_s),
        )

    def retry(self, receiver: str) -> int:
        """Try all undelivered ends of a receiver again, from now on; return how many."""
        return self._write(
            f"UPDATE webhook_deliveries SET state = {_PENDING}, due_unix_s = {self._dialect.now_s},"
            f" first_unix_s = NULL WHERE receiver = ? AND state <> {_DELIVERED}",
            receiver,
        )

    def forget(self, receiver: str) -> int:
        """Remove all rows of a receiver, undelivered ones too; return how many."""
        return self._write("DELETE FROM webhook_deliveries WHERE receiver = ?", receiver)

    def figures(self) -> list[WebhookFigures]:
        """Return the state of each receiver that has a row or is announced to, by name."""
        now = self._dialect.now_s
        rows = list_rows(
            self._dialect,
            f"SELECT receiver, {', '.join(map(_number_of, (_PENDING, _FAILED, _DELIVERED)))},"
            f" {now} - min(CASE state WHEN {_PENDING} THEN ended_unix_s ELSE {now} END)"
            " FROM webhook_deliveries GROUP BY receiver",
        )
        errors = dict(
            list_rows(
                self._dialect,
                "SELECT receiver, error FROM webhook_deliveries WHERE error <> ''"
                " ORDER BY tried_unix_s",
            )
        )
        found = {one.name: WebhookFigures(one.name, 0, 0, 0, 0, "") for one in self._receivers}
        for name, pending, failed, delivered, oldest_s in rows:
            found[name] = WebhookFigures(
                *(name, int(pending), int(failed), int(delivered), max(int(oldest_s), 0)),
                errors.get(name, ""),
            )
        return [found[name] for name in sorted(found)]

    def _note(self, claim: WebhookClaim, change: str, *values: object) -> bool:
        key = (claim.receiver, claim.number, claim.epoch, claim.attempt)
        return self._write(f"UPDATE webhook_deliveries SET {change} {_KEY}", *values, *key) == 1

    def _write(self, statement: str, *parameters: object) -> int:
        return self._dialect.write(lambda execute: execute(statement, parameters).rowcount)


def _number_of(state: int) -> str:
    """Return the sum that counts the rows of a state."""
    return f"sum(CASE state WHEN {state} THEN 1 ELSE 0 END)"
