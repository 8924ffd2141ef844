"""Events that are learned: the reports that are likelier under one record than under another.

By the lemma of Neyman and Pearson the best event for a given probability is a threshold of the
likelihood ratio. The ratio is learned in one half of the reports, as a table over symbols where
few differ, otherwise as a sum over bits; how well it is learned decides how much is found, never
whether what is found is true.
Source: Bichsel, Steffen, Bogunovic and Vechev, DP-Sniper, 2021.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_simulation.audit.bounds import losses_at_least
from askance_simulation.audit.symbols import Symbols

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
