"""The learner of PARITY that chooses among many candidates by a test set.

Theory of operation: A is run k times on a training part, and every answer is a candidate. A single
run need only be good with a constant probability, so its examples do not grow with ln(1/beta); the
k runs share epsilon, so k of the order of ln(1/beta) costs that factor once. The test part chooses:
a record of it moves each candidate's number of mistakes by at most 1, and one choice by
permute-and-flip costs one epsilon however many candidates there are. (k sums, each with noise for
epsilon / k, would cost the second factor ln(1/beta) after all.) No record is in both parts, so each
part has all of epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log

import numpy as np

from askance_aggregator.composition import Pure
from askance_aggregator.numbers import Rational, read_epsilon, read_probability
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms.selection import PermuteAndFlip, ScoredCandidates
from askance_papers.curator.parity import (
    ParityExamples,
    PrivateParity,
    even_keeping,
    examples_needed,
)
from askance_simulation.populations.labelled_bits import Parity

MISLED = Fraction(1, 64)  # of a run: too few examples kept, and as much: what was kept misled
_GOOD = Fraction(1, 2) - MISLED  # of a run, at least: its coin, and neither of the above
_GRID = 100  # thresholds between a good and a bad candidate, in parts of alpha


@dataclass(frozen=True, slots=True)
class ValidatedSizes:
    """Sufficient numbers of examples."""

    training: int  # for the k runs of A
    test: int  # for the choice

    @property
    def total(self) -> int:
        """Examples of both parts."""
        return self.training + self.test


@dataclass(frozen=True, slots=True)
class ValidatedParity:
    """Releases one of the parities that k runs of A found, or nothing if none answered.

    Privacy: pure epsilon-DP, replace-one, on every pair of parts. The k answers together cost
    k ln((1 + p) / (1 - p)) <= epsilon for a training record, decided with integers; the choice
    costs epsilon for a test record.
    Utility: with `sizes` examples of a parity, from any distribution of x, its error is above alpha
    with probability at most beta.

    Args:
      epsilon: nats.
      runs: k.
      keep: p, the probability with which a run keeps an example.

    Raises:
      InvalidParameter: k runs with this p cost more than epsilon.

    Source: KLNRS08, remark after Theorem 3.8. Deviation: a choice instead of sum queries.
    """

    epsilon: Fraction
    runs: int
    keep: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.keep <= (most := even_keeping(self.epsilon, self.runs)):
            raise InvalidParameter(
                f"keep: expected above 0 and at most {float(most):g} for {self.runs} runs at"
                f" epsilon = {float(self.epsilon):g}, got {float(self.keep):g}"
            )

    @classmethod
    def of(cls, epsilon: Rational, beta: Rational) -> ValidatedParity:
        """The mechanism with enough runs for a failure of at most beta."""
        budget, runs = read_epsilon(epsilon), validated_runs(beta)
        return cls(budget, runs, even_keeping(budget, runs))

    @property
    def event(self) -> Pure:
        """Cost of a release, for an accountant."""
        return Pure(self.epsilon)

    @property
    def choice(self) -> PermuteAndFlip:
        """The mechanism that chooses among candidates by their mistakes on the test part."""
        return PermuteAndFlip.of(self.epsilon)

    def candidates(self, training: ParityExamples, words: Words) -> tuple[Parity, ...]:
        """Run A k times; at most k answers, in order.

        Privacy: epsilon-DP for the training part, all of them together.
        """
        once = PrivateParity(self.epsilon, 1, self.keep)
        answers = (once.release(training, words) for _ in range(self.runs))
        return tuple(answer for answer in answers if answer is not None)

    def release(
        self, training: ParityExamples, test: ParityExamples, words: Words
    ) -> Parity | None:
        """Choose the candidate with about the fewest mistakes on the test part; None: no candidate.

        Raises:
          InvalidRecord: the parts have x of different lengths. Nothing has been drawn.
        """
        if training.d != test.d:
            raise InvalidRecord(
                f"test: expected x of {training.d} bits, as in training, found {test.d}"
            )
        found = self.candidates(training, words)
        if not found:
            return None
        scores = np.array([-mistakes(parity, test) for parity in found], dtype=np.int64)
        return found[self.choice.choose(ScoredCandidates(scores), words)]

    def sizes(self, d: int, alpha: Rational, beta: Rational) -> ValidatedSizes:
        """Compute examples with which the release errs by more than alpha at most with beta.

        Args:
          d: the length of an x.
          alpha: the error allowed, between 0 and 1.
          beta: the failure allowed; that of `of`, or a larger one.
        """
        # A run is good, of error at most alpha / 2, with probability 31/64 or more, so k runs lack
        # a good one but with beta / 2; `choice_examples` leave a bad choice the other half.
        failure, error = read_probability(beta, "beta"), read_probability(alpha, "alpha")
        if validated_runs(failure) > self.runs:
            raise InvalidParameter(
                f"beta: expected one for which {self.runs} runs are enough, got {float(failure):g}"
            )
        training = examples_needed(d, self.keep, error / 2, 3 * MISLED)
        return ValidatedSizes(
            training, choice_examples(self.epsilon, self.runs, error, failure / 2)
        )


def choice_examples(epsilon: Fraction, candidates: int, alpha: Rational, beta: Rational) -> int:
    """Compute test examples with which a choice is bad at most with beta.

    Args:
      epsilon: of the choice, nats.
      candidates: k.
      alpha: the error from which on a candidate is bad, between 0 and 1.
      beta: the failure allowed, between 0 and 1.
    """
    # One candidate has an error of at most alpha / 2; a bad one has more than alpha. Let m be the
    # test part, and a < b parts of alpha. By Chernoff's bound the good one makes at most a alpha m
    # mistakes but with e^(-alpha m h(2 a) / 2), a bad one at least b alpha m but with
    # e^(-alpha m h(b)), h(x) = x ln x - x + 1; and then one of the k is a bad choice with at most
    # k e^(-epsilon (b - a) alpha m / 2). Each of the three is to be beta / 3; a and b are those on
    # a grid for which m is least.
    failure, error = read_probability(beta, "beta"), read_probability(alpha, "alpha")
    parts = [(_GRID // 2 + i) / _GRID for i in range(1, _GRID // 2)]
    half = float(epsilon) / 2
    rate = max(
        min(_chernoff(2 * a) / 2, _chernoff(b), half * (b - a))
        for a in parts
        for b in parts
        if a < b
    )
    return ceil((log(3 * candidates) - log(failure)) / (float(error) * rate))


def validated_runs(beta: Rational) -> int:
    """Return k = ceil(ln(2 / beta) / ln(1 / (1/2 + 1/64))): a good run, but with beta / 2."""
    failure = read_probability(beta, "beta")
    return ceil((log(2) - log(failure)) / -log(1 - _GOOD))


def mistakes(parity: Parity, examples: ParityExamples) -> int:
    """Count the examples that a parity labels wrongly."""
    mask = np.zeros(examples.rows.shape[1], dtype=np.uint64)
    for place in (*np.flatnonzero(parity.r), examples.d):
        mask[place // 64] |= np.uint64(1 << int(place) % 64)
    return int((np.bitwise_count(examples.rows & mask).sum(axis=1) & 1).sum())


def _chernoff(ratio: float) -> float:
    """Compute h(x) = x ln x - x + 1."""
    return ratio * log(ratio) - ratio + 1
