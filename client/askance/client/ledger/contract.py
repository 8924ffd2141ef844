"""What every ledger does; one contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

# What costs nothing is stored as well (a frozen answer to another request, a table that tells
# nothing), so that budgets alone would not keep an aggregator from filling the disk.
MAX_ANSWERS = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be spent, in nano-nats: on one study, on one UTC day, ever."""

    study: int
    day: int
    life: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What has been spent, in nano-nats, and the latest UTC day on which anything was."""

    study: int
    day: int
    life: int
    last_day: int


@dataclass(frozen=True, slots=True)
class Charge:
    """One answer about to be given.

    `question` names the canonical query together with its randomizer: the key under which the
    symbol is frozen. `day` counts UTC days since 1970.
    """

    request_digest: bytes
    study_digest: bytes
    question: bytes
    day: int
    nano_nats: int
    symbol: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger's history."""

    request_digest: bytes
    study_digest: bytes
    day: int
    nano_nats: int


@dataclass(frozen=True, slots=True)
class Answer:
    """All that a file keeps of one answer: whose, what it cost, and the report that left."""

    member: str
    charge: Charge
    report: bytes


class Overrun(Enum):
    """Which limit a charge would pass. Nothing was spent and nothing stored."""

    STUDY = "study"
    DAY = "day"
    LIFE = "life"
    ANSWERS = "answers"


# (symbol, charged, spent by the study so far) -> the report's bytes.
Compose = Callable[[bytes, int, int], bytes]


class Ledger(Protocol):
    """A device's account of its own privacy."""

    def stored(self, request_digest: bytes) -> bytes | None:
        """The report that this request was answered with, if it was."""
        ...

    def totals(self, study_digest: bytes, day: int) -> Totals:
        """What this study, this day and the device's life have cost so far."""
        ...

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        """Charges and stores, durably and at once, and returns the report to send.

        A request that is stored already returns its stored report. A question that was answered
        before is answered with the frozen symbol at no charge. Otherwise `charge.nano_nats` is
        spent, or, past a limit or past `MAX_ANSWERS` in all, nothing is.

        Raises:
          StoreError: nothing could be made durable; nothing may be sent.
        """
        ...

    def history(self) -> Iterator[Entry]:
        """Every answer given, oldest first."""
        ...

    def close(self) -> None:
        """Releases what the ledger holds."""
        ...


def overrun(totals: Totals, nano_nats: int, limits: Limits) -> Overrun | None:
    """Which limit, the narrowest first, `nano_nats` more would pass.

    Nothing more passes none, also when limits were lowered below what has been spent: a frozen
    answer costs nothing and tells nothing new.
    """
    if nano_nats == 0:
        return None
    if totals.study + nano_nats > limits.study:
        return Overrun.STUDY
    if totals.day + nano_nats > limits.day:
        return Overrun.DAY
    if totals.life + nano_nats > limits.life:
        return Overrun.LIFE
    return None
