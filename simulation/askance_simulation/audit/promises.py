"""Promises without any chance in them: one device that breaks one is enough.

A request that was answered is answered again with the same bytes, also after a restart; a question
that was answered is answered alike, at no charge, in another round and another study. A device that
draws anew instead doubles its loss with every retry. And no report is certain: coins at either end
give different symbols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from askance_client.randomizers import COIN_SPACE
from askance_simulation.audit.fleet import AuditFleet, Case, Ledgers
from askance_simulation.audit.messages import Message


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise, and how often it was seen broken."""

    case: str
    promise: str
    times: int
    n: int

    def __str__(self) -> str:
        return f"{self.case}: expected {self.promise}, got otherwise {self.times} of {self.n} times"


AGAIN = "the same bytes when asked again"
RESTARTED = "the same bytes after a restart"
FROZEN = "the same symbol in another round and another study"
FREE = "no charge for a question answered before"
UNCERTAIN = "different symbols from coins at different ends"
FRAME = "the same bytes around every symbol"
CHARGE = "the charge that was announced"


def repeats(fleet: AuditFleet, cases: Iterable[Case], n: int, ledgers: Ledgers) -> list[Broken]:
    """Ask n devices of each case the same question in every way that must change nothing.

    Args:
      fleet: factory of the devices, with fresh coins at every call.
      cases: whose records.
      n: devices a case. One that draws anew is missed by a device with the chance that two draws
        agree, which is high where epsilon is large.
      ledgers: where the devices' ledgers are kept.
    """
    found: list[Broken] = []
    for case in cases:
        broken: Counter[str] = Counter()
        for _ in range(n):
            broken.update(set(_broken_by_one(fleet, case, ledgers)))
        found += [Broken(case.name, promise, times, n) for promise, times in broken.items()]
    return found


def _broken_by_one(fleet: AuditFleet, case: Case, ledgers: Ledgers) -> Iterator[str]:
    device = fleet.device(case, ledgers.fresh())
    fleet.introduce_other(device)
    asked = (fleet.request, fleet.next_round, fleet.other_study)
    first, *others = reports = [device.answer(payload) for payload in asked]
    if [device.answer(payload) for payload in asked] != reports:
        yield AGAIN
    for later in map(Message.of, others):
        if later.symbol != Message.of(first).symbol:
            yield FROZEN
        if later.charged != 0:
            yield FREE
    restarted = fleet.device(case, ledgers.reopened())
    fleet.introduce_other(restarted)
    # The last one first: its charge of nothing is lost with the ledger, whatever is drawn anew.
    if [restarted.answer(payload) for payload in reversed(asked)] != reports[::-1]:
        yield RESTARTED


class _EndCoins:
    """All words the same."""

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return (self._word,) * count


def certainties(fleet: AuditFleet, cases: Iterable[Case]) -> list[Broken]:
    """Return cases that get the same symbol from the least coins and from the greatest."""
    # No number of reports shows that an improbable symbol is impossible; coins at the ends, which
    # stand for it however improbable it is, do.
    ends = [_EndCoins(0), _EndCoins(COIN_SPACE - 1)]
    found = []
    for case in cases:
        reports = [fleet.device(case, coins=coins).answer(fleet.request) for coins in ends]
        if len({Message.of(report).symbol for report in reports}) == 1:
            found.append(Broken(case.name, UNCERTAIN, 1, 1))
    return found


def uneven_frames(reports: Mapping[str, Sequence[Message]], nano_nats: int) -> list[Broken]:
    """Return cases whose reports differ in more than the symbol, or charge something else."""
    frames = {case: Counter(message.frame for message in of) for case, of in reports.items()}
    usual = sum(frames.values(), Counter[tuple[bytes, bytes]]()).most_common(1)[0][0]
    found = []
    for case, seen in frames.items():
        odd = seen.total() - seen[usual]
        if odd:
            found.append(Broken(case, FRAME, odd, seen.total()))
        wrong = sum(
            times for frame, times in seen.items() if Message(b"", frame).charged != nano_nats
        )
        if wrong:
            found.append(Broken(case, CHARGE, wrong, seen.total()))
    return found
