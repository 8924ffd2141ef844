"""Lower bounds of the privacy loss between two records, from what their reports show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.accounting import NANO_NATS_PER_NAT
from askance_simulation.audit.bounds import detectable, losses_at_least
from askance_simulation.audit.events import Event, Symbols, candidates
from askance_simulation.audit.messages import Message

_REPEATS = 4  # a table is learned where a symbol is seen so often on average
_STANDARD_DEVIATIONS = 4.0  # a bit that differs by less is left out of the sum: it is chance
_THRESHOLDS = 256
_KEPT = 2
_RANKING_ALPHA = 0.01

Scores = NDArray[np.float64]


class Score(Protocol):
    """Learned log-likelihood ratio of symbols between two records."""

    @property
    def kind(self) -> str:
        """Over what it was learned."""
        ...

    def of(self, symbols: Symbols) -> Scores:
        """Compute about ln of the likelihood ratio, one per symbol."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class OverSymbols:
    """A table: the score of every symbol that was seen; 0 for others."""

    scores: Mapping[bytes, float]

    @property
    def kind(self) -> str:
        """Kind of the score: symbols."""
        return "symbols"

    def of(self, symbols: Symbols) -> Scores:
        """Look up the scores."""
        return np.array([self.scores.get(symbol, 0.0) for symbol in symbols.raw])


@dataclass(frozen=True, slots=True, eq=False)
class OverBits:
    """Sum of the bits' own log-ratios; weights of shape (8 width, 2), for 0 and for 1."""

    weights: NDArray[np.float64]

    @property
    def kind(self) -> str:
        """Kind of the score: bits."""
        return "bits"

    def of(self, symbols: Symbols) -> Scores:
        """Add up the scores of the bits."""
        gain = self.weights[:, 1] - self.weights[:, 0]
        told = np.flatnonzero(gain)
        base = float(self.weights[told, 0].sum())
        parts = [base + bits[:, told] @ gain[told] for bits in symbols.bit_chunks()]
        return np.concatenate(parts) if parts else np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class Likelier:
    """The score is at least the threshold."""

    score: Score
    threshold: float

    @property
    def name(self) -> str:
        """Name of the learned score, with its threshold."""
        return f"likelihood by {self.score.kind} >= {self.threshold:.3g}"

    def count(self, symbols: Symbols) -> int:
        """Count by their scores."""
        return int(np.count_nonzero(self.score.of(symbols) >= self.threshold))


def learned(first: Symbols, second: Symbols) -> list[Likelier]:
    """Return the best thresholds of the ratio of the first record's reports to the second's."""
    score = _score(first, second)
    here, there = np.sort(score.of(first)), np.sort(score.of(second))
    levels = np.unique(here)
    if len(levels) > _THRESHOLDS:
        levels = levels[np.linspace(0, len(levels) - 1, _THRESHOLDS).astype(np.int64)]
    above = [len(scores) - np.searchsorted(scores, levels) for scores in (here, there)]
    bounds = losses_at_least(above[0], above[1], (len(first), len(second)), _RANKING_ALPHA)
    bounds[(above[0] == len(here)) & (above[1] == len(there))] = -np.inf  # always so
    best = np.argsort(-bounds, kind="stable")[:_KEPT]
    return [Likelier(score, float(levels[index])) for index in best if bounds[index] > -np.inf]


