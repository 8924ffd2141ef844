"""Rounds of clusters: the sums of all clusters as one vector per user, and how far they are used.

**First round.** A vector of every number and its square gives their means and variances. The first
centres lie at the mean, evenly spaced along the number that varies most.

**Every other round.** A record's vector is zero but for the part of its own cluster (of a mixture:
of each component, times its responsibility). Such a part holds the count and the differences of the
numbers from the centre, so that its length is that of a distance and not that of the box, and a
centre on the mean of its cluster has differences 0. A vector longer than promised is drawn back: of
a record farther from its centre than the clip only the direction counts.

**Noise.** With k clusters, n users and v n times the variance of a component of a vector of length
1, a centre has an error of about r = k sqrt(v / n) per number if all users are asked. Half a round
is repeated noise of the round before: a step is shortened where its noise is greater than
`MOST_STEP`, and what is concluded is the mean of the centres of the last half of the rounds, which
averages their noise (as of gradients, `glm`). So there are (ERROR / r)^2 rounds, 6 at least and 16
at most, and the clip is longer where r is small. The figures were chosen once on Adult (4 and 6
numbers, 26,049 and 10^6 users) and on round clumps.

Source: Blum et al. 2005 ("SuLQ", sums of clusters); Bhowmick et al. 2018 (vectors as one report).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt, sqrt
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.centres import Points, on_grid, scaled
from askance_aggregator.learners.conditions import Conditions, planned_tau
from askance_aggregator.learners.learning import Answer, Question, reach_of
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import check_rounds
from askance_aggregator.numbers import Rational, positive, rational
from askance_aggregator.queries import of_complete, vector
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import MAX_COMPONENTS, Expression, Schema, constant

COUNT = Fraction(1, 2)  # in a vector: a count has little say in a centre that is near its mean
EXACT_ROUNDS = 16  # where nothing is known of users and noise
FEWEST_ROUNDS = 6
MOST_CLIP = 8
CLIP, FINE_CLIP = Fraction(3, 4), Fraction(3, 2)
FINE = 0.008  # relative noise below which it is small
ERROR = 1 / 8  # of a centre, from the noise of one round
PLANNED = 1 / 48  # relative noise that a plan without a population asks users for
MOST_STEP = 0.2  # standard deviation of a step
_LEAST_SHARE = 2.0**-9  # of a cluster that is not empty
_LEAST_VARIANCE, _MOST_VARIANCE = 0.02, 0.6  # of a number, where first centres are spread
_REACH = 1.7  # of the first centres, in standard deviations: of even spacing, sqrt(3)

Rounds = Annotated[int | None, "number of steps (default: by users and noise, 6 to 16)"]
Clip = Annotated[
    Rational | None,
    "distance from a centre beyond which a record counts no more (default: by noise)",
]


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """Settings of the rounds as they were given; what is None follows from the conditions."""

    rounds: int | None = None
    clip: Rational | None = None
    tau: Rational | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None:
            check_rounds(self.rounds)
        if self.clip is not None:
            positive(self.clip, "clip", MOST_CLIP)
        if self.tau is not None:
            positive(self.tau, "tau")

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> RoundSettings:
        """Return the settings among a learner's arguments."""
        return cls(arguments["rounds"], arguments["clip"], arguments["tau"])

    @property
    def tolerance(self) -> Fraction | None:
        """The tolerance, exactly."""
        return None if self.tau is None else rational(self.tau, "tau")

    @property
    def steps(self) -> int:
        """Number of steps; 16 where nothing is known of the noise."""
        return EXACT_ROUNDS if self.rounds is None else self.rounds

    def reach(self, d: int) -> Fraction:
        """The clip; the diameter of the box of d numbers where nothing is known of the noise."""
        return Fraction(isqrt(4 * d - 1) + 1) if self.clip is None else rational(self.clip, "clip")


