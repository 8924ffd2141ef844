"""The oracle of a curator: SQ learning becomes differentially private (notes, Theorem 7)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import least_whole
from askance_aggregator.composition import Pure
from askance_aggregator.learners import Answer, Answers, Batch, Presence, Question
from askance_aggregator.numbers import Rational, read_epsilon
from askance_aggregator.oracles.laplace import Laplace
from askance_aggregator.oracles.oracle import Shares
from askance_aggregator.queries import EncodedColumns, evaluate_columns, evaluate_vectors, number_in
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter, PlanExceeded, PlanRefused
from askance_client.printable import value_text
from askance_client.queries import QueryKind


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows that one question is answered by."""

    rows: int
    event: Pure


class CentralOracle:
    """Answers each question by the mean over a part of the rows, with Laplace draws added.

    Privacy: pure epsilon-DP, replace-one, however many questions there are and however adaptively
    they are chosen: a row is in one part only (parallel composition). Of a part whole numbers are
    released, sums of levels or counts of cells, with exact discrete Laplace draws of scale
    sensitivity/epsilon. How many rows there are is public, and so is how many a question takes.

    Utility: all answers together are valid with probability at least 1 - beta, divided by `Shares`:
    half of a value's share is for the sample (Hoeffding), half for the draw, and rows are as many
    as bring both together below tau: O((1/(epsilon tau) + 1/tau^2) log(1/share)).

    Args:
        columns: independent rows of a distribution, in the order in which they are used.
        epsilon: nats, for all questions together.
        words: the draws' randomness.

    Source: notes, Theorem 7; deviations: the printed scale "alpha |S_i| / M" is one of rates, and M
    times less than what parallel composition gives: the scale of a mean is range / (alpha |S_i|).
    A histogram has sensitivity 2 in L1 and is one question.

    Example:
        >>> people = ask.Population.generated("categories", users=10_000, cells=4)
        >>> oracle = ask.CentralOracle(
        ...     people.columns(0, 10_000), 1, ask.SystemWords(), beta=0.01, values=4
        ... )
        >>> question = ask.Question(ask.category(people.schema["category"]), tau="0.1")
        >>> len(oracle.answer(ask.Batch([question]))[0].values)
        4
    """

    def __init__(
        self,
        columns: EncodedColumns,
        epsilon: Rational,
        words: Words,
        beta: float | Fraction,
        values: int | None = None,
    ) -> None:
        self._columns = columns
        self._epsilon = read_epsilon(epsilon)
        self._words = words
        self._shares = Shares(beta, values)
        self._used = 0
        self._parts: list[RowGroup] = []

    @property
    def used(self) -> int:
        """Number of rows used so far."""
        return self._used

    @property
    def parts(self) -> tuple[RowGroup, ...]:
        """Releases of each part, in order."""
        return tuple(self._parts)

    @property
    def event(self) -> Pure:
        """Joint cost of all answers so far: the greatest loss of a part."""
        return Pure(max((part.event.epsilon for part in self._parts), default=Fraction(0)))

    def answer(self, batch: Batch) -> Answers:
        """The means over parts that no question had before.

        Raises:
            PlanRefused: there are too few rows for the first batch; nothing was released.
            PlanExceeded: there are too few rows left for a later one; nothing of it was released,
                and the parts before it stay charged.
        """
        needs = [
            central_rows(question, self._epsilon, self._shares.spend(question.values))
            for question in batch.questions
        ]
        left = self._columns.rows - self._used
        if sum(needs) > left:
            error = PlanExceeded if self._parts else PlanRefused
            raise error(f"expected {sum(needs)} rows not used before, found {left}")
        pairs = zip(batch.questions, needs, strict=True)
        return tuple(self._answer(question, rows) for question, rows in pairs)

    def _answer(self, question: Question, rows: int) -> Answer:
        part = self._columns.take(slice(self._used, self._used + rows))
        mechanism = laplace_of(question, self._epsilon)
        self._used += rows
        self._parts.append(RowGroup(rows, mechanism.event))
        sums = totals(question, part)
        released = sums + mechanism.draws(self._words, len(sums))
        if question.over_present:
            return _over_present(question, released, rows)
        unit, tau = step_of(question), float(question.working_tau)
        values = tuple(float(int(total) * unit / rows) for total in released)
        low, high = (float(bound) for bound in question.bounds)
        return Answer(
            values,
            tuple(min(max(value - tau, low), high) for value in values),
            tuple(max(min(value + tau, high), low) for value in values),
        )


