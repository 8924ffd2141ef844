"""Random classification noise: labels that were flipped by a coin (notes, Theorem 8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import Answer, Answers, Batch, Learner, Question
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.oracles.empirical import Sampler
from askance_aggregator.oracles.expectations import expectations, presence_of
from askance_aggregator.oracles.labels import label_count, relabelled
from askance_aggregator.oracles.oracle import Shares, learn
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidAnswer, InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema

T = TypeVar("T")
Disagrees = Callable[[T, EncodedColumns], NDArray[np.bool_]]
"""Of a hypothesis and rows, which rows have another label than it says."""


class ClassificationNoiseOracle:
    """Answers questions about true labels from rows whose label is flipped with probability eta.

    With a = phi(x, y) and b = phi(x, the other label) of a row as it is seen,

        ((1 - eta) a - eta b) / (1 - 2 eta)

    has the expectation of phi(x, true label): it is the label-free half (a + b)/2 and, over 1 - 2
    eta, the half that changes its sign with the label. So a question is evaluated twice, the second
    time on the same rows with their labels exchanged.

    Utility: all answers together are valid with probability at least 1 - beta. A question takes
    ln(2/share) range^2 / (2 tau^2 (1 - 2 eta)^2) fresh rows.

    Args:
        label: the field that the noise is in, a category of two labels.
        eta: the rate, in [0, 1/2).
        part: of each tolerance what chance may use; the rest is for an eta that is only nearly so.

    Raises:
        InvalidParameter: a number out of range, or no such label.

    Source: notes, Theorem 8; deviation: both halves from one sample at tau, not from two at tau/2,
    which takes a quarter of the rows or less.

    Example:
        >>> people = ask.Population.generated("halfspaces", users=20_000, d=2)
        >>> oracle = ask.ClassificationNoiseOracle(
        ...     lambda count: people.columns(0, count),
        ...     people.schema, "y", eta=0, beta=0.01, values=1,
        ... )
        >>> question = ask.Question(ask.predicate(people.schema["x0"] > 0), tau="0.1")
        >>> len(oracle.answer(ask.Batch([question]))[0].values)
        1
    """

    def __init__(
        self,
        sampler: Sampler,
        schema: Schema,
        label: str,
        eta: Rational,
        beta: float | Fraction,
        values: int | None = None,
        part: Fraction = Fraction(1),
    ) -> None:
        self._eta = rational(eta, "eta")
        if not 0 <= self._eta < Fraction(1, 2):
            raise InvalidParameter(f"eta expects a rate in [0, 1/2), got {value_text(eta)}")
        if (labels := label_count(schema, label)) != 2:
            raise InvalidParameter(f"label expects a category of two labels, got {labels}")
        if not 0 < part <= 1:
            raise InvalidParameter(f"part expects a number in (0, 1], got {value_text(part)}")
        self.schema = schema
        self._sampler = sampler
        self._label = label
        self._shares = Shares(beta, values)
        self._part = part
        self._drawn = 0

    @property
    def drawn(self) -> int:
        """Number of rows drawn so far."""
        return self._drawn

    def answer(self, batch: Batch) -> Answers:
        """The means over fresh samples, corrected for the noise."""
        return tuple(self._answer(question) for question in batch.questions)

    def _answer(self, question: Question) -> Answer:
        share, left = self._shares.spend(question.values), 1 - 2 * self._eta
        tau, spread = float(question.working_tau), float(question.spread / left)
        rows = ceil(log(2 / share) / 2 * (spread / (tau * float(self._part))) ** 2)
        self._drawn += rows
        seen = self._sampler(rows)
        exchanged = relabelled(seen, self._label, 1 - np.asarray(seen.values[self._label]))
        pairs = zip(expectations(question, seen), expectations(question, exchanged), strict=True)
        values = tuple(float(((1 - self._eta) * a - self._eta * b) / left) for a, b in pairs)
        low, high = (float(bound) for bound in question.bounds)
        return Answer(
            values,
            tuple(min(max(value - tau, low), high) for value in values),
            tuple(max(min(value + tau, high), low) for value in values),
            present=presence_of(question, seen),
        )


@dataclass(frozen=True, slots=True)
class LearnedUnderNoise(Generic[T]):
    """Result of learning at an unknown noise rate.

    Args:
        hypothesis: the one that disagrees least with held-out rows.
        eta: the rate that it was learned for.
        disagreement: its share of held-out rows.
        drawn: how many rows, the held-out ones included.
    """

    hypothesis: T
    eta: Fraction
    disagreement: Fraction
    tried: int
    drawn: int


def noise_grid(most: Rational, tau: Rational) -> tuple[Fraction, ...]:
    """Rates of which one is near enough to any in [0, most].

    Args:
        most: the highest rate there can be, below 1/2.
        tau: the least tolerance of a question, over its range, below 1.
    """
    # With u = 1 / (1 - 2 eta), a rate whose u' is off by a factor within 1 -+ tau moves an answer
    # by at most tau range / 2. The u' are powers of (1 + tau) / (1 - tau).
    highest, relative = rational(most, "most"), rational(tau, "tau")
    if not 0 <= highest < Fraction(1, 2) or not 0 < relative < 1:
        raise InvalidParameter(
            "expected a rate in [0, 1/2) and a tau in (0, 1),"
            f" got {value_text(most)} and {value_text(tau)}"
        )
    ratio = float((1 + relative) / (1 - relative))
    steps = ceil(log(1 / (1 - 2 * float(highest))) / log(ratio))
    rates = (Fraction((1 - ratio**-step) / 2).limit_denominator(10**9) for step in range(steps + 1))
    return tuple(min(rate, highest) for rate in rates)


def learn_under_noise(
    learner: Learner[T],
    sampler: Sampler,
    schema: Schema,
    label: str,
    disagrees: Disagrees[T],
    *,
    most: Rational,
    tau: Rational,
    extra: Rational,
    beta: float,
) -> LearnedUnderNoise[T]:
    """Learns at an unknown rate of noise: a run for each rate of a grid, and a held-out choice.

    On noisy rows a hypothesis of error e disagrees with a share eta + (1 - 2 eta) e, least where e
    is.

    Utility: with probability at least 1 - beta the error is below that which the learner promises,
    plus `extra`. Only the run at the rate next to the true one has to be valid, so each gets beta/2
    (and half of every tolerance, for the grid takes the other); the choice takes ln(4 G / beta) /
    (2 s^2) rows for G rates with s = extra (1 - 2 most) / 2.

    `most` is the highest rate there can be, below 1/2, `tau` the least tolerance of a question that
    the learner asks, over the question's range, and `extra` the error that the choice may add. It
    is no matter if the learner notices wrong rates.

    Raises:
        InvalidAnswer: the learner came to no hypothesis at any rate.

    Source: Kearns 1998, section 4, for the search; notes, Theorem 8, for the rest.
    """
    rates = noise_grid(most, tau)
    room = float(rational(extra, "extra")) * (1 - 2 * float(rational(most, "most"))) / 2
    if room <= 0:
        raise InvalidParameter(f"extra expects an error above 0, got {value_text(extra)}")
    drawn = ceil(log(4 * len(rates) / beta) / (2 * room * room))
    held_out = sampler(drawn)
    found: list[tuple[Fraction, Fraction, T]] = []
    for rate in rates:
        oracle = ClassificationNoiseOracle(
            sampler, schema, label, rate, beta / 2, part=Fraction(1, 2)
        )
        with suppress(InvalidAnswer):
            hypothesis = learn(learner, oracle)
            wrong = int(disagrees(hypothesis, held_out).sum())
            found.append((Fraction(wrong, held_out.rows), rate, hypothesis))
        drawn += oracle.drawn
    if not found:
        raise InvalidAnswer(f"expected a hypothesis at one of {len(rates)} rates, got none")
    share, rate, hypothesis = min(found, key=lambda each: each[:2])
    return LearnedUnderNoise(hypothesis, rate, share, len(rates), drawn)
