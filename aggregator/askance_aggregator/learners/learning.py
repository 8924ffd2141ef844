"""Exchange of a learner: questions, batches, answers.

A learner is a generator without I/O: ``answers = yield Batch(...)`` is a round, ``return`` is the
hypothesis and ``yield from`` composes. It cannot detect which oracle answers it: a distribution, a
sample, or a fleet of devices.

**Tolerances are open.** A question with tolerance tau is answered within *less than* tau of the
expectation. The planner bounds P[error >= tau], so a gap of exactly tau between two concepts is
distinguished (KLNRS08 section 5 asks for tau < 1/(4d): here that is tau = 1/(4d)).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.aims import Aim, PopulationMean
from askance_aggregator.learners.decisions import Decision
from askance_aggregator.numbers import Rational, positive, rational
from askance_aggregator.queries import fits_missing_level, has_missing_level, number_in
from askance_client.errors import InvalidParameter, InvalidQuery, LocalProtocolError
from askance_client.printable import value_text
from askance_client.queries import Query, QueryKind
from askance_client.queries.categories import signed_cells

OPEN_PART = Fraction(1, 20)

END_PART = 0.55
"""Of alpha, what each end of an interval misses with at most, by itself.

It is one half for all but a mean over the users who have a number: there each end has .45 of alpha,
and the share of those users .1 (`estimation.present`)."""


class Allocation(StrEnum):
    """Division of users over the questions of a batch.

    Example:
        >>> [str(allocation.value) for allocation in ask.Allocation]
        ['fresh', 'split', 'grouped']
    """

    FRESH = "fresh"  # a fresh group of users a question; each answers one, at its full epsilon
    SPLIT = "split"  # every user answers every question, each with a part of epsilon
    GROUPED = "grouped"  # cohorts answer a few questions each, each with a part of epsilon


@dataclass(frozen=True, slots=True, init=False)
class Question:
    """A statistical query and how exactly it has to be answered.

    Args:
        query: what each user is asked; the answer is an expectation over users.
        tau: the answer, each of its values, must be off by less than this, in real units of the
            answer; None: as exact as the population allows.
            Both numbers may be given as text or float, and are kept exactly.
        cell_mass: a promise, known from the concept class and not from data, that no cell (for
            SIGNED: no signed pair; for a predicate: "yes") holds more than this share of users.
            It is used for planning only; intervals do not rely on it.
        aim: what the answer is for: which mean it estimates, and its interval is about. Of a number
            (REAL) there is a choice; None: the population's.
        present: a promise, from public knowledge, that at least this share of users has the number
            of a query with a missing level (`queries.among_present`). It is used for planning only;
            intervals do not rely on it. None: all users.
        over_present: whether the answer is the mean over the users who have the number, as the
            query's last value says "missing". None: if `queries.among_present` made the query.
        decision: the conclusion that is drawn from all values together, where that needs less than
            every value within tau: the question is planned for it. None: every value counts.
        length: a promise that a vector (VECTOR) is at most this long, in real units; it allows
            randomizers of directions. A longer one counts as drawn back to it, or clipped number
            by number, as the randomizer does. None: each component is bounded, and nothing else.

    Raises:
        InvalidParameter: tau or length is not positive, or cell_mass or present is not in (0, 1].
        InvalidQuery: another aim than the population's for what is no number; a length of what is
            no vector; or the query has no value that could say "missing".

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> question = ask.Question(ask.predicate(schema.age > 40), tau="0.05")
        >>> question.tau, question.values
        (Fraction(1, 20), 1)
    """

    query: Query
    tau: Fraction | None
    cell_mass: Fraction | None
    aim: Aim
    present: Fraction
    over_present: bool
    decision: Decision | None
    length: Fraction | None

    def __init__(
        self,
        query: Query,
        tau: Rational | None = None,
        cell_mass: Rational | None = None,
        aim: Aim | None = None,
        present: Rational | None = None,
        over_present: bool | None = None,
        decision: Decision | None = None,
        length: Rational | None = None,
    ) -> None:
        if not isinstance(query, Query):
            raise InvalidQuery(f"Question expects a Query, found {type(query).__name__}")
        tolerance = None if tau is None else positive(tau, "tau")
        shares = query.kind in (QueryKind.CATEGORY, QueryKind.PREDICATE)
        if shares and tolerance is not None and tolerance > 1:
            raise InvalidParameter(f"tau: expected at most 1, as of shares, got {tau}")
        mass = None if cell_mass is None else _share("cell_mass", cell_mass)
        if aim not in (None, PopulationMean()) and query.kind is not QueryKind.REAL:
            raise InvalidQuery(
                f"the mean of the population is what a {query.kind.name} question is for;"
                f" got the aim {value_text(aim)}, which a number can have"
            )
        over = has_missing_level(query) if over_present is None else over_present
        if over and not fits_missing_level(query):
            raise InvalidQuery(
                'a mean over those who have a number expects a query whose default says "missing"'
                " (among_present), got one whose default is a number"
            )
        object.__setattr__(self, "over_present", over)
        if length is not None and query.kind is not QueryKind.VECTOR:
            raise InvalidQuery(f"length is of a VECTOR question, found {query.kind.name}")
        longest = None if length is None else positive(length, "length")
        object.__setattr__(self, "length", longest)
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "tau", tolerance)
        object.__setattr__(self, "cell_mass", mass)
        object.__setattr__(self, "aim", PopulationMean() if aim is None else aim)
        object.__setattr__(
            self, "present", Fraction(1) if present is None else _share("present", present)
        )
        object.__setattr__(self, "decision", decision)

    @property
    def values(self) -> int:
        """Number of values of its answer.

        One, or one per cell (SIGNED: one per signed pair; VECTOR: one per component).
        """
        if self.query.kind is QueryKind.CATEGORY:
            return int(self.query.cells)
        if self.query.kind is QueryKind.SIGNED:
            return int(signed_cells(self.query))
        if self.query.kind is QueryKind.VECTOR:
            return int(self.query.components)
        return 1

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest that a value of its answer can be, in real units."""
        if self.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
            scale = 1 << self.query.frac
            high = number_in(self.query).high if self.over_present else self.query.high
            return Fraction(self.query.low, scale), Fraction(high, scale)
        return Fraction(-1 if self.query.kind is QueryKind.SIGNED else 0), Fraction(1)

    @property
    def spread(self) -> Fraction:
        """The length of the range of its values."""
        low, high = self.bounds
        return high - low

    @property
    def working_tau(self) -> Fraction:
        """Tolerance in use; an open one, where no population limits it, is 1/20 of the range."""
        return self.spread * OPEN_PART if self.tau is None else self.tau


