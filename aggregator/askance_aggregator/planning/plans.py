"""Plan values: the questions of each group of users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from askance_aggregator.amplification.outer import Outer, OuterBatch, delta_for, honest, outer_of
from askance_aggregator.estimation import Decode
from askance_aggregator.learners import Allocation, Question
from askance_aggregator.planning.precision import randomizer_text
from askance_aggregator.reports.figures import risk_notes
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.plain_text import text_of
from askance_aggregator.reports.plans import plan_report
from askance_aggregator.reports.report import CommandReport
from askance_aggregator.reports.texts import counted
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.queries import Query
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Question to one group of users.

    Args:
        question: its index in the batch.
        query: what is asked; of a vector perhaps a block only.
        cohort: groups with the same number are the same users; all others are disjoint.
        decode: what a table's reports are decoded by, where that was designed with it.
    """

    question: int
    query: Query
    randomizer: Randomizer
    users: int
    cohort: int
    decode: Decode | None = None


class Share(NamedTuple):
    """Groups of a round that are alike.

    Args:
        randomizer: what answers, in a few words.
        together: questions that each of their users answers.
        users: of each group, at least.
        nano_nats: charge of a group's question.
    """

    randomizer: str
    together: int
    users: int
    nano_nats: int
    groups: int

    def to_json(self) -> dict[str, Any]:
        """The keys of `askance plan`, a kind of group."""
        return {
            "groups": self.groups,
            "users": self.users,
            "together": self.together,
            "privacy_loss": self.nano_nats / NANO_NATS_PER_NAT,
            "randomizer": self.randomizer,
        }


class Uninformed(NamedTuple):
    """Tolerance that is no better than what is known of an answer without data.

    Args:
        middle: error of the middle of the range of the answer, at most; tau or less.
    """

    tau: float
    middle: float

    def __str__(self) -> str:
        return (
            f"tau {self.tau:.4g} is no better than a guess without data: an answer in the middle"
            f" of the range is within {self.middle:.4g}"
        )


