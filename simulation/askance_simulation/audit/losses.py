"""Lower bounds of the privacy loss between two records, from what their reports show.

Counts of events in serialised symbols are bounded for every n, except with a stated chance. An
event is fixed before the reports are looked at that it is counted in: candidates are counted in one
half of the reports, the most informative of each kind are tested on the other half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, isfinite

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.estimation import clopper_pearson
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_simulation.audit.messages import Message

Counted = NDArray[np.int64]
Bounds = NDArray[np.float64]

_UNLUCKY = 0.05  # how unlucky each of two counts may be for a loss still to count as detectable
_MOST_NATS = 64.0  # past what 64-bit coins express
_BISECTIONS = 40


def losses_at_least(first: Counted, second: Counted, n: tuple[int, int], alpha: float) -> Bounds:
    """Compute lower bounds of ln(Pr[event | first] / Pr[event | second]), one per event.

    The one-sided Clopper-Pearson bounds of the two probabilities each miss with alpha/2.

    `first` and `second` say how many of n[0] and n[1] reports showed each event; `alpha` is the
    chance that one bound is above the truth.

    Returns:
      In nats; -inf for an event that was not seen under the first.

    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    low, _ = clopper_pearson(first, n[0], alpha)
    _, high = clopper_pearson(second, n[1], alpha)
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log(high)


def detectable(nats: float, share: float, n: tuple[int, int], alpha: float) -> float:
    """Compute the least loss above `nats` that would be detected with probability 9/10 or more.

    In an event that is seen with probability `share` under the likelier record; both counts may be
    as unlucky as 1 in 20.

    Returns:
      In nats; inf where so few reports do not distinguish a loss from `nats` in such an event.
    """
    if not _told_apart(_MOST_NATS, nats, share, n, alpha):
        return inf
    return halved(
        lambda loss: _told_apart(loss, nats, share, n, alpha), nats, _MOST_NATS, _BISECTIONS
    )[1]


def _told_apart(loss: float, nats: float, share: float, n: tuple[int, int], alpha: float) -> bool:
    from scipy.stats import binom  # slow to import, and only needed here

    few = np.array([binom.ppf(_UNLUCKY, n[0], share)], dtype=np.int64)
    many = np.array([binom.ppf(1 - _UNLUCKY, n[1], share * exp(-loss))], dtype=np.int64)
    return bool(losses_at_least(few, many, n, alpha)[0] > nats)


def improbable(counts: Counted, n: int, shares: Bounds, alpha: float) -> NDArray[np.bool_]:
    """Return which counts n reports with these shares would give with a chance below alpha.

    Exact binomial tails, alpha/2 on each side. A share of 0 or 1 allows one count only.
    """
    from askance_aggregator.special_functions import bdtr, bdtrc

    certain = (shares <= 0) | (shares >= 1)
    inner = np.where(certain, 0.5, shares)  # stands in where the tails are not needed
    below = bdtr(counts, n, inner)  # Pr[X <= count]
    above = np.where(counts > 0, bdtrc(np.maximum(counts, 1) - 1, n, inner), 1.0)  # Pr[X >= count]
    unlikely = np.minimum(below, above) < alpha / 2
    wrong: NDArray[np.bool_] = np.where(certain, counts != np.rint(shares * n), unlikely)
    return wrong