def _score(first: Symbols, second: Symbols) -> Score:
    here, there = Counter(first.raw), Counter(second.raw)
    seen = here.keys() | there.keys()
    if _REPEATS * len(seen) <= len(first) + len(second):
        return OverSymbols(
            {symbol: float(np.log((here[symbol] + 0.5) / (there[symbol] + 0.5))) for symbol in seen}
        )
    shares = []
    for symbols in (first, second):
        ones = (symbols.bit_counts() + 0.5) / (len(symbols) + 1)
        shares.append(np.stack((1 - ones, ones), axis=1))
    gap = np.abs(shares[0][:, 1] - shares[1][:, 1])
    spread = sum(
        share[:, 0] * share[:, 1] / len(symbols)
        for share, symbols in zip(shares, (first, second), strict=True)
    )
    weights = np.log(shares[0] / shares[1])
    weights[gap < _STANDARD_DEVIATIONS * np.sqrt(spread)] = 0.0
    return OverBits(weights)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cases, and the most that reports may reveal between them, in either direction."""

    first: str
    second: str
    nano_nats: int


@dataclass(frozen=True, slots=True)
class Exposure:
    """Audit result for the two cases of a pair.

    Args:
      low: a lower bound of the loss, in nats; -inf if no event was seen often enough for any.
      event: in which event it was found, and under which case that event is likelier.
      events: how many were tested, each with its share of alpha.
      counts: how often the event was seen under the likelier case and under the other.
      tested: in how many reports of each.
      detectable: the least loss that would have been distinguished from what is charged, in an
        event as frequent as this one, with a chance of 9 in 10; inf for none.
    """

    pair: Pair
    low: float
    event: str
    events: int
    counts: tuple[int, int]
    tested: tuple[int, int]
    detectable: float

    @property
    def alarm(self) -> bool:
        """Return whether the measured loss exceeds the charge."""
        return self.low > self.pair.nano_nats / NANO_NATS_PER_NAT

    def __str__(self) -> str:
        low = f"at least {self.low:.4g}" if isfinite(self.low) else "nothing"
        return (
            f"{self.pair.first} against {self.pair.second}: {low} nats told for"
            f" {self.pair.nano_nats / NANO_NATS_PER_NAT:g} charged"
            f" ({self.event}: {self.counts[0]} and {self.counts[1]} of {self.tested[0]})"
        )


@dataclass(frozen=True, slots=True)
class _Test:
    likelier: str
    event: Event
    counts: tuple[int, int]
    n: tuple[int, int]


def exposures(
    reports: Mapping[str, Sequence[Message]],
    pairs: Sequence[Pair],
    events: Sequence[Event],
    alpha: float,
) -> list[Exposure]:
    """Bound the loss of every pair from below; all bounds together miss with at most alpha.

    Reports are of fresh devices, so that they are independent; `events`, tested besides those that
    are learned, were fixed before anything was asked. Bonferroni: all events of all pairs share
    alpha evenly.
    """
    width = max(1, *(len(message.symbol) for of in reports.values() for message in of))
    halves = {
        case: Symbols.of([message.symbol for message in of], width).halves()
        for case, of in reports.items()
    }
    tests = [
        [
            *_tests(halves[pair.first], halves[pair.second], pair.first, events),
            *_tests(halves[pair.second], halves[pair.first], pair.second, events),
        ]
        for pair in pairs
    ]
    each = alpha / max(1, sum(map(len, tests)))
    return [_best(pair, tried, each) for pair, tried in zip(pairs, tests, strict=True)]


def _tests(
    here: tuple[Symbols, Symbols],
    there: tuple[Symbols, Symbols],
    likelier: str,
    fixed: Sequence[Event],
) -> list[_Test]:
    events = [*candidates(here[0], there[0]), *learned(here[0], there[0]), *fixed]
    n = (len(here[1]), len(there[1]))
    return [
        _Test(likelier, event, (event.count(here[1]), event.count(there[1])), n) for event in events
    ]


def _best(pair: Pair, tests: Sequence[_Test], alpha: float) -> Exposure:
    lows = [
        float(losses_at_least(np.array([t.counts[0]]), np.array([t.counts[1]]), t.n, alpha)[0])
        for t in tests
    ]
    if not tests:
        return Exposure(pair, -inf, "none", 0, (0, 0), (0, 0), inf)
    low = max(lows)
    best = tests[lows.index(low)]
    nats = pair.nano_nats / NANO_NATS_PER_NAT
    return Exposure(
        pair=pair,
        low=low,
        event=f"{best.event.name}, under {best.likelier}",
        events=len(tests),
        counts=best.counts,
        tested=best.n,
        detectable=detectable(nats, best.counts[0] / best.n[0], best.n, alpha),
    )
