"""The contract of every ledger; one contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from askance_client.errors import InvalidParameter

# The most charged answers of one member, ever: a small charge takes as much room on the disk as a
# great one, so that a great budget alone would not bound a ledger's size.
MAX_ANSWERS = 1 << 16

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Span:
    """Limit on the charges from a Unix second on, later ones than the present included."""

    from_s: int
    nano_nats: int


class Limits(NamedTuple):
    """The most that may be spent, in nano-nats, and otherwise.

    Args:
        day: on one UTC day.
        window: on the last days, by all studies; None: no limit but the others.
        epoch: on an epoch of the study; None: it collects once.
        answers: the number of answers to the study, ever.
        work: the weight of the answers to the study on one UTC day.
    """

    study: int
    day: int
    life: int
    window: Span | None = None
    epoch: Span | None = None
    answers: int = MAX_ANSWERS
    work: int = 1 << 63


class Totals(NamedTuple):
    """Sums of charges in nano-nats, and the latest time of a charge.

    Args:
        day: spent on one UTC day.
        last_s: the latest Unix second at which anything was charged since the clock was last
            repaired; 0 when nothing was.
        window: spent by all studies in the limits' window; 0 if they have none.
        epoch: spent on the study in the limits' epoch; 0 if they have none.
        answers: the number of charged answers, ever.
        study_answers: of these, to the study.
        work: the weight of the answers to the study on the day.
    """

    study: int
    day: int
    life: int
    last_s: int
    window: int = 0
    epoch: int = 0
    answers: int = 0
    study_answers: int = 0
    work: int = 0

    def after(self, nano_nats: int, weight: int, own: bool) -> Totals:
        """Return the sums after a charge of the same day, of the same study if it is `own`."""
        return Totals(
            self.study + nano_nats * own,
            self.day + nano_nats,
            self.life + nano_nats,
            self.last_s,
            self.window + nano_nats,
            self.epoch + nano_nats * own,
            self.answers + 1,
            self.study_answers + own,
            self.work + weight * own,
        )

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
        payload: the request's bytes, kept once per distinct payload.
        study: the signed study's bytes, kept once per study.
        weight: the answer's work, a public bound (`ExaminedRequest.weight`).
    """

    request_digest: bytes
    study_digest: bytes
    question: bytes
    at_s: int
    nano_nats: int
    symbol: bytes
    payload: bytes = b""
    study: bytes = b""
    weight: int = 0

    @property
    def day(self) -> int:
        """The UTC day of the charge, counted since 1970."""
        return self.at_s // SECONDS_PER_DAY


class Entry(NamedTuple):
    """Charged answer in a ledger's history."""

    request_digest: bytes
    study_digest: bytes
    at_s: int
    nano_nats: int
    sequence: int


class Standing(NamedTuple):
    """All that a ledger knows that bears on one request, from one consistent reading.

    Args:
        report: the stored report of this very request (a charged answer); None if there is none.
        frozen: the symbol frozen for its question; None if the question was never answered.
        totals: the sums for its study and day.
    """

    report: bytes | None
    frozen: bytes | None
    totals: Totals


class Overrun(Enum):
    """The limit that a charge would pass. Nothing was spent and nothing stored."""

    STUDY = "study"
    EPOCH = "epoch"
    DAY = "day"
    WINDOW = "window"
    LIFE = "life"
    ANSWERS = "answers"
    STUDY_ANSWERS = "answers of a study"
    WORK = "work"
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


def overrun(totals: Totals, nano_nats: int, limits: Limits, weight: int = 0) -> Overrun | None:
    """Return the limit, the widest first, that a charge would pass, if any."""
    window, epoch = limits.window, limits.epoch
    passed = {
        Overrun.ANSWERS: totals.answers >= MAX_ANSWERS,
        Overrun.LIFE: totals.life + nano_nats > limits.life,
        Overrun.WINDOW: window is not None and totals.window + nano_nats > window.nano_nats,
        Overrun.DAY: totals.day + nano_nats > limits.day,
        Overrun.STUDY: totals.study + nano_nats > limits.study,
        Overrun.EPOCH: epoch is not None and totals.epoch + nano_nats > epoch.nano_nats,
        Overrun.STUDY_ANSWERS: totals.study_answers >= limits.answers,
        Overrun.WORK: totals.work + weight > limits.work,
    }
    return next((limit for limit, past in passed.items() if past), None)


def check_charge(charge: Charge) -> None:
    """Refuse a charge below 1 nano-nat."""
    if charge.nano_nats < 1:
        raise InvalidParameter(f"charge: expected 1 nano-nat or more, got {charge.nano_nats}")