@dataclass(frozen=True, slots=True, init=False)
class Batch:
    """The questions of one round: all are fixed before any is answered.

    Args:
        questions: at least one; any iterable.
        allocation: the users who answer them; None: the planner takes what needs fewer users.

    Raises:
        InvalidQuery: there is no question.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> batch = ask.Batch(
        ...     [ask.Question(ask.predicate(schema.age > limit)) for limit in (20, 40, 60)]
        ... )
        >>> len(batch.questions)
        3
    """

    questions: tuple[Question, ...]
    allocation: Allocation | None

    def __init__(self, questions: Iterable[Question], allocation: Allocation | None = None) -> None:
        kept = tuple(questions)
        if not kept:
            raise InvalidQuery("a batch expects at least one question, got none")
        for position, question in enumerate(kept):
            if not isinstance(question, Question):
                found = type(question).__name__
                raise InvalidQuery(f"item {position} of a batch expects a Question, found {found}")
        object.__setattr__(self, "questions", kept)
        object.__setattr__(
            self, "allocation", None if allocation is None else Allocation(allocation)
        )

    @property
    def values(self) -> int:
        """Number of values of all its answers."""
        return sum(question.values for question in self.questions)


@dataclass(frozen=True, slots=True)
class Presence:
    """Estimated share of users who have the number that was asked, with its interval.

    The estimate is raw: it may lie a little outside [0, 1]; the interval does not.
    """

    share: float
    low: float
    high: float


