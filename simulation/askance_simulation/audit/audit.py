"""An audit of one subject from beginning to end, and of every family at every epsilon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from askance_aggregator.families import randomized_response
from askance_aggregator.numbers import plain_arguments, read_nano_nats
from askance_aggregator.studies.study import Epsilon
from askance_client.accounting import LEAST_LOSS, NANO_NATS_PER_NAT, format_nats
from askance_client.device import Device
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Coins, Randomizer, SystemCoins
from askance_simulation.audit.fleet import (
    AuditFleet,
    Case,
    FileLedgers,
    Ledgers,
    Maker,
    MemoryLedgers,
    Subject,
    of_a_number,
    subject_of,
)
from askance_simulation.audit.losses import Event, Exposure, Pair, Symbols, exposures
from askance_simulation.audit.messages import messages
from askance_simulation.audit.promises import Broken, certainties, repeats, uneven_frames
from askance_simulation.audit.statements import Goodness, compare, stated
from askance_simulation.experiments.verification import FAMILIES
from askance_simulation.families import Statements, probabilities

_WIDEST = 128  # bytes: 64 indices; the chances of wide bitmaps have thousands of bits, and are slow


def _stated_likelier(randomizer: Randomizer, level: int, other: int) -> Event:
    """Return the event that by what is stated the symbol is likelier under one level."""

    def count(symbols: Symbols) -> int:
        seen = Counter(symbols.raw)  # each different symbol is looked up once per level
        here, there = (_chances(randomizer, at, tuple(seen)) for at in (level, other))
        return sum(
            times
            for times, one, another in zip(seen.values(), here, there, strict=True)
            if one > another
        )

    return Event(f"stated to be likelier at level {level} than at {other}", count)


@lru_cache(maxsize=64)
def _chances(randomizer: Randomizer, level: int, symbols: tuple[bytes, ...]) -> Sequence[Fraction]:
    return probabilities(randomizer, level, symbols)


def _in_half(event: Event, middle: bytes, *, below: bool) -> Event:
    """Return an event that is counted only among symbols below a fixed one, or not below."""

    def count(symbols: Symbols) -> int:
        of_half = [symbol for symbol in symbols.raw if (symbol < middle) == below]
        return event.count(Symbols.of(of_half, symbols.width)) if of_half else 0

    return Event(f"{event.name}, {'below' if below else 'from'} {middle.hex()}", count)


def telling(randomizer: Randomizer, cases: Sequence[Case]) -> list[Event]:
    """List events for all pairs of cases with a certain level: all symbols, and each half."""
    # There are none for wide reports.
    if randomizer.width > _WIDEST:
        return []
    levels = sorted({next(iter(case.law)) for case in cases if len(case.law) == 1})
    everywhere = [
        _stated_likelier(randomizer, level, other)
        for level in levels
        for other in levels
        if level != other
    ]
    # Hashes and rows are drawn in the order of their numbers, by the first coin.
    middle = randomizer.randomize(0, [COIN_SPACE // 2] * randomizer.coins)
    halves = [
        _in_half(event, middle, below=below) for event in everywhere for below in (True, False)
    ]
    return [*everywhere, *halves]


DEFAULT_EPSILONS = ("1", "4")
DEFAULT_REPORTS = 2_500
DEFAULT_ALPHA = 1e-6
_REPEATED = 200  # devices a case that are asked again, with ledgers in memory
_RESTARTED = 1  # and with those that were passed in, which may be files
LEAST_REPORTS = 2  # one to learn from, one to test on

Answer = Callable[[Case, int], list[bytes]]
SubjectMaker = Callable[[int], Subject]


@dataclass(frozen=True, slots=True)
class Audit:
    """Result of an audit."""

    subject: str
    nano_nats: int
    reports: int
    exposures: tuple[Exposure, ...]
    goodness: Goodness
    broken: tuple[Broken, ...]

    @property
    def low(self) -> float:
        """The greatest lower bound of a loss that was found, in nats."""
        return max(exposure.low for exposure in self.exposures)

    @property
    def alarms(self) -> tuple[str, ...]:
        """All that is wrong, a line each; empty if nothing was found."""
        return (
            *(str(exposure) for exposure in self.exposures if exposure.alarm),
            *(str(departure) for departure in self.goodness.departures),
            *(str(broken) for broken in self.broken),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the command line prints."""
        return {
            "randomizer": self.subject,
            "epsilon": self.nano_nats / NANO_NATS_PER_NAT,
            "reports": self.reports,
            "loss_at_least": _finite(self.low),
            "pairs": [
                {
                    "first": exposure.pair.first,
                    "second": exposure.pair.second,
                    "epsilon": exposure.pair.nano_nats / NANO_NATS_PER_NAT,
                    "loss_at_least": _finite(exposure.low),
                    "detectable": _finite(exposure.detectable),
                    "event": exposure.event,
                    "events": exposure.events,
                }
                for exposure in self.exposures
            ],
            "statements": self.goodness.statements,
            "unseeable": self.goodness.unseeable,
            "alarms": list(self.alarms),
        }