def _over_present(question: Question, released: NDArray[np.int64], rows: int) -> Answer:
    """The mean over rows that have the number, by the two totals of `totals`."""
    centre, half = _centred(question)
    unit, tau = step_of(question), float(question.working_tau)
    low, high = (float(bound) for bound in question.bounds)
    above, weighed = (int(total) for total in released)
    share = weighed / (half * rows)
    value = float((centre + Fraction(above * half, weighed)) * unit) if weighed > 0 else low
    slack = 0.1 * float(question.present)  # see `central_rows`
    ends = (max(share - slack, 0.0), min(share + slack, 1.0))
    return Answer(
        (value,),
        (min(max(value - tau, low), high),),
        (max(min(value + tau, high), low),),
        present=Presence(share, *ends),
    )


def _centred(question: Question) -> tuple[int, int]:
    """The middle of a number's range, and the most that it is away from it, in grid units."""
    low, high = question.query.low, number_in(question.query).high
    centre = (low + high) // 2
    return centre, high - centre


def totals(question: Question, rows: EncodedColumns) -> NDArray[np.int64]:
    """Compute a part's totals before noise: whole numbers, one per value of the answer.

    Of a query with a missing level two: of what numbers are above the middle of their range, and of
    half the range for every row that has a number.
    """
    if question.query.kind is QueryKind.VECTOR:
        return np.asarray(evaluate_vectors(question.query, rows).sum(axis=0), dtype=np.int64)
    levels = evaluate_columns(question.query, rows)
    if question.over_present:
        centre, half = _centred(question)
        has = levels != question.query.default
        above = int((levels[has] - centre).sum())
        return np.array([above, half * np.count_nonzero(has)], dtype=np.int64)
    if question.query.kind is QueryKind.CATEGORY:
        return np.bincount(levels, minlength=question.values).astype(np.int64)
    if question.query.kind is QueryKind.SIGNED:
        counts = np.bincount(levels, minlength=2 * question.values + 1).astype(np.int64)
        return np.asarray(counts[0:-1:2] - counts[1:-1:2], dtype=np.int64)
    return np.array([levels.sum()], dtype=np.int64)


def laplace_of(question: Question, epsilon: Fraction) -> Laplace:
    """Choose a question's noise: replacing a row moves totals by their range, or by 2 in L1."""
    # (Of a histogram one cell loses and another gains; a signed row may turn from + to -. Each
    # component of a vector may move by the range.)
    query = question.query
    if question.over_present:  # from one number to another, or half of that and the row's own half
        return Laplace(epsilon, 2 * _centred(question)[1])
    if query.kind in (QueryKind.CATEGORY, QueryKind.SIGNED):
        return Laplace(epsilon, 2)
    return Laplace(epsilon, (query.high - query.low) * question.values)


def step_of(question: Question) -> Fraction:
    """Value of a total's unit, in real units of the answer."""
    query = question.query
    return Fraction(1, 1 << query.frac)


def central_rows(question: Question, epsilon: Fraction, share: float) -> int:
    """The least rows for which half of `share` covers the sample and half the draw."""
    # For a query with a missing level, the sum and the share of rows with the number are each off
    # by less than q/10 of what the range allows, with q the promised share, so the mean is off by
    # less than 10/9 of their errors over q.
    if not 0 < share < 1:
        raise InvalidParameter(f"share expects a probability in (0, 1), got {value_text(share)}")
    tau, spread = float(question.working_tau), float(question.spread)
    draws = 1
    if question.over_present:
        tau = min(tau, spread / 10) * 0.9 * float(question.present)
        share, draws = share / 2, 2
    width = laplace_of(question, epsilon).half_width(1 - Fraction(share) / (2 * draws))
    drawn = draws * float(width * step_of(question))

    def enough(rows: int) -> bool:
        room = tau - drawn / rows
        return room > 0 and 2 * rows * (room / spread) ** 2 >= log(4 / share)

    high = 1
    while not enough(high):
        high *= 2
    return least_whole(enough, high // 2, high)