def settled_rounds(
    given: RoundSettings,
    clusters: int,
    asked: Callable[[Fraction], Question],
    conditions: Conditions,
) -> dict[str, Any]:
    """Return the settings that were not given, made for these conditions.

    Without a number of users they are made for those at which the relative noise is `PLANNED`, and
    a tolerance is set by which a plan asks for about so many. If a tolerance is given, nothing is
    set: the users follow from it.
    """
    if conditions.signing or given.tau is not None:
        return {}
    question = asked(CLIP)
    unit = conditions.noise(question) / float(question.length or 1) ** 2
    enough = max(round(unit * (clusters / PLANNED) ** 2), 1)
    users = enough if conditions.users is None else conditions.users
    relative = clusters * sqrt(unit / users) if users else float("inf")
    wanted = round(min(max((ERROR / relative) ** 2, FEWEST_ROUNDS), EXACT_ROUNDS))
    rounds = wanted if given.rounds is None else given.rounds
    clip = (FINE_CLIP if relative < FINE else CLIP) if given.clip is None else given.clip
    tau = None
    if conditions.users is None:
        question = asked(rational(clip, "clip"))
        kept = conditions.tolerance(
            question, max(users // (rounds + 2), 1), (rounds + 2) * question.values
        )
        tau = planned_tau(kept)
    return {"rounds": rounds, "clip": clip, "tau": tau}


def sums_question(parts: Sequence[Expression], squared: Fraction, tau: Fraction | None) -> Question:
    """Return the question for the sums of a round.

    A vector that is longer than the root of `squared` is drawn back.
    """
    if len(parts) > MAX_COMPONENTS:
        raise InvalidParameter(
            f"k expects fewer clusters or columns: their sums are {value_text(len(parts))} numbers,"
            f" and a vector question has at most {MAX_COMPONENTS}"
        )
    length = _root(squared)
    return Question(vector(parts, -length, length, 0), tau, length=length)


def _root(squared: Fraction) -> Fraction:
    """Round the root upward to a multiple of 1/64."""
    return Fraction(isqrt(ceil(squared * 4096) - 1) + 1, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Means and variances of the numbers, and the share of users who lack one of them.

    Args:
        mean: point of the box, shape (d,).
        variances: shape (d,), > 0.
        having: share of the users who count, > 0.
        missing: share of users who lack a number; None: all count.
    """

    mean: NDArray[np.float64]
    variances: NDArray[np.float64]
    having: float
    missing: MissingShare | None

    @classmethod
    def question(
        cls,
        numbers: Sequence[Expression],
        fields: Mapping[str, Expression] | None,
        tau: Fraction | None,
    ) -> Question:
        """Ask for the share of complete cases, the means, and those of the squares less 1/2.

        Numbers are in [-1, 1]. Without `fields` every user counts, and squares are asked as they
        are: what is missing counts as 0.
        """
        middle = COUNT if fields is not None else 0
        squares = [number * number - constant(middle, 1) for number in numbers]
        asked = sums_question(
            [constant(COUNT, 1), *numbers, *squares],
            COUNT**2 + (1 + (1 - middle) ** 2) * len(numbers),
            tau,
        )
        if fields is None:
            return asked
        return Question(of_complete(asked.query, fields), tau, length=asked.length)

    @classmethod
    def of(cls, answer: Answer, tau: Fraction | None) -> Start:
        """Read an answer about complete cases.

        Sums are divided by their share, or by the error of that if it is greater.
        """
        count = float(COUNT)
        share, low, high = (
            values[0] / count for values in (answer.values, answer.lows, answer.highs)
        )
        having = min(max(share, _LEAST_SHARE, reach_of(answer, tau) / count), 1.0)
        sums = np.array(answer.values[1:]) / having
        mean, squares = np.split(sums, 2)
        missing = MissingShare.outside(share, max(low, 0.0), min(high, 1.0))
        return cls(*_bounded(mean, squares + count), having, missing)

    @classmethod
    def of_all(cls, answer: Answer) -> Start:
        """Read an answer about all users."""
        mean, squares = np.split(np.array(answer.values[1:]), 2)
        return cls(*_bounded(mean, squares), 1.0, None)

    def points(self, k: int) -> Points:
        """Return k first centres: at the mean, evenly spaced along the number that varies most."""
        widest = int(self.variances.argmax())
        points = np.tile(self.mean, (k, 1))
        places = (2 * np.arange(k) + 1) / k - 1
        points[:, widest] += _REACH * sqrt(float(self.variances[widest])) * places
        return on_grid(points)

    def inner_variance(self, k: int) -> float:
        """The mean variance of a number about the nearest of the first centres."""
        widest = float(self.variances.max())
        return float(self.variances.sum() - widest * (1 - 1 / k**2)) / len(self.variances)


def start_question(schema: Schema, tau: Fraction | None) -> Question:
    """Return the question of the first round about all numbers of a schema."""
    fields = {name: schema[name] for name in schema.fields}
    return Start.question([part.expression for part in scaled(schema)], fields, tau)


def _bounded(
    mean: NDArray[np.float64], squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means in the box, and variances of plausible size."""
    inside = np.clip(mean, -1, 1)
    return inside, np.clip(squares - inside**2, _LEAST_VARIANCE, _MOST_VARIANCE)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Step of all centres, from the answer of a round.

    Args:
        shares: of users in every cluster, shape (k,): beside much noise near those before.
        known: whether a cluster is not empty, within the error, shape (k,).
        moves: of the centres that are known, shape (k, d).
        reach: bound of the error of a component, about two standard deviations.
        settled: whether the answer shows every cluster, and no centre off the mean of its cluster
            beyond the error; False for an answer of zeros, so that a rehearsal takes all steps.
    """

    shares: NDArray[np.float64]
    known: NDArray[np.bool_]
    moves: NDArray[np.float64]
    reach: float
    settled: bool

    @classmethod
    def of(
        cls,
        counts: NDArray[np.float64],
        sums: NDArray[np.float64],
        before: NDArray[np.float64],
        reach: float,
    ) -> Step:
        """Compute the step from counts, shape (k,), and sums of differences, shape (k, d)."""
        off = reach / float(COUNT)
        trust = 1 / (1 + (off * len(counts)) ** 2)
        shares = trust * counts / float(COUNT) + (1 - trust) * np.maximum(before, 0.0)
        known = shares > max(_LEAST_SHARE, off * trust)
        safe = np.where(known, shares, 1.0)[:, None]
        noise = reach / 2 / safe
        moves = sums / safe * np.minimum(1.0, MOST_STEP / np.maximum(noise, 2.0**-40))
        settled = (counts > reach).all() and (np.abs(sums) <= reach).all()
        return cls(shares, known, moves, reach, bool(settled))

    def taken(self, centres: Points) -> Points:
        """Move the centres; one that may be empty goes half of the way to that of the greatest."""
        nearer = (centres + centres[self.shares.argmax()]) / 2
        return on_grid(np.where(self.known[:, None], centres + self.moves, nearer))


def is_late(number: int, rounds: int) -> bool:
    """Return whether a round, from 0, is in the half that is concluded from."""
    return 2 * number >= rounds - 1