class WideRange(NamedTuple):
    """Tolerance that is a large part of the range of an answer, so that its bounds matter."""

    tau: float
    low: float  # least value of the answer
    high: float
    is_stated: bool  # by the study, so that fewer users are enough instead

    def __str__(self) -> str:
        gain = (
            "about a quarter of the users are enough"
            if self.is_stated
            else f"answers are within {self.tau / 2:.3g} instead of {self.tau:.3g}"
        )
        return (
            f"do nearly all values lie in a part of the range {self.low:g} .. {self.high:g}?"
            f" with bounds half as wide, {gain}"
        )


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Plan of one batch.

    Args:
        users: how many users it takes in all, each of them once.
        allocation: FRESH, SPLIT or GROUPED; of a single question, FRESH.
        groups: one a question, in the batch's order; of a vector one a block, in the order of its
            components.
        tau: the least tolerance among its questions: what was asked for, or, for a question that
            leaves it open, what its users allow.
        n_variance: n times the variance of an answer, in the square of its unit, the greatest
            among its questions (`precision.n_variance`).
        n_variance_limit: what no randomizer of this epsilon is below that is unbiased over the
            range, in the unit of `n_variance`, by the dual of the program that designed the table;
            None where none was proved.
        hoeffding_users: what the paper's bound takes: for every value a fresh group with
            randomized response, n = 2 C^2 b^2 ln(2/beta)/tau^2 (KLNRS08 Lemma 4.3 with Hoeffding).
        lower_bound: what any randomizers take at least, to get its hardest value as surely as this
            plan gets all of them (`lower_bound.least_users`).
        values: of all its answers.
        waves: in how many parts its users are asked (`looks`); `users` is all of them.
        options: users that each allocation needs, as far as it was considered, with the stand-in of
            open tolerances.
        uninformed: the first tolerance, of a question whose every value counts, that is no better
            than a guess; None: all are.
        wide: the first tolerance of a number that is a large part of its range; None: there is
            none.
    """

    queries: int
    users: int
    allocation: Allocation
    groups: tuple[GroupPlan, ...]
    tau: float
    n_variance: float
    n_variance_limit: float | None
    hoeffding_users: int
    lower_bound: int
    values: int
    waves: int = 1
    options: Mapping[Allocation, int] = field(default_factory=dict)
    uninformed: Uninformed | None = None
    wide: WideRange | None = None

    @property
    def nano_nats(self) -> int:
        """Largest charge of the round per user."""
        charges: Counter[int] = Counter()
        for group in self.groups:
            charges[group.cohort] += group.randomizer.loss.nano_nats
        return max(charges.values())

    @property
    def cohorts(self) -> tuple[tuple[GroupPlan, ...], ...]:
        """Groups of the same users, together."""
        found: dict[int, list[GroupPlan]] = {}
        for group in self.groups:
            found.setdefault(group.cohort, []).append(group)
        return tuple(map(tuple, found.values()))

    @property
    def answers(self) -> int:
        """Greatest number of questions of the round to a user."""
        return max(Counter(group.cohort for group in self.groups).values())

    @property
    def shares(self) -> tuple[Share, ...]:
        """The groups by randomizer and cohort, in the order in which they come."""
        together = Counter(group.cohort for group in self.groups)
        alike: dict[tuple[str, int, int], list[int]] = {}
        for group in self.groups:
            nano = group.randomizer.loss.nano_nats
            key = (randomizer_text(group.randomizer), together[group.cohort], nano)
            alike.setdefault(key, []).append(group.users)
        return tuple(
            Share(told, size, min(users), nano, len(users))
            for (told, size, nano), users in alike.items()
        )

    @property
    def randomizers(self) -> tuple[str, ...]:
        """The randomizers in a few words, each once, in order."""
        return tuple(dict.fromkeys(randomizer_text(group.randomizer) for group in self.groups))

    def to_json(self) -> dict[str, Any]:
        """The keys of `askance plan`, a round; two bounds beside."""
        return {
            "queries": self.queries,
            "users": self.users,
            "allocation": str(self.allocation),
            "randomizer": ", ".join(self.randomizers),
            "privacy_loss": self.nano_nats / NANO_NATS_PER_NAT,
            "tau": self.tau,
            "n_variance": self.n_variance,
            "n_variance_limit": self.n_variance_limit,
            "hoeffding_users": self.hoeffding_users,
            "lower_bound": self.lower_bound,
            "waves": self.waves,
            "options": {str(allocation): users for allocation, users in self.options.items()},
            "shares": [share.to_json() for share in self.shares],
        }


@dataclass(frozen=True, slots=True)
class EpsilonCurve:
    """Users that a study needs by epsilon, from which the least epsilon of a plan was found.

    Args:
        points: pairs of an epsilon, in nano-nats and rising, and the users that its plan needs;
            None: the study is refused there.
        users: how many there are.
        grid: the epsilons that are tried, in words.
    """

    points: tuple[tuple[int, int | None], ...]
    users: int
    grid: str

    def to_json(self) -> dict[str, Any]:
        """Return the grid, and the points in nats."""
        return {
            "grid": self.grid,
            "points": [
                {"epsilon": nano / NANO_NATS_PER_NAT, "users_needed": needed}
                for nano, needed in self.points
            ],
        }


class CostsBeside(NamedTuple):
    """Cost of answers by three ways to keep an outer epsilon.

    A cost is the greatest tolerance, with as many users as there are; where all tolerances are
    stated, the number of users.

    Args:
        is_tau: whether costs are tolerances.
        own: of the plan.
        local_only: of reports that alone keep it; None: they cannot be planned.
        curator: of a trusted curator, sample and noise together, at most.
    """

    is_tau: bool
    own: float
    local_only: float | None
    curator: float

    def to_json(self) -> dict[str, Any]:
        """Return the costs by their unit, "tau" or "users"."""
        return {
            "cost": "tau" if self.is_tau else "users",
            "own": self.own,
            "local_only": self.local_only,
            "curator": self.curator,
        }


@dataclass(frozen=True, slots=True)
class WantedOuter:
    """Guarantee towards readers of tallies, from which a plan's epsilon follows.

    Args:
        outer: guarantee, of tallies of at least its answers; None: the local epsilon alone.
        answers: fresh ones in every group; with fewer the study ends without a result.
        wanted: outer epsilon that was asked for.
        most_local: greatest local epsilon that was allowed, in nats.
        beside: costs of other ways to keep it.
    """

    outer: Outer | None
    answers: int
    wanted: float
    most_local: float
    beside: CostsBeside

    def to_json(self) -> dict[str, Any]:
        """Return what the epsilon follows from."""
        return {
            "epsilon": self.wanted,
            "answers": self.answers,
            "local_at_most": self.most_local,
            "beside": self.beside.to_json(),
        }


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """All rounds of a study, as rehearsed.

    Args:
        feasible: whether the population is large enough.
        users_needed: how many users it takes, each in one round.
        reason: why it is not feasible; None where it is.
        beta: the probability that any value of any answer is off by its tolerance or more.
        beta_per_value: its share for each value: beta over the number of values in all rounds.
        values: how many values all rounds have together, over which beta is divided. A run that
            asks for more would not keep beta.
        fields: names of the columns that its questions may use, sorted by those of their fields.
        settings: parameters that the learner was not given and that follow from the number of users
            and the budget, as text by name.
        curve: users by epsilon, of a plan whose epsilon follows from them; None: it was given.
        wanted: guarantee towards readers that its epsilon follows from; None: it was given.
        least_answers: that the study signs; with fewer in a group it ends without a result.
        delta: of its results, for an aggregator of more devices than it asks; None: they are all.

    Example:
        >>> people = ask.read("census")
        >>> learner = ask.learners.frequency("education", tau="0.05")
        >>> plan = ask.Study(learner, people.schema, epsilon=1).plan(n_users=people.size)
        >>> plan
        <StudyPlan: 11,195 users needed of 20,000, 1 round, epsilon 1, feasible>
        >>> [planned.users for planned in plan.rounds]
        [11195]
    """

    feasible: bool
    users_needed: int
    n_users: int | None
    rounds: tuple[RoundPlan, ...]
    reason: str | None
    beta: float
    beta_per_value: float
    nano_nats: int
    values: int
    fields: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    curve: EpsilonCurve | None = None
    wanted: WantedOuter | None = None
    least_answers: int = 0
    delta: Fraction | None = None

    def __repr__(self) -> str:
        users = counted(self.users_needed, "user")
        there = "" if self.n_users is None else f" of {self.n_users:,}"
        needed = f"{users} needed{there}, {counted(len(self.rounds), 'round')}"
        epsilon = f"epsilon {self.epsilon:.9g}"
        state = "feasible" if self.feasible else f"not feasible: {self.reason}"
        return line_of("StudyPlan", f"{needed}, {epsilon}, {state}")

    def __str__(self) -> str:
        """Format users, questions and tolerance by round, as `askance plan` prints them."""
        return text_of(self._report())

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        return html_of(self._report())

    def _report(self) -> CommandReport:
        report = plan_report("", self.to_json(), every=False, verbose=False)
        reasons = () if self.reason is None else (self.reason,)
        return replace(report, warnings=(*report.warnings, *reasons))

    @property
    def epsilon(self) -> float:
        """Budget of each user, in nats."""
        return self.nano_nats / NANO_NATS_PER_NAT

    @property
    def hoeffding_users(self) -> int:
        """Number of users by the paper's bounds."""
        return sum(planned.hoeffding_users for planned in self.rounds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that a reader must know besides, a sentence each.

        Of several rounds none is said to be no better than a guess: they may be steps, as of a
        descent, whose errors cancel.
        """
        notes = risk_notes(self.epsilon)
        if len(self.rounds) != 1:
            return notes
        (only,) = self.rounds
        told = (str(found) for found in (only.uninformed, only.wide) if found is not None)
        return (*notes, *told)

    def allowance(self, index: int, users_left: int) -> int:
        """Compute how many of the remaining users a round may take: all but what later rounds need.

        A round that was not rehearsed may take all.
        """
        later = sum(planned.users for planned in self.rounds[index + 1 :])
        return max(users_left - later, 0) if index < len(self.rounds) else users_left

    def alpha(self, question: Question) -> float:
        """The chance of a miss that the intervals of one answer may spend: its part of beta."""
        return self.beta_per_value * question.values

    def to_json(self) -> dict[str, Any]:
        """The keys of `askance plan`, and what they were computed for."""
        return {
            "feasible": self.feasible,
            "reason": self.reason,
            "users": self.n_users,
            "users_needed": self.users_needed,
            "hoeffding_users": self.hoeffding_users,
            "epsilon": self.epsilon,
            "beta": self.beta,
            "fields": list(self.fields),
            "settings": dict(self.settings),
            "notes": list(self.notes),
            "rounds": [planned.to_json() for planned in self.rounds],
            **({} if self.curve is None else {"curve": self.curve.to_json()}),
            **self._outer_json(),
        }

    def outer(self, delta: Fraction | None = None) -> Outer | None:
        """Bound what readers of its tallies learn, with `least_answers` fresh answers in each.

        Args:
            delta: in (0, 1); None: that of a result of the plan's users, or of its aggregator's.

        Returns:
            None where no less than the local epsilon holds: with too few answers, for one.
        """
        if honest(self.least_answers) < 2:
            return None
        distinct = {  # cohorts of alike randomizers have alike bounds
            tuple(sorted(group.randomizer.canonical for group in groups)): groups
            for planned in self.rounds
            for groups in planned.cohorts
        }
        batches = [
            OuterBatch(group.randomizer, self.least_answers, cohort)
            for cohort, groups in enumerate(distinct.values())
            for group in groups
        ]
        own = self.delta or delta_for(self.n_users or self.users_needed or 1)
        return outer_of(batches, delta or own)

    def _outer_json(self) -> dict[str, Any]:
        """Return the key `outer` of results, where it holds, and what the epsilon follows from."""
        found: dict[str, Any] = {}
        outer = self.outer() if self.wanted is None else self.wanted.outer
        if outer is not None:
            found["outer"] = outer.to_json()
        if self.wanted is not None:
            found["outer_wanted"] = self.wanted.to_json()
        return found
