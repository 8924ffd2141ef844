"""Lower bounds of the privacy loss between two records, from what their reports show.

Counts of events in serialised symbols are bounded for every n, except with a stated chance. An
event is fixed before the reports are looked at that it is counted in: candidates are counted in one
half of the reports, the most informative of each kind are tested on the other half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite
from typing import Protocol

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


class Event(Protocol):
    """Something that a symbol shows or does not show."""

    @property
    def name(self) -> str:
        """Text of the event, for readers."""
        ...

    def count(self, symbols: Symbols) -> int:
        """Count the symbols in which the event happens."""
        ...


@dataclass(frozen=True, slots=True)
class SymbolIs:
    """The symbol is exactly this."""

    value: bytes

    @property
    def name(self) -> str:
        """The symbol, or how it begins."""
        shown = self.value.hex()
        return f"symbol = {shown if len(shown) <= 32 else shown[:32] + '...'}"

    def count(self, symbols: Symbols) -> int:
        """Count by comparing bytes."""
        return sum(symbol == self.value for symbol in symbols.raw)


@dataclass(frozen=True, slots=True)
class ByteIs:
    """Event: one byte of the symbol has this value."""

    position: int
    value: int

    @property
    def name(self) -> str:
        """Position and value."""
        return f"byte {self.position} = {self.value}"

    def count(self, symbols: Symbols) -> int:
        """Count down one column."""
        return int(np.count_nonzero(symbols.matrix[:, self.position] == self.value))


@dataclass(frozen=True, slots=True)
class BitIs:
    """Event: one bit of the symbol has this value; in a bitmap, a cell is in the report."""

    position: int
    value: int

    @property
    def name(self) -> str:
        """Position and value."""
        return f"bit {self.position} = {self.value}"

    def count(self, symbols: Symbols) -> int:
        """Count down one column."""
        column = symbols.matrix[:, self.position // 8] >> (7 - self.position % 8) & 1
        return int(np.count_nonzero(column == self.value))


@dataclass(frozen=True, slots=True)
class FirstBitIs:
    """The first bit that is set is this one; one past the last where none is."""

    position: int

    @property
    def name(self) -> str:
        """The position."""
        return f"first set bit = {self.position}"

    def count(self, symbols: Symbols) -> int:
        """Count by the counts of all first bits."""
        counts = _first_bits(symbols)
        return int(counts[self.position])


@dataclass(frozen=True, slots=True)
class LengthIs:
    """Event that the symbol has that many bytes."""

    length: int

    @property
    def name(self) -> str:
        """The length."""
        return f"length = {self.length}"

    def count(self, symbols: Symbols) -> int:
        """Count by the lengths."""
        return int(np.count_nonzero(symbols.lengths == self.length))


Counts = NDArray[np.int64]
Make = Callable[[int], Event]
Kind = Callable[[Symbols, Symbols], tuple[Counts, Counts, Make]]


def candidates(first: Symbols, second: Symbols) -> list[Event]:
    """Return the events that are likelier under the first than under the second, by these reports.

    Returns:
      At most two of each kind.
    """
    found: list[Event] = []
    for kind in (_symbols, _bytes, _bits, _first, _lengths):
        here, there, make = kind(first, second)
        scores = losses_at_least(here, there, (len(first), len(second)), _RANKING_ALPHA)
        scores[
            (here == len(first)) & (there == len(second))
        ] = -np.inf  # always true: no information
        best = np.argsort(-scores, kind="stable")[:_BEST_OF_A_KIND]
        found += [make(int(index)) for index in best if scores[index] > -np.inf]
    return found


def _symbols(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    here, there = Counter(first.raw), Counter(second.raw)
    seen = sorted(here)
    columns = (
        np.array([counter[symbol] for symbol in seen], dtype=np.int64) for counter in (here, there)
    )
    return (*columns, lambda index: SymbolIs(seen[index]))  # type: ignore[return-value]  # two


def _bytes(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    return _values(first), _values(second), lambda index: ByteIs(index // 256, index % 256)


def _values(symbols: Symbols) -> Counts:
    width = symbols.width
    counts = np.zeros(width * 256, dtype=np.int64)
    places = np.arange(width, dtype=np.int64) * 256
    for rows in symbols.chunks():
        counts += np.bincount((rows + places).ravel(), minlength=width * 256)
    return counts


def _bits(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    bits = 8 * first.width
    here, there = (
        np.concatenate((len(symbols) - ones, ones))
        for symbols in (first, second)
        for ones in (symbols.bit_counts(),)
    )
    return here, there, lambda index: BitIs(index % bits, index // bits)


def _first(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    return _first_bits(first), _first_bits(second), FirstBitIs


def _first_bits(symbols: Symbols) -> Counts:
    last = 8 * symbols.width
    counts = np.zeros(last + 1, dtype=np.int64)
    for bits in symbols.bit_chunks():
        ended = np.column_stack((bits, np.ones(len(bits), dtype=np.uint8)))
        counts += np.bincount(ended.argmax(axis=1), minlength=last + 1)
    return counts


def _lengths(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    most = first.width + 1
    here, there = (
        np.bincount(symbols.lengths, minlength=most).astype(np.int64) for symbols in (first, second)
    )
    return here, there, LengthIs


_REPEATS = 4  # a table is learned where a symbol is seen so often on average
_STANDARD_DEVIATIONS = 4.0  # a bit that differs by less is left out of the sum: it is chance
_THRESHOLDS = 256
_KEPT = 2

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
