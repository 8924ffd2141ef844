"""Accounting of boosting: plans for a budget (epsilon, delta), by two methods.

As DRV10 prints it (IV, after Claim IV.2): T runs of the base generator at epsilon_base each,
summed; and T k sampled queries, each charged 4 alpha T rho / mu, composed by Theorem III.3.

Tight: the queries of round 1 are drawn from the uniform distribution, which reveals nothing; in
round t only t-1 reweightings have happened, so a draw's range is 4 alpha (t-1) rho / mu; a draw is
an exponential mechanism of bounded range, so it costs range^2 / 8 in zCDP; and answers are
Gaussian, so everything is summed in zCDP and converted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, log

from askance_aggregator.bisection import least_whole
from askance_aggregator.composition import (
    Advanced,
    BoundedRange,
    Event,
    EventCounts,
    Pure,
    epsilon_of_rho,
)
from askance_aggregator.numbers import Rational, read_epsilon, read_probability
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curator.synopsis.queries import QueryFamily

TWO_ALPHA = Fraction(16_094_379_124_341, 10**13)
"""2 alpha = ln((1 + 2 eta) / (1 - 2 eta)) = ln 5 at eta = 1/3, rounded down at the 13th decimal."""

DEFAULT_SAMPLES = 200
"""k of a plan that is not told another: the least that was measured to carry from the sampled
queries to the others on some thousand of them (Lemma V.1's number is a multiple of the synopsis's
size in bits, and vacuous here)."""

_PRINTED_SAMPLING = Fraction(1, 5)  # of epsilon; the answers have the rest
_TIGHT_SAMPLING = Fraction(1, 2)  # of rho
_MAX_SAMPLES = 1000
_GRID = 10**15  # rationals out of floats are whole numbers over it, rounded down


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Facts about the queries that accounting needs.

    Args:
      size: |Q|.
      unit: true answers are whole multiples of it.
      sensitivity: by how many units replacing a record moves an answer at most; rho is this many
        units.
    """

    size: int
    unit: Fraction
    sensitivity: int

    @classmethod
    def counting(cls, family: QueryFamily, n: int) -> QuerySet:
        """Counting queries over n records: rho = 1/n."""
        if n < 1:
            raise InvalidParameter(f"n: expected 1 or more, found {n}")
        return cls(family.size, Fraction(1, n * family.scale), family.scale)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Schedule of Figure 1, independent of the accounting.

    Args:
      rounds: T.
      samples: k, drawn in each round, with replacement.
      accurate: lambda, in units.
      slack: mu, in units, 1 or more.
      unit: of answers.
    """

    rounds: int
    samples: int
    accurate: int
    slack: int
    unit: Fraction

    @property
    def bound(self) -> Fraction:
        """Error bound lambda + mu of every answer (Theorem IV.1); vacuous from 1 on.

        It holds if every base synopsis is lambda-accurate on more than 5/6 of its round's
        distribution.
        """
        return (self.accurate + self.slack) * self.unit


@dataclass(frozen=True, slots=True)
class BoostingPlan:
    """A schedule and what it may spend."""

    accounting: str  # "printed" or "tight"
    queries: QuerySet
    schedule: Schedule
    answer_rho: Fraction  # zCDP of each round's base synopsis

    def draw_range(self, reweightings: int) -> Fraction:
        """4 alpha t rho / mu: the range of one draw after t reweightings (Claim IV.2)."""
        rate = TWO_ALPHA / self.schedule.slack
        return 2 * rate * self.queries.sensitivity * reweightings

    def sampling_events(self) -> tuple[Event, ...]:
        """Events of drawn queries, one per query; those of round 1 are free."""
        return tuple(
            BoundedRange(self.draw_range(reweightings))
            for reweightings in range(1, self.schedule.rounds)
            for _ in range(self.schedule.samples)
        )

    def rho(self) -> Fraction:
        """The zCDP of all of it, whatever its accounting charged."""
        draws = self.schedule.samples * _squares(self.schedule.rounds - 1)
        return self.schedule.rounds * self.answer_rho + draws * self.draw_range(1) ** 2 / 8


def rounds_for(queries: int) -> int:
    """T = floor(2 ln |Q| / ln(9/5)) + 1, so that the error over queries falls below 1/|Q|."""
    return int(2 * log(queries) / log(9 / 5)) + 1


def tight_plan(
    queries: QuerySet, epsilon: Rational, delta: Rational, samples: int = DEFAULT_SAMPLES
) -> BoostingPlan:
    """The most accurate plan that is (epsilon, delta)-private by the tight accounting."""
    # Half of the zCDP pays for draws (that gives mu), the other half for answers (lambda).
    rho = concentrated_within(read_epsilon(epsilon), read_probability(delta, "delta"))
    _check_samples(samples)
    rounds = rounds_for(queries.size)
    steps = samples * _squares(rounds - 1) * (2 * TWO_ALPHA * queries.sensitivity) ** 2 / 8
    slack = max(1, _root_above(steps / (_TIGHT_SAMPLING * rho)))
    left = rho - steps / slack**2
    answer_rho = Fraction(int(left / rounds * _GRID), _GRID)
    return _plan("tight", queries, rounds, samples, slack, answer_rho)


def printed_plan(
    queries: QuerySet, epsilon: Rational, delta: Rational, samples: int = DEFAULT_SAMPLES
) -> BoostingPlan:
    """The plan by the accounting that DRV10 prints; it spends far less than it is charged."""
    # A fifth of epsilon and half of delta pay for the T k draws by Theorem III.3; the rest is
    # shared by the T base synopses, summed.
    total, failure = read_epsilon(epsilon), read_probability(delta, "delta")
    _check_samples(samples)
    rounds = rounds_for(queries.size)
    each = per_release_epsilon(_PRINTED_SAMPLING * total, failure / 2, rounds * samples)
    charged = 2 * TWO_ALPHA * rounds * queries.sensitivity
    slack = max(1, -int(-charged // each))
    base = (1 - _PRINTED_SAMPLING) * total / rounds
    answer_rho = concentrated_within(base, failure / (2 * rounds))
    return _plan("printed", queries, rounds, samples, slack, answer_rho)


def concentrated_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, on a grid of 10^-15, whose conversion is within (epsilon, delta)."""
    return _largest_within(epsilon, lambda rho: epsilon_of_rho(rho, delta), "a release")