Ends: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Low and high ends of intervals."""


class ScoredReports(NamedTuple):
    """Reports to a question over those users who have a number, each with two scores.

    Of users with a share q of numbers of mean m, the first score has the mean m q, in real units,
    the second one q.

    Args:
        numbers: first score of each symbol, shape (symbols,).
        presences: second score, likewise.
        shares: of the reports, one per symbol, of sum 1.
        answered: number of reports, 1 or more.
    """

    numbers: NDArray[np.float64]
    presences: NDArray[np.float64]
    shares: NDArray[np.float64]
    answered: int


class SumLaw(NamedTuple):
    """Moments of an estimated sum of values, at most.

    Args:
        variance: of the estimate.
        skew: Lyapunov's ratio: the sum of E|a|^3 of its terms a over the variance to the power of
            3/2. It bounds the distance from the normal law (Berry and Esseen).
    """

    variance: float
    skew: float


class RatioInterval(NamedTuple):
    """Intervals of a number's mean over the users who have it, on [-1, 1], and of their share."""

    mean: tuple[float, float]
    share: tuple[float, float]


class SamplingLaw(Protocol):
    """Interface of the law of an answer, over samples of users and the coins of their reports.

    A test needs it beside the intervals. Theoretical oracles answer without a law.
    """

    @property
    def alpha(self) -> float:
        """Chance that an interval of the answer misses."""

    @property
    def look_share(self) -> float:
        """Part of every chance of an error that this look at the reports may spend, in (0, 1].

        It is 1 unless the question was asked in waves.
        """

    def at(self, alpha: float) -> Answer:
        """Return the same values, with intervals that miss with a chance of at most alpha.

        Each end of an answer of one value misses with a chance of at most `END_PART` alpha.
        """

    def covariance(self, shares: Sequence[float]) -> NDArray[np.float64] | None:
        """Compute the covariance of the values of a CATEGORY question.

        Args:
            shares: of the population that users are drawn from, one per cell, of sum 1.

        Returns:
            Shape (cells, cells); None for another question, or where no formula is known.
        """

    def sums(self, weights: NDArray[np.float64], most: float) -> Ends | None:
        """Bound weighted sums of the values by their own law.

        Args:
            weights: shape (sums, values).
            most: the greatest size that such a sum of one user's own values can have.

        Returns:
            Low and high ends, one per sum, not clipped, which miss with a chance of at most
            `alpha` together; None where no law is closer than the sums of intervals.
        """

    def scored(self) -> ScoredReports | None:
        """Return the reports with their scores; None but for a mean of users who have a number."""

    def ratios(self, pairs: int) -> tuple[RatioInterval, ...] | None:
        """Enclose the means of numbers that may be missing, which a VECTOR question asks.

        Args:
            pairs: numbers, asked as `RatiosKept` says.

        Returns:
            One per number; all hold together, and with the intervals of the other components. None
            where the two components of a number were not told by users of their own each.
        """

    def sum_law(
        self, weights: NDArray[np.float64], means: NDArray[np.float64], products: Ends
    ) -> SumLaw | None:
        """Bound the moments of a weighted sum of the values of a VECTOR question.

        Args:
            weights: shape (values,).
            means: of the values in the population, shape (values,).
            products: least and greatest mean products of two of a user's own values that the
                population can have, shape (values, values) each.

        Returns:
            None where no such bound is known.
        """


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question: an estimate for each of its values, with an interval.

    PREDICATE and REAL have one value (REAL in real units), CATEGORY the share of each cell,
    SIGNED E[sign * 1[pair = j]] for each j, VECTOR each component's mean in real units. The
    estimates are raw: unbiased, so a share may lie a little outside [0, 1] (and then outside its
    interval, which is clipped to what is possible). Of a query with a missing level the value is
    the mean over those users who have the number, and `present` is the share who have it; both
    intervals hold together; it is clamped to its range, and `unclamped` is it before that, None
    where no user seems to have the number. `law` is that of all of them; None where the answer is
    not made of reports.

    Example:
        >>> answer = ask.Answer((0.25,), (0.2,), (0.3,))
        >>> answer.value, answer.lows, answer.highs
        (0.25, (0.2,), (0.3,))
    """

    json_keys: ClassVar = ("estimates=values", "lows", "highs")

    values: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    present: Presence | None = field(default=None, kw_only=True)
    unclamped: float | None = field(default=None, kw_only=True)
    law: SamplingLaw | None = field(default=None, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not len(self.values) == len(self.lows) == len(self.highs) > 0:
            raise InvalidParameter(
                f"an answer expects as many lows and highs as values, found {len(self.values)} "
                f"values, {len(self.lows)} lows, {len(self.highs)} highs"
            )

    @property
    def value(self) -> float:
        """The only value of an answer that has one."""
        return self._single(self.values)

    @property
    def low(self) -> float:
        """The only low end of an answer that has one value."""
        return self._single(self.lows)

    @property
    def high(self) -> float:
        """The only high end of an answer that has one value."""
        return self._single(self.highs)

    def sums(self, weights: NDArray[np.float64], most: float) -> Ends:
        """Bound weighted sums of the values, jointly.

        By the law of the reports where it has a bound; else each sum lies between the sums of the
        ends of the intervals, which hold together.

        Shapes are as of `SamplingLaw.sums`.
        """
        known = None if self.law is None else self.law.sums(weights, most)
        if known is not None:
            return known
        lows, highs = np.asarray(self.lows), np.asarray(self.highs)
        above, below = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        return above @ lows + below @ highs, above @ highs + below @ lows

    def _single(self, of: tuple[float, ...]) -> float:
        if len(of) != 1:
            raise LocalProtocolError(
                f"expected an answer of one value, found {len(of)}: they are in its `values`"
            )
        return of[0]


Answers: TypeAlias = tuple[Answer, ...]
"""Answers, one per question, in the batch's order."""

