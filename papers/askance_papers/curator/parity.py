"""PARITY, learned privately: a hidden r in {0, 1}^d from examples (x, <r, x> mod 2).

Theory of operation: the examples are linear equations over GF(2). One run A gives up with
probability 1/2 before it looks at anything, keeps each equation with probability p, solves what it
kept and gives a uniform solution, or gives up where there is none. One equation more halves a
solution space or does nothing to it; only to contradict is drastic, and that hides behind the
coin of 1/2. So A is private on *every* data set, those that no parity fits included. A* runs A k
times and takes the first answer.

Privacy loss of keeping each example with probability p, held against a budget by integers:
let P(h) and q be a run's probabilities of h and of giving up, on a data set z, and P'(h), q' the
same on a neighbour z'. With the example in which they differ left out, let them be a and b; b >=
1/2. Kept, an example at most doubles a and raises b to at most 1. So

    P(h) / P'(h) <= ((1 - p) a + 2 p a) / ((1 - p) a) = (1 + p) / (1 - p),
    q <= (1 - p) b + p,  q' >= b,  hence q / q' <= 1 + p.

k runs give up with probability q^k, and say h with P(h) S(q), S(q) = 1 + q + ... + q^(k-1). And
S((1 - p) b + p) / S(b) falls in b: 1 - q shrinks by the factor 1 - p whatever b is, so the ratio is
1 / (1 - p) times (1 - q^k) / (1 - b^k), whose logarithm has a derivative in b of the sign of
b^(k-1) / S(b) - q^(k-1) / S(q) <= 0. So b = 1/2 is the worst, and the loss of k runs is at most the
logarithm of

    max((1 + p)^k, (1 + p) / (1 - p) * S((1 + p) / 2) / S(1/2)),

a rational number, which integers hold against e^eps. For k = 1 it is (1 + p) / (1 - p).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.bisection import least_whole
from askance_aggregator.composition import Pure
from askance_aggregator.numbers import Rational, read_epsilon, read_probability
from askance_aggregator.sampling import Words, happens
from askance_client.accounting import NANO_NATS_PER_NAT, charge, ratio_within
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.gf2 import Rows, Solutions, pack, solve, words_of
from askance_simulation.populations.labelled_bits import Parity


@dataclass(frozen=True, slots=True, eq=False)
class ParityExamples:
    """Examples (x, y), one per user: x in {0, 1}^d, y in {0, 1}.

    Made by `of_bits` or `of_words`, which check everything.

    Args:
      rows: shape (n, words_of(d + 1)): bit c is x_c, bit d is y.
      d: the length of an x.
    """

    rows: Rows
    d: int

    def __len__(self) -> int:
        """n, which is public."""
        return len(self.rows)

    @classmethod
    def of_bits(cls, x: ArrayLike, y: ArrayLike) -> ParityExamples:
        """Make examples from a table of zeros and ones.

        Args:
          x: shape (n, d), values {0, 1}, of a whole-number or truth-value type.
          y: shape (n,), values {0, 1}.
        """
        table = np.asarray(x)
        _check_shape(table, "a table (n, d) of zeros and ones")
        labels = _labels(y, len(table))
        if table.dtype.kind not in "biu":
            raise InvalidParameter(f"examples: expected whole numbers, found type {table.dtype}")
        if table.dtype.kind != "b" and (table.min() < 0 or table.max() > 1):
            row, column = (int(place[0]) for place in np.nonzero((table < 0) | (table > 1)))
            raise InvalidRecord(
                f"examples: expected 0 or 1, found another number in row {row}, column {column}"
            )
        d = table.shape[1]
        rows = pack(table.astype(np.uint8, copy=False), words_of(d + 1))
        return cls(_labelled(rows, labels, d), d)

    @classmethod
    def of_words(cls, x: NDArray[np.uint64], y: ArrayLike, d: int) -> ParityExamples:
        """Make examples whose bits are packed already.

        Args:
          x: shape (n, ceil(d / 64)), dtype uint64: x_c is bit c mod 64 of word c // 64; 0 beyond.
          y: shape (n,), values {0, 1}.
          d: the length of an x.
        """
        packed = np.asarray(x)
        if isinstance(d, bool) or not isinstance(d, int) or d < 1:
            raise InvalidParameter("d: expected a whole number of 1 or more")
        _check_shape(packed, "packed rows (n, ceil(d / 64))")
        if packed.dtype != np.uint64 or packed.shape[1] != words_of(d):
            raise InvalidParameter(
                f"examples: expected {words_of(d)} words of type uint64 a row for d = {d},"
                f" found {packed.shape[1]} of type {packed.dtype}"
            )
        labels = _labels(y, len(packed))
        if d % 64 and (beyond := np.flatnonzero(packed[:, -1] >> np.uint64(d % 64))).size:
            raise InvalidRecord(f"examples: expected {d} bits, found more in row {int(beyond[0])}")
        rows = np.zeros((len(packed), words_of(d + 1)), dtype=np.uint64)
        rows[:, : packed.shape[1]] = packed
        return cls(_labelled(rows, labels, d), d)


def _check_shape(table: NDArray[Any], expected: str) -> None:
    if table.ndim != 2:
        raise InvalidParameter(f"examples: expected {expected}, found {table.ndim} dimensions")
    if 0 in table.shape:
        raise InvalidParameter(f"examples: expected {expected}, got the shape {table.shape}")


def _labels(y: ArrayLike, count: int) -> NDArray[np.uint64]:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise InvalidParameter(
            "labels: expected one whole number for each row,"
            f" found {labels.ndim} dimensions of type {labels.dtype}"
        )
    if len(labels) != count:
        raise InvalidRecord(f"labels: expected one for each of {count} rows, found {len(labels)}")
    wrong = np.flatnonzero((labels != 0) & (labels != 1))
    if wrong.size:
        raise InvalidRecord(f"labels: expected 0 or 1, found another number in row {int(wrong[0])}")
    return labels.astype(np.uint64)


def _labelled(rows: Rows, labels: NDArray[np.uint64], d: int) -> Rows:
    rows[:, d // 64] |= labels << np.uint64(d % 64)
    return rows


Keeping = Callable[[Fraction, int], Fraction]
"""How p follows from epsilon (nats, in whole nano-nats) and the number of runs."""

_STEPS = 1 << 64  # p is a multiple of 1 / 2^64, so one word decides a coin


def likelihood_ratio(keep: Fraction, runs: int) -> Fraction:
    """e^loss of k runs, at most; of one run exactly, by enumeration."""
    if not 0 <= keep < 1:
        raise InvalidParameter(f"keep: expected a probability below 1, found {float(keep):g}")
    if runs < 1:
        raise InvalidParameter(f"runs: expected at least 1, found {runs}")
    # In integers, since fractions would reduce at every step: with p = v / u, S((1 + p) / 2) is
    # `grown` / (2 u)^(k-1) and S(1/2) is `halves` / 2^(k-1).
    v, u = keep.numerator, keep.denominator
    grown, halves = _geometric(u + v, 2 * u, runs), _geometric(1, 2, runs)
    said = Fraction((u + v) * grown, (u - v) * halves * u ** (runs - 1))
    return max(said, (1 + keep) ** runs)


def printed_keeping(epsilon: Fraction, runs: int) -> Fraction:
    """Return p = eps / (4 k), as printed: each run is to cost eps / k.

    It costs ln((1 + p) / (1 - p)) a run, about half of that. Nothing is checked here:
    `PrivateParity` refuses what passes eps (one run does from about 3.83 on).

    Source: KLNRS08 section 3.2; its condition eps <= 1/2 is not needed.
    """
    return epsilon / (4 * runs)


def even_keeping(epsilon: Fraction, runs: int) -> Fraction:
    """The largest p for which k runs, each charged for any output alike, cost eps: tanh(eps / 2k).

    For one run it is exact: the loss is eps, but for p's 64 bits.

    Source: ours; the run's loss is that of KLNRS08 Lemma 3.2.
    """
    return _largest(epsilon, lambda keep: ((1 + keep) / (1 - keep)) ** runs)


def sharper_keeping(epsilon: Fraction, runs: int) -> Fraction:
    """The largest p for which k runs cost eps, by what they say together.

    Only one of k runs says anything, and giving up costs ln(1 + p): p = e^(eps/k) - 1 wherever
    giving up is the dearest (at eps = 1 from k = 4 on), about twice that of an even split. The
    loss is then eps, by enumeration too.

    Source: ours; see the module.
    """
    return _largest(epsilon, lambda keep: likelihood_ratio(keep, runs))


def costs_at_most(keep: Fraction, runs: int, epsilon: Fraction) -> bool:
    """Decide, with integers, whether `likelihood_ratio` is at most e^eps."""
    return _within(likelihood_ratio(keep, runs), epsilon)


def _geometric(x: int, y: int, runs: int) -> int:
    """y^(k-1) (1 + x/y + ... + (x/y)^(k-1))."""
    total, power = 0, 1
    for _ in range(runs):
        total = total * y + power
        power *= x
    return total


def _within(ratio: Fraction, epsilon: Fraction) -> bool:
    nano = epsilon * NANO_NATS_PER_NAT
    return ratio_within(ratio.numerator, ratio.denominator, nano.numerator // nano.denominator)


def _largest(epsilon: Fraction, ratio: Callable[[Fraction], Fraction]) -> Fraction:
    """The largest multiple of 2^-64 below 1 whose ratio, which grows with it, is at most e^eps."""
    beyond = least_whole(
        lambda step: not _within(ratio(Fraction(step, _STEPS)), epsilon), 0, _STEPS
    )
    return Fraction(beyond - 1, _STEPS)


_MOST = 16  # examples, and unknowns: 2^16 systems, 2^16 solutions


def law(examples: ParityExamples, keep: Fraction, runs: int) -> Mapping[Parity | None, Fraction]:
    """Compute the exact law of `PrivateParity` by solving every set of kept examples.

    Args:
      examples: at most 16, with d at most 16.
      keep: p. Any probability: what is not private has a law too.
      runs: k.

    Returns:
      The probabilities of all outputs that have one, None (nothing) among them; they sum to 1.
    """
    if len(examples) > _MOST or examples.d > _MOST:
        raise InvalidParameter(
            f"law: expected at most {_MOST} examples and unknowns,"
            f" found {len(examples)} and {examples.d}"
        )
    if not 0 <= keep <= 1 or runs < 1:
        raise InvalidParameter("law: expected a probability to keep and at least one run")
    once: defaultdict[Parity | None, Fraction] = defaultdict(Fraction)
    once[None] = Fraction(1, 2)
    for kept in product((False, True), repeat=len(examples)):
        chance = keep ** sum(kept) * (1 - keep) ** (len(kept) - sum(kept)) / 2
        solutions = solve(examples.rows[np.array(kept)], examples.d)
        if solutions is None:
            once[None] += chance
            continue
        for solution in _parities(solutions):
            once[solution] += chance / (1 << examples.d - solutions.rank)
    silent = once.pop(None)
    passes = sum((silent**earlier for earlier in range(runs)), Fraction(0))
    return {None: silent**runs} | {said: chance * passes for said, chance in once.items() if chance}


def _parities(solutions: Solutions) -> Iterator[Parity]:
    free = [place for place in range(solutions.d) if place not in set(solutions.pivots.tolist())]
    for bits in product((0, 1), repeat=len(free)):
        assigned = sum(bit << place for bit, place in zip(bits, free, strict=True))
        words = np.zeros(words_of(solutions.d + 1), dtype=np.uint64)
        words[0] = assigned
        yield Parity(tuple(solutions.with_free(words).tolist()))


_PARTS = 3  # of beta: every run gave up by its coin; too few were kept; what was kept misled


def runs_needed(beta: Rational) -> int:
    """Return k = ceil(log2(3 / beta)): the chance that every run gives up by its coin is beta / 3.

    Source: KLNRS08 Theorem 3.8. Deviation: the printed beta / 2 sums to 3 beta', beta' = beta / 2:
      a run that passes its coin fails with 2 beta', for Lemma 3.1 counts the coin in.
    """
    part = read_probability(beta, "beta") / _PARTS
    runs = 0
    while part * (1 << runs) < 1:
        runs += 1
    return runs


def examples_needed(d: int, keep: Fraction, alpha: Rational, beta: Rational) -> int:
    """Compute a number of examples with which A* succeeds: error above alpha at most with beta.

    n = (2 / (p alpha)) (d ln 2 + ln(1 / beta')), beta' = beta / 3. Then at least p n / 2 examples
    are kept but with e^(-p n / 8), and that number leaves no parity of error above alpha that fits
    but with beta'. Both are at most beta'; where alpha is above 1/4 the first one may ask for more,
    8 ln(1 / beta') / p.

    Args:
      d: the length of an x.
      keep: p.
      alpha: the error allowed, between 0 and 1.
      beta: the failure allowed, between 0 and 1.

    Source: KLNRS08 Lemma 3.1. Deviations: any p (the printed 8 / (eps alpha) is p = eps / 4); the
      printed e^(-eps n / 16) is false, and is e^(-eps n / 32).
    """
    if isinstance(d, bool) or not isinstance(d, int) or d < 1:
        raise InvalidParameter("d: expected a whole number of 1 or more")
    if not 0 < keep < 1:
        raise InvalidParameter(f"keep: expected between 0 and 1, found {float(keep):g}")
    error = float(read_probability(alpha, "alpha"))
    surprise = -log(read_probability(beta, "beta") / _PARTS)
    enough_to_learn = 2 / error * (d * log(2) + surprise)
    return ceil(max(enough_to_learn, 8 * surprise) / float(keep))


_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class PrivateParity:
    """Releases a parity that the examples fit, or nothing.

    Privacy: pure epsilon-DP, replace-one, on every data set: `likelihood_ratio(keep, runs)` is held
    against e^epsilon with integers when this is made, and every coin is exact. What is released
    is the answer; how long it took to find is not, and depends on the data.
    Utility: on `examples_needed` labels of a parity, from any distribution of x, it fails with
    probability at most beta (A*; `runs_needed`), A with at most 1/2 + beta.

    Args:
      epsilon: nats.
      runs: how often A is run, at most; the first answer is released.
      keep: p, the probability with which a run keeps an example.

    Raises:
      InvalidParameter: these runs with this p cost more than epsilon.

    Source: KLNRS08 section 3.2 (A, A*). Deviations: p, and k = ceil(log2(3 / beta)) runs.
    """

    epsilon: Fraction
    runs: int
    keep: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise InvalidParameter(
                "parity: expected examples to be kept with a probability between 0 and 1,"
                f" found {float(self.keep):g}"
            )
        if not costs_at_most(self.keep, self.runs, self.epsilon):
            raise InvalidParameter(
                f"parity: expected a loss of at most epsilon = {float(self.epsilon):g},"
                f" found {float(self.loss):.6g} for {self.runs} runs that keep an example with"
                f" probability {float(self.keep):g}"
            )

    @classmethod
    def once(cls, epsilon: Rational, keeping: Keeping = sharper_keeping) -> PrivateParity:
        """A: one run.

        `sharper_keeping` and `even_keeping` are both tanh(eps/2) for one run.
        """
        budget = read_epsilon(epsilon)
        return cls(budget, 1, keeping(budget, 1))

    @classmethod
    def amplified(
        cls, epsilon: Rational, beta: Rational, keeping: Keeping = sharper_keeping
    ) -> PrivateParity:
        """A*: enough runs for a failure of at most beta, on enough examples."""
        budget, runs = read_epsilon(epsilon), runs_needed(read_probability(beta, "beta"))
        return cls(budget, runs, keeping(budget, runs))

    @property
    def loss(self) -> Fraction:
        """Proven privacy loss in nats, rounded up to nano-nats; at most epsilon."""
        ratio = likelihood_ratio(self.keep, self.runs)
        return Fraction(charge(ratio.numerator, ratio.denominator), NANO_NATS_PER_NAT)

    @property
    def event(self) -> Pure:
        """A release, for an accountant."""
        return Pure(self.loss)

    def release(self, examples: ParityExamples, words: Words) -> Parity | None:
        """A parity that fits what was kept of the examples; None: nothing was found."""
        for _ in range(self.runs):
            found = self._run(examples, words)
            if found is not None:
                return found
        return None

    def _run(self, examples: ParityExamples, words: Words) -> Parity | None:
        if happens(words, _HALF, 1)[0]:
            return None
        kept = happens(words, self.keep, len(examples))
        solutions = solve(examples.rows[kept], examples.d)
        return None if solutions is None else Parity(tuple(solutions.draw(words).tolist()))
