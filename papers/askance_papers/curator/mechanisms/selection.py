"""The choice of one candidate by score: the exponential mechanism and permute-and-flip.

Theory of operation: both draw a candidate uniformly and accept it with probability

    e^(-epsilon (best - score) / (2 sensitivity)),

again and again until one is accepted; the best is accepted whenever it is drawn. Where every draw
is fresh, candidate h comes out with probability proportional to that coin's: the exponential
mechanism. Where a candidate that was turned down once stays so, what is drawn is a random order,
and that is permute-and-flip. So one loop serves both, with a memory or without; the coins are
exact.

Scores are whole numbers, so that nothing rounds; a real score is put on a grid first, its
sensitivity with it (`grid.steps`, `grid.l1_in_steps`). Halving epsilon cannot be spared where one
record is *replaced* by another: that can raise one candidate's score and lower another's, so no
score that counts records is monotone among such neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import BoundedRange, Pure
from askance_aggregator.numbers import Rational, rational, read_epsilon
from askance_aggregator.sampling import Words, happens_exp_minus, integers_below
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text

_CHUNK = 1 << 16  # candidates that are scored at once
_FIRST_DRAWS = 16
_MAX_SCORE = 1 << 52  # so that a difference of scores is a float without rounding
_DIGITS = 60
_MAX_ENUMERATED = 64  # permute-and-flip's alternating sums keep their digits so far


class Candidates(Protocol):
    """A finite number of candidates that can be scored, some at a time."""

    @property
    def size(self) -> int:
        """Number of candidates, 1 or more; public."""
        ...

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The scores of these candidates, shape (len(chosen),): the higher the better."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ScoredCandidates:
    """Candidates whose scores are all there.

    Args:
      values: shape (candidates,), whole numbers.
    """

    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values))
        if self.values.ndim != 1 or not self.values.size:
            raise InvalidRecord(f"scores: expected a vector, found shape {self.values.shape}")
        _whole(self.values)

    @property
    def size(self) -> int:
        """Number of candidates."""
        return self.values.size

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Their scores."""
        return self.values[chosen].astype(np.int64)


class Selection(Protocol):
    """A way of choosing privately: of an epsilon and a sensitivity."""

    @property
    def event(self) -> BoundedRange | Pure:
        """Cost of one choice."""
        ...

    def choose(self, candidates: Candidates, words: Words) -> int:
        """A candidate's number."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism: P[h] proportional to e^(epsilon score(h) / (2 sensitivity)).

    Privacy: epsilon-DP. Between neighbours no weight moves by more than e^(epsilon / 2), and
    neither does their sum; and the log-ratio's *range* over all candidates is at most epsilon,
    which an accountant may use (`BoundedRange`).
    Utility: P[score < best - t] <= (candidates - 1) e^(-epsilon t / (2 sensitivity)).

    Args:
      epsilon: nats, above 0.
      sensitivity: how far replacing one record moves any score; above 0.

    Source: KLNRS08 Definition 3.5 (McSherry, Talwar, FOCS 2007).
    """

    epsilon: Fraction
    sensitivity: Fraction

    def __post_init__(self) -> None:
        _check(self.epsilon, self.sensitivity)

    @classmethod
    def of(cls, epsilon: Rational, sensitivity: Rational = 1) -> Exponential:
        """The mechanism of these numbers, read exactly."""
        return cls(read_epsilon(epsilon), rational(sensitivity, "sensitivity"))

    @property
    def event(self) -> BoundedRange:
        """Cost of one choice."""
        return BoundedRange(self.epsilon)

    def choose(self, candidates: Candidates, words: Words) -> int:
        """Draw with replacement until a candidate is accepted.

        Raises:
          InvalidRecord: scores that are none. Nothing has been drawn.
        """
        return _first_accepted(candidates, self.epsilon / (2 * self.sensitivity), None, words)

    def probabilities(self, scores: NDArray[np.int64]) -> tuple[Decimal, ...]:
        """Compute each candidate's probability, to about 60 digits."""
        with localcontext(prec=_DIGITS):
            accepted = _coins(scores, self.epsilon / (2 * self.sensitivity))
            return tuple(one / sum(accepted) for one in accepted)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """Permute-and-flip: the candidates in a random order, the first whose coin comes up.

    Privacy: pure epsilon-DP (McKenna, Sheldon, Theorem 1).
    Utility: its expected loss of score is never above the exponential mechanism's, and down to half
    of it.

    Args: as of `Exponential`.

    Source: McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially private
    selection" (NeurIPS 2020).
    """

    epsilon: Fraction
    sensitivity: Fraction

    def __post_init__(self) -> None:
        _check(self.epsilon, self.sensitivity)

    @classmethod
    def of(cls, epsilon: Rational, sensitivity: Rational = 1) -> PermuteAndFlip:
        """The mechanism of these numbers, read exactly."""
        return cls(read_epsilon(epsilon), rational(sensitivity, "sensitivity"))

    @property
    def event(self) -> Pure:
        """Cost of one choice."""
        return Pure(self.epsilon)

    def choose(self, candidates: Candidates, words: Words) -> int:
        """Draw without replacement until a candidate is accepted.

        Raises:
          InvalidRecord: scores that are none. Nothing has been drawn.
        """
        turned_down = np.zeros(candidates.size, dtype=np.bool_)
        rate = self.epsilon / (2 * self.sensitivity)
        return _first_accepted(candidates, rate, turned_down, words)

    def probabilities(self, scores: NDArray[np.int64]) -> tuple[Decimal, ...]:
        """Compute each candidate's probability, to at least 30 digits."""
        # Give every candidate a uniform time; h is chosen if its coin comes up and no earlier one's
        # did: P[h] = p_h times the integral over t in [0, 1] of the product of (1 - t p_g), g != h.
        if len(scores) > _MAX_ENUMERATED:
            raise InvalidParameter(
                f"candidates: expected at most {_MAX_ENUMERATED} to enumerate, found {len(scores)}"
            )
        with localcontext(prec=_DIGITS):
            accepted = _coins(scores, self.epsilon / (2 * self.sensitivity))
            return tuple(
                one * _integral(accepted[:h] + accepted[h + 1 :]) for h, one in enumerate(accepted)
            )


