"""The contract of every ledger; one contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from askance_client.errors import InvalidParameter

MAX_ANSWERS = 1 << 16
"""The most charged answers of one member, ever: a charge of 1 nano-nat still takes room on the
disk, so that the budget alone would not bound a ledger's size."""

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Span:
    """Limit on the charges from a Unix second on, later ones than the present included."""

    from_s: int
    nano_nats: int


class Limits(NamedTuple):
    """The most that may be spent, in nano-nats.

    Args:
        study: on one study.
        day: on one UTC day.
        life: ever.
        window: on the last days, by all studies; None: no limit but the others.
        epoch: on an epoch of the study; None: it collects once.
    """

    study: int
    day: int
    life: int
    window: Span | None = None
    epoch: Span | None = None


class Totals(NamedTuple):
    """Sums of charges in nano-nats, and the latest time of a charge.

    Args:
        study: spent on one study.
        day: spent on one UTC day.
        life: spent ever.
        last_s: the latest Unix second at which anything was charged since the clock was last
            repaired; 0 when nothing was.
        window: spent by all studies in the limits' window; 0 if they have none.
        epoch: spent on the study in the limits' epoch; 0 if they have none.
    """

    study: int
    day: int
    life: int
    last_s: int
    window: int = 0
    epoch: int = 0

    def spent(self, limits: Limits) -> int:
        """Return the study's sum as a report states it: of the epoch, if there are epochs."""
        return self.study if limits.epoch is None else self.epoch


class Charge(NamedTuple):
    """Charge of one answer that is about to be given.

    Args:
        request_digest: SHA-256 of `payload`, 32 bytes.
        study_digest: SHA-256 of `study`, 32 bytes.
        question: the canonical query together with its randomizer, 32 bytes: the key under which
            the symbol is frozen.
        at_s: the time of the charge, in Unix seconds.
        nano_nats: the charge, 1 or more.
        symbol: the randomized answer.
        payload: the request's bytes, kept once per distinct payload.
        study: the signed study's bytes, kept once per study.
    """

    request_digest: bytes
    study_digest: bytes
    question: bytes
    at_s: int
    nano_nats: int
    symbol: bytes
    payload: bytes = b""
    study: bytes = b""

    @property
    def day(self) -> int:
        """The UTC day of the charge, counted since 1970."""
        return self.at_s // SECONDS_PER_DAY


@dataclass(frozen=True, slots=True)
class Entry:
    """Charged answer in a ledger's history."""

    request_digest: bytes
    study_digest: bytes
    at_s: int
    nano_nats: int
    sequence: int

    @property
    def day(self) -> int:
        """The UTC day of the charge, counted since 1970."""
        return self.at_s // SECONDS_PER_DAY


class Standing(NamedTuple):
    """All that a ledger knows that bears on one request, from one consistent reading.

    Args:
        report: the stored report of this very request (a charged answer); None if there is none.
        frozen: the symbol frozen for its question; None if the question was never answered.
        totals: the sums for its study and day.
        answers: the number of charged answers so far.
    """

    report: bytes | None
    frozen: bytes | None
    totals: Totals
    answers: int


class Overrun(Enum):
    """The limit that a charge would pass. Nothing was spent and nothing stored."""

    STUDY = "study"
    EPOCH = "epoch"
    DAY = "day"
    WINDOW = "window"
    LIFE = "life"
    ANSWERS = "answers"
    SPACE = "space"


Compose = Callable[[bytes, int, int, int], bytes]
"""(symbol, charged, spent by the study so far, sequence) -> the report's bytes."""


class Ledger(Protocol):
    """A device's account of its own privacy."""

    @property
    def sequence(self) -> int:
        """The highest sequence number of this member and enrolment; 0 before the first charge."""
        ...

    def stored(self, request_digest: bytes) -> bytes | None:
        """Return the report that this request was charged for, if it was."""
        ...

    def totals(self, study_digest: bytes, day: int) -> Totals:
        """Return the sums for a study and a UTC day."""
        ...

    def standing(
        self,
        request_digest: bytes,
        question: bytes,
        study_digest: bytes,
        day: int,
        limits: Limits | None = None,
    ) -> Standing:
        """Return all that bears on one request, from one consistent reading.

        `limits` say which window and which epoch are summed.
        """
        ...

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        """Charge and store an answer, durably and at once, and return the report to send.

        A request that was charged already returns its stored report. A question that was answered
        before returns a report of its frozen symbol, composed with 0 charged, 0 spent and sequence
        0; nothing is stored and nothing counted. Otherwise `charge.nano_nats` is spent, or, past a
        limit, nothing is.

        Raises:
            InvalidParameter: a charge below 1 nano-nat; nothing was spent.
            StoreError: the charge or the ledger's mark could not be made durable; nothing may be
                sent.
        """
        ...

    def history(self) -> Iterator[Entry]:
        """Iterate over the charged answers, oldest first."""
        ...

    def close(self) -> None:
        """Release the ledger's resources."""
        ...


def overrun(totals: Totals, nano_nats: int, limits: Limits) -> Overrun | None:
    """Return the limit, the widest first, that a charge of `nano_nats` would pass, if any."""
    if totals.life + nano_nats > limits.life:
        return Overrun.LIFE
    if limits.window is not None and totals.window + nano_nats > limits.window.nano_nats:
        return Overrun.WINDOW
    if totals.day + nano_nats > limits.day:
        return Overrun.DAY
    if totals.study + nano_nats > limits.study:
        return Overrun.STUDY
    if limits.epoch is not None and totals.epoch + nano_nats > limits.epoch.nano_nats:
        return Overrun.EPOCH
    return None


def check_charge(charge: Charge) -> None:
    """Refuse a charge of nothing.

    Raises:
        InvalidParameter: the charge is below 1 nano-nat.
    """
    if charge.nano_nats < 1:
        raise InvalidParameter(f"charge: expected 1 nano-nat or more, got {charge.nano_nats}")