def per_release_epsilon(total: Fraction, delta: Fraction, count: int) -> Fraction:
    """Compute the largest epsilon of each of `count` pure releases, on a grid of 10^-15."""
    # All of them together are (total, delta)-private by Theorem III.3, or by their sum.
    theorem = Advanced()

    def spent(each: Fraction) -> float:
        return theorem.epsilon(EventCounts({Pure(each): count}), delta)

    return _largest_within(total, spent, f"{count} releases")


def _largest_within(epsilon: Fraction, spent: Callable[[Fraction], float], wanted: str) -> Fraction:
    """By bisection: more costs more, and nothing above twice epsilon + 2 is within."""
    most = int(2 * (epsilon + 1) * _GRID)
    low = least_whole(lambda step: spent(Fraction(step, _GRID)) > epsilon, 0, most) - 1
    if not low:
        raise InvalidParameter(
            f"budget: expected enough for {wanted}, found epsilon {float(epsilon):g}"
        )
    return Fraction(low, _GRID)


def _plan(
    accounting: str,
    queries: QuerySet,
    rounds: int,
    samples: int,
    slack: int,
    answer_rho: Fraction,
) -> BoostingPlan:
    """Plan boosting with lambda two standard deviations of an answer among k, a free threshold."""
    if not answer_rho:
        raise InvalidParameter(
            "budget: expected enough for answers in every round, found too little"
        )
    variance = samples * queries.sensitivity**2 / (2 * answer_rho)
    accurate = _root_above(4 * variance)
    schedule = Schedule(rounds, samples, accurate, slack, queries.unit)
    return BoostingPlan(accounting, queries, schedule, answer_rho)


def _check_samples(samples: int) -> None:
    whole = isinstance(samples, int) and not isinstance(samples, bool)
    if not whole or not 1 <= samples <= _MAX_SAMPLES:
        raise InvalidParameter(
            f"samples: expected a whole number 1 .. {_MAX_SAMPLES}, got {value_text(samples)}"
        )


def _squares(last: int) -> int:
    """1 + 4 + ... + last^2."""
    return last * (last + 1) * (2 * last + 1) // 6


def _root_above(square: Fraction) -> int:
    """The least whole number found whose square is not below."""
    return isqrt(-int(-square // 1) - 1) + 1 if square > 0 else 0