_CHUNK_BITS = 1 << 24  # unpacked at a time: bounds memory, changes no count


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """The symbols of n reports.

    Args:
      lengths: shape (n,).
      matrix: shape (n, width), uint8; shorter symbols are filled up with zeros.
    """

    raw: Sequence[bytes]
    lengths: NDArray[np.int64]
    matrix: NDArray[np.uint8]

    @classmethod
    def of(cls, raw: Sequence[bytes], width: int) -> Symbols:
        """Put the symbols side by side in `width` bytes, at least 1 and the longest one's."""
        lengths = np.fromiter(map(len, raw), dtype=np.int64, count=len(raw))
        joined = b"".join(symbol.ljust(width, b"\0") for symbol in raw)
        return cls(raw, lengths, np.frombuffer(joined, np.uint8).reshape(len(raw), width))

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def width(self) -> int:
        """Bytes a row."""
        return int(self.matrix.shape[1])

    def halves(self) -> tuple[Symbols, Symbols]:
        """Return the first half, to learn events from, and the rest, to test them on."""
        middle = len(self) // 2
        return self._rows(slice(0, middle)), self._rows(slice(middle, None))

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        """Generate the rows, some at a time."""
        step = max(1, _CHUNK_BITS // max(1, 8 * self.width))
        for start in range(0, len(self), step):
            yield self.matrix[start : start + step]

    def bit_chunks(self) -> Iterator[NDArray[np.uint8]]:
        """Generate the rows' bits, shape (rows, 8 width), the greatest bit of a byte first."""
        for rows in self.chunks():
            yield np.unpackbits(rows, axis=1)

    def bit_counts(self) -> NDArray[np.int64]:
        """Count the symbols that have each bit set, shape (8 width,)."""
        counts = np.zeros(8 * self.width, dtype=np.int64)
        for bits in self.bit_chunks():
            counts += bits.sum(axis=0, dtype=np.int64)
        return counts

    def _rows(self, which: slice) -> Symbols:
        return Symbols(self.raw[which], self.lengths[which], self.matrix[which])


_BEST_OF_A_KIND = 2
_RANKING_ALPHA = 0.01  # a rare event has to be seen a few times before it outranks a common one


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Something that a symbol shows or does not show.

    Args:
      name: text of the event, for readers.
      count: counts the symbols in which the event happens.
    """

    name: str
    count: Callable[[Symbols], int]


Counts = NDArray[np.int64]


def candidates(first: Symbols, second: Symbols) -> list[Event]:
    """Return the events that are likelier under the first than under the second, by these reports.

    Returns:
      At most two of each kind.
    """
    seen, bits = sorted(set(first.raw)), 8 * first.width
    kinds: tuple[tuple[Callable[[Symbols], Counts], Callable[[int], str]], ...] = (
        (partial(_of_symbols, seen), lambda index: f"symbol = {_shown(seen[index])}"),
        (_of_bytes, lambda index: f"byte {index // 256} = {index % 256}"),
        (_of_bits, lambda index: f"bit {index % bits} = {index // bits}"),
        (_of_first_bits, lambda index: f"first set bit = {index}"),
        (_of_lengths, lambda index: f"length = {index}"),
    )
    found: list[Event] = []
    for counts_of, name in kinds:
        here, there = counts_of(first), counts_of(second)
        scores = losses_at_least(here, there, (len(first), len(second)), _RANKING_ALPHA)
        scores[
            (here == len(first)) & (there == len(second))
        ] = -np.inf  # always true: no information
        for index in np.argsort(-scores, kind="stable")[:_BEST_OF_A_KIND].tolist():
            if scores[index] > -np.inf:
                found.append(Event(name(index), partial(_count_at, counts_of, index)))
    return found


def _count_at(counts_of: Callable[[Symbols], Counts], index: int, symbols: Symbols) -> int:
    return int(counts_of(symbols)[index])


def _shown(symbol: bytes) -> str:
    """Return the symbol, or how it begins."""
    shown = symbol.hex()
    return shown if len(shown) <= 32 else f"{shown[:32]}..."


def _of_symbols(seen: Sequence[bytes], symbols: Symbols) -> Counts:
    counts = Counter(symbols.raw)
    return np.array([counts[symbol] for symbol in seen], dtype=np.int64)


def _of_bytes(symbols: Symbols) -> Counts:
    width = symbols.width
    counts = np.zeros(width * 256, dtype=np.int64)
    places = np.arange(width, dtype=np.int64) * 256
    for rows in symbols.chunks():
        counts += np.bincount((rows + places).ravel(), minlength=width * 256)
    return counts


def _of_bits(symbols: Symbols) -> Counts:
    """Count zeros, then ones; in a bitmap, a cell is in the report or not."""
    ones = symbols.bit_counts()
    return np.concatenate((len(symbols) - ones, ones))


def _of_first_bits(symbols: Symbols) -> Counts:
    """Count by the first bit that is set; one past the last where none is."""
    last = 8 * symbols.width
    counts = np.zeros(last + 1, dtype=np.int64)
    for bits in symbols.bit_chunks():
        ended = np.column_stack((bits, np.ones(len(bits), dtype=np.uint8)))
        counts += np.bincount(ended.argmax(axis=1), minlength=last + 1)
    return counts


def _of_lengths(symbols: Symbols) -> Counts:
    return np.bincount(symbols.lengths, minlength=symbols.width + 1).astype(np.int64)


_REPEATS = 4  # a table is learned where a symbol is seen so often on average
_STANDARD_DEVIATIONS = 4.0  # a bit that differs by less is left out of the sum: it is chance
_THRESHOLDS = 256
_KEPT = 2

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Learned log-likelihood ratio of symbols between two records.

    Args:
      kind: over what it was learned.
      of: computes about ln of the likelihood ratio, one per symbol.
    """

    kind: str
    of: Callable[[Symbols], Scores]


def _over_bits(weights: NDArray[np.float64], symbols: Symbols) -> Scores:
    """Add up the bits' own log-ratios, of shape (8 width, 2), for 0 and for 1."""
    gain = weights[:, 1] - weights[:, 0]
    told = np.flatnonzero(gain)
    base = float(weights[told, 0].sum())
    parts = [base + bits[:, told] @ gain[told] for bits in symbols.bit_chunks()]
    return np.concatenate(parts) if parts else np.zeros(0)


def _likelier(score: Score, threshold: float) -> Event:
    """Return the event that the score is at least the threshold."""
    return Event(
        f"likelihood by {score.kind} >= {threshold:.3g}",
        lambda symbols: int(np.count_nonzero(score.of(symbols) >= threshold)),
    )


def learned(first: Symbols, second: Symbols) -> list[Event]:
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
    return [_likelier(score, float(levels[index])) for index in best if bounds[index] > -np.inf]


def _score(first: Symbols, second: Symbols) -> Score:
    here, there = Counter(first.raw), Counter(second.raw)
    seen = here.keys() | there.keys()
    if _REPEATS * len(seen) <= len(first) + len(second):
        known = {
            symbol: float(np.log((here[symbol] + 0.5) / (there[symbol] + 0.5))) for symbol in seen
        }
        return Score(
            "symbols",
            lambda symbols: np.array([known.get(symbol, 0.0) for symbol in symbols.raw]),
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
    return Score("bits", partial(_over_bits, weights))


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
    """Bound the loss of every pair from below; all bounds together miss with at most alpha."""
    # Reports are of fresh devices, so that they are independent; `events`, tested besides those
    # that are learned, were fixed before anything was asked. Bonferroni: all events of all pairs
    # share alpha evenly.
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