def _check(epsilon: Fraction, sensitivity: Fraction) -> None:
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if rational(value, name) <= 0:
            raise InvalidParameter(f"{name}: expected a number above 0, got {value_text(value)}")


def _first_accepted(
    candidates: Candidates, rate: Fraction, turned_down: NDArray[np.bool_] | None, words: Words
) -> int:
    """The loop of both; `turned_down` is its memory, if it has one."""
    best = _best(candidates)
    count = min(_FIRST_DRAWS, candidates.size)
    while True:
        drawn = integers_below(words, candidates.size, count)
        if turned_down is not None:
            # A rejected candidate stays rejected, in these draws too: the first draw counts.
            _, first = np.unique(drawn, return_index=True)
            drawn = drawn[np.sort(first)]
            drawn = drawn[~turned_down[drawn]]
        behind = best - candidates.scores(drawn).astype(np.int64)  # 8 bits would wrap around
        accepted = _accepted(behind, rate, words)
        if accepted.any():
            return int(drawn[int(np.argmax(accepted))])
        if turned_down is not None:
            turned_down[drawn] = True
        count = min(2 * count, _CHUNK)


def _accepted(behind: NDArray[np.int64], rate: Fraction, words: Words) -> NDArray[np.bool_]:
    def exponent(place: int) -> Fraction:
        return rate * int(behind[place])

    return happens_exp_minus(words, behind.astype(np.float64) * float(rate), exponent)


def _best(candidates: Candidates) -> int:
    """The highest score, a chunk of candidates at a time; every score is checked."""
    if candidates.size < 1:
        raise InvalidParameter(f"candidates: expected 1 or more, got {candidates.size}")
    found = []
    for start in range(0, candidates.size, _CHUNK):
        chosen = np.arange(start, min(start + _CHUNK, candidates.size), dtype=np.int64)
        scores = candidates.scores(chosen)
        if scores.shape != chosen.shape:
            raise InvalidRecord(
                f"scores: expected one each of {chosen.size} candidates, found shape {scores.shape}"
            )
        _whole(scores)
        found.append(int(scores.max()))
    return max(found)


def _whole(scores: NDArray[np.int64]) -> None:
    if scores.dtype.kind not in "iu":
        raise InvalidRecord(f"scores: expected whole numbers, found {scores.dtype}")
    if int(scores.max()) >= _MAX_SCORE or int(scores.min()) <= -_MAX_SCORE:
        raise InvalidRecord("scores: expected whole numbers below 2^52, found a larger one")


def _coins(scores: NDArray[np.int64], rate: Fraction) -> list[Decimal]:
    """Compute each candidate's probability of being accepted when it is drawn."""
    ScoredCandidates(scores)
    best = int(scores.max())
    exponents = [rate * (best - score) for score in scores.tolist()]
    return [(-(Decimal(x.numerator) / x.denominator)).exp() for x in exponents]


def _integral(others: list[Decimal]) -> Decimal:
    """Integrate the product of (1 - t p) over t from 0 to 1."""
    polynomial = [Decimal(1)]
    for p in others:
        shifted = [Decimal(0), *(-p * c for c in polynomial)]
        polynomial = [a + b for a, b in zip([*polynomial, Decimal(0)], shifted, strict=True)]
    return sum((c / (power + 1) for power, c in enumerate(polynomial)), Decimal(0))