@dataclass(frozen=True, slots=True)
class Refused:
    """A randomizer that cannot be made or asked at this epsilon: nothing was audited."""

    subject: str
    nano_nats: int
    reason: str
    alarms: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the command line prints."""
        epsilon = self.nano_nats / NANO_NATS_PER_NAT
        return {
            "randomizer": self.subject,
            "epsilon": epsilon,
            "refused": self.reason,
            "alarms": [],
        }


def audit(
    name: str,
    answer: Answer,
    cases: Sequence[Case],
    pairs: Sequence[Pair],
    statements: Mapping[str, Statements],
    *,
    events: Sequence[Event] = (),
    nano_nats: int,
    reports: int,
    alpha: float,
) -> Audit:
    """Examine serialised reports, and nothing else, for excess information about a record.

    Privacy: finds losses; proves none absent.
    Utility: an alarm is false with a chance of at most alpha, half of it for losses and half for
      shares; frames are compared exactly.

    Args:
      name: of what is audited.
      answer: (case, n) -> the bytes of n fresh devices, all asked the same.
      cases: the records that are asked.
      pairs: of cases, with the largest loss allowed between them.
      statements: the shares that are stated, for the cases that have any.
      events: to be looked for besides those that are learned.
      nano_nats: what each report is to charge.
      reports: of each case; half of them to choose events from, half to test those on.
      alpha: the chance of any false alarm.

    Raises:
      InvalidParameter: fewer than two reports, or an alpha that is not between 0 and 1.
    """
    if reports < LEAST_REPORTS:
        raise InvalidParameter(f"reports: expected {LEAST_REPORTS} or more, got {reports}")
    if not 0 < alpha < 1:
        raise InvalidParameter(f"alpha: expected a number between 0 and 1, got {alpha}")
    seen = {case.name: messages(answer(case, reports)) for case in cases}
    symbols = {case: [message.symbol for message in of] for case, of in seen.items()}
    return Audit(
        subject=name,
        nano_nats=nano_nats,
        reports=reports,
        exposures=tuple(exposures(seen, pairs, events, alpha / 2)),
        goodness=compare(symbols, statements, alpha / 2),
        broken=tuple(uneven_frames(seen, nano_nats)),
    )


def audit_devices(
    subject: Subject,
    coins: Coins,
    ledgers: Ledgers,
    *,
    make: Maker = Device,
    reports: int = DEFAULT_REPORTS,
    alpha: float = DEFAULT_ALPHA,
) -> Audit:
    """Audit fresh devices' reports, and one device's answers when it is asked again."""
    fleet = AuditFleet(subject, coins, make)
    found = audit(
        subject.name,
        fleet.answer,
        subject.cases,
        subject.pairs,
        {case.name: stated(subject.randomizer, case.law) for case in subject.cases},
        events=telling(subject.randomizer, subject.cases[:3]),
        nano_nats=subject.randomizer.loss.nano_nats,
        reports=reports,
        alpha=alpha,
    )
    promises = (
        *found.broken,
        *repeats(fleet, subject.cases, _REPEATED, MemoryLedgers()),
        *repeats(fleet, subject.cases, _RESTARTED, ledgers),
        *certainties(fleet, subject.cases),
    )
    return Audit(found.subject, found.nano_nats, reports, found.exposures, found.goodness, promises)


def subjects() -> dict[str, SubjectMaker]:
    """List the audited subjects: each verified family, and a number rounded onto two levels."""
    families: dict[str, SubjectMaker] = {
        name: partial(_family, name, make) for name, make in FAMILIES.items()
    }
    number = "randomized-response, of a number"
    families[number] = lambda nano: of_a_number(number, randomized_response(nano))
    return families


def audit_families(
    epsilons: Iterable[Epsilon] = DEFAULT_EPSILONS,
    *,
    ledgers: Ledgers,
    reports: int = DEFAULT_REPORTS,
    coins: Coins | None = None,
) -> Iterator[Audit | Refused]:
    """Audit the device as it is built, on every family at every epsilon.

    A false alarm has at most the chance 10^-6 for each family and epsilon. Epsilons are in nats;
    `coins` are the operating system's if None.
    """
    for epsilon in epsilons:
        nano = read_nano_nats(epsilon)
        for name, make in subjects().items():
            try:
                subject = make(nano)
            except InvalidParameter as error:
                yield Refused(name, nano, str(error))
                continue
            if subject.randomizer.loss.nano_nats < LEAST_LOSS:
                least = format_nats(LEAST_LOSS)
                yield Refused(name, nano, f"expected {least} nats or more, as devices do")
                continue
            yield audit_devices(subject, coins or SystemCoins(), ledgers, reports=reports)


@plain_arguments
def audit_as_built(
    epsilons: Iterable[Epsilon] = (), reports: int | None = None
) -> Iterator[Audit | Refused]:
    """Run `audit_families` with ledgers in files of a temporary folder, and the system's coins.

    No epsilons stand for `DEFAULT_EPSILONS`, and None for `DEFAULT_REPORTS`.
    """
    with TemporaryDirectory() as folder, FileLedgers(Path(folder)) as ledgers:
        yield from audit_families(
            tuple(epsilons) or DEFAULT_EPSILONS,
            ledgers=ledgers,
            reports=DEFAULT_REPORTS if reports is None else reports,
        )


def _family(name: str, make: Callable[[int], Any], nano: int) -> Subject:
    return subject_of(name, make(nano))


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None
