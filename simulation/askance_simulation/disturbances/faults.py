"""Faults between devices and their aggregator, drawn by rates and a seed, or chosen one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from fractions import Fraction
from typing import Protocol

from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational
from askance_client.errors import InvalidParameter
from askance_client.messages import AckStatus
from askance_simulation.randomness import Seed, keystream, read_chance

_LEAST_PASSING = Fraction(1, 10)
_PER_DEVICE = 1 << 20  # exchanges per device: each device draws its faults from its own words


class Fault(Enum):
    """Outcome of one exchange: a device's message and the aggregator's reply."""

    NONE = "passes"
    LOST_REQUEST = "lost on the way there"
    LOST_RESPONSE = "lost on the way back"
    TWICE = "delivered twice"
    HELD = "overtaken by a later one"
    SLOW = "sent late"
    DIES_BEFORE_COMMIT = "killed before the charge was durable"
    DIES_AFTER_COMMIT = "killed between charge and report"
    DIES_AFTER_SEND = "killed before the acknowledgement"


class Fates(Protocol):
    """Schedule of faults: the fault of each exchange of each device."""

    def fate(self, ordinal: int, exchange: int) -> Fault:
        """Return the fault of the device's exchange of this number, over all its lives; pure."""
        ...


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates of faults; called with a seed, the fault of each exchange.

    An exchange has at most one fault. A lost one is lost on either way, a crash falls before the
    commit, after it, or after the report was sent, each alike often. Every device comes back and
    tries again until it is acknowledged, so that faults change no transcript.

    Args:
      lost, duplicate, reorder, slow, crash: chances an exchange.

    Raises:
      InvalidParameter: a chance outside [0, 1]; or fewer than a tenth of all exchanges would pass.

    Example:
      >>> ask.Faults(lost="1/10", crash="1/100").lost
      Fraction(1, 10)
    """

    lost: Rational = 0
    duplicate: Rational = 0
    reorder: Rational = 0
    slow: Rational = 0
    crash: Rational = 0

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            object.__setattr__(self, name, read_chance(getattr(self, name), name))
        chances = [Fraction(getattr(self, one.name)) for one in fields(self)]
        fails = sum((Fraction(self.lost), Fraction(self.reorder), Fraction(self.crash)))
        if sum(chances) > 1 or 1 - fails < _LEAST_PASSING:
            raise InvalidParameter(
                "faults: expected chances that sum to at most 1, and of lost, reorder and crash to"
                f" at most {1 - _LEAST_PASSING}, got {float(sum(chances)):g} and {float(fails):g}"
            )

    def __call__(self, seed: Seed) -> Fates:
        """Return the schedule of faults that the seed gives."""
        return _Drawn(self._shares(), seed)

    def _shares(self) -> tuple[tuple[Fault, Fraction], ...]:
        lost, crash = Fraction(self.lost) / 2, Fraction(self.crash) / 3
        return (
            (Fault.LOST_REQUEST, lost),
            (Fault.LOST_RESPONSE, lost),
            (Fault.TWICE, Fraction(self.duplicate)),
            (Fault.HELD, Fraction(self.reorder)),
            (Fault.SLOW, Fraction(self.slow)),
            (Fault.DIES_BEFORE_COMMIT, crash),
            (Fault.DIES_AFTER_COMMIT, crash),
            (Fault.DIES_AFTER_SEND, crash),
        )

    @classmethod
    def named(cls, chances: Mapping[str, Rational]) -> Faults:
        """Make faults from chances by name.

        Raises:
          InvalidParameter: a name that there is none of.
        """
        known = [one.name for one in fields(cls)]
        for name in chances:
            if name not in known:
                raise unknown_name("faults", name, known)
        return cls(**chances)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Schedule of random faults: one word per exchange, by random access."""

    shares: tuple[tuple[Fault, Fraction], ...]
    seed: Seed

    def fate(self, ordinal: int, exchange: int) -> Fault:
        place = ordinal * _PER_DEVICE + exchange % _PER_DEVICE
        left = Fraction(int(keystream(self.seed.key[:16], place, 1)[0]), 1 << 64)
        for fault, share in self.shares:
            if left < share:
                return fault
            left -= share
        return Fault.NONE


@dataclass(frozen=True, slots=True)
class Script:
    """Chosen faults, the rest passes: (ordinal, exchange) -> what becomes of it."""

    faults: Mapping[tuple[int, int], Fault] = field(default_factory=dict)

    def __call__(self, seed: Seed) -> Fates:
        """Return itself: no fault is left to chance."""
        return self

    def fate(self, ordinal: int, exchange: int) -> Fault:
        """Return the chosen fault."""
        return self.faults.get((ordinal, exchange), Fault.NONE)


class FaultRecorder:
    """Recorder of every fault that took effect and of all acknowledgements to devices."""

    def __init__(self) -> None:
        self.happened: Counter[Fault] = Counter()
        self.accepted: Counter[tuple[int, bytes]] = Counter()

    def heard(self, ordinal: int, acks: Iterable[tuple[bytes, AckStatus]]) -> None:
        """Record acknowledgements sent to a device, whether or not they arrive."""
        for digest, status in acks:
            self.accepted[ordinal, digest] += status is AckStatus.ACCEPTED

    def summary(self) -> str:
        """Format the number of faults of each kind in one line."""
        found = [
            f"{self.happened[fault]:,} {fault.value}" for fault in Fault if self.happened[fault]
        ]
        return ", ".join(found) or "none took effect"