T = TypeVar("T")
Learning: TypeAlias = Generator[Batch, Answers, T]
"""A run of a learner: yields batches, is sent answers, returns a hypothesis of type T."""


def _share(name: str, value: Rational) -> Fraction:
    """Read a share in (0, 1]."""
    share = rational(value, name)
    if not 0 < share <= 1:
        raise InvalidParameter(f"{name} expects a share in (0, 1], got {value_text(value)}")
    return share


def neutral_answer(question: Question) -> Answer:
    """Make the neutral answer: the possible value nearest to zero, and the whole range.

    It stands for a question without answers, and for the answers of a rehearsal (`planning.plan`).
    """
    low, high = question.bounds
    value = float(min(max(Fraction(0), low), high))
    return Answer(
        (value,) * question.values,
        (float(low),) * question.values,
        (float(high),) * question.values,
        present=Presence(1.0, 0.0, 1.0) if question.over_present else None,
    )


def check_batch(asked: object, learner: str) -> Batch:
    """Check that a learner has yielded a batch."""
    if not isinstance(asked, Batch):
        raise InvalidQuery(f"{learner} expects to yield a Batch, found {type(asked).__name__}")
    return asked


def check_answers(batch: Batch, answers: Answers) -> Answers:
    """The answers, if they have the shape that the batch asks for.

    Raises:
        LocalProtocolError: an oracle gave the wrong number of answers or of values.
    """
    if len(answers) != len(batch.questions):
        raise LocalProtocolError(
            f"expected {len(batch.questions)} answers, one a question, found {len(answers)}"
        )
    for position, (question, answer) in enumerate(zip(batch.questions, answers, strict=True)):
        if len(answer.values) != question.values:
            raise LocalProtocolError(
                f"expected {question.values} values in answer {position}, "
                f"found {len(answer.values)}"
            )
    return answers


CHANCE_PART = 0.5
"""Of joint intervals, how much a chance error is taken to be (about two standard deviations): to
act in vain costs users, not to act costs predictions."""


def reach_of(answer: Answer, tau: Fraction | None) -> float:
    """Return the error bound of an answer: the tolerance, or else half of its intervals."""
    return float(tau) if tau is not None else half_width(answer) * CHANCE_PART


def standard_error(answer: Answer, tau: Fraction | None) -> float:
    """Return about the standard deviation of a value, of all values on the mean of squares."""
    if tau is not None:
        return float(tau) * CHANCE_PART / 2
    widths = _half_widths(answer)
    return float(np.sqrt(np.mean(widths * widths))) * CHANCE_PART / 2


def half_width(answer: Answer) -> float:
    """Half of the widest interval of an answer, as it was before it was clipped."""
    return float(_half_widths(answer).max())


def _half_widths(answer: Answer) -> NDArray[np.float64]:
    above = np.subtract(answer.highs, answer.values)
    below = np.subtract(answer.values, answer.lows)
    return np.maximum(above, below)
