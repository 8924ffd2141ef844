"""Sizing of one batch: cohorts, randomizers and numbers of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, log, tanh

from askance_aggregator.learners import Allocation, Batch, Question
from askance_aggregator.planning.blocks import blocks_of
from askance_aggregator.planning.cohorts import (
    LEAST_NANO_NATS,
    Divided,
    Section,
    Shared,
    allocation_of,
    balanced,
    divided,
    grouped,
    numbered,
)
from askance_aggregator.planning.decided import miss_of
from askance_aggregator.planning.looks import can_end_early, shares
from askance_aggregator.planning.lower_bound import least_users
from askance_aggregator.planning.parts import Part, Sizer
from askance_aggregator.planning.plans import GroupPlan, RoundPlan, Uninformed
from askance_aggregator.planning.precision import RoundRules, tail_of
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.messages import MAX_WAVES


@dataclass(frozen=True, slots=True)
class Sizing:
    """A batch with its cohorts and randomizers chosen; users for open tolerances not yet.

    Args:
        batch: what is asked.
        sections: questions with users of their own, each question in one.
        nano_nats: each user's budget for the batch.
        beta: the probability of failure for each value, at the last look.
        waves: in how many parts its users are asked.
        least_answers: users in every group, at least; every part's `need` is no less.
        options: users that each allocation needs, as far as it was considered.
    """

    batch: Batch
    sections: tuple[Section, ...]
    nano_nats: int
    beta: float
    waves: int = 1
    least_answers: int = 0
    options: Mapping[Allocation, int] = field(default_factory=dict)

    @property
    def allocation(self) -> Allocation:
        """The users who answer."""
        return allocation_of(self.sections, len(self.batch.questions))

    @property
    def total(self) -> int:
        """Number of users of all needs."""
        return sum(section.need for section in self.sections)

    @property
    def claimed(self) -> int:
        """The users that questions with a tolerance claim."""
        return sum(section.claimed for section in self.sections)

    @property
    def open_groups(self) -> int:
        """Number of sections that can use all remaining users."""
        return sum(section.is_open for section in self.sections)

    def planned(self, n_users: int | None) -> RoundPlan:
        """The round, when it may take n_users (None: any number)."""
        groups = self._groups(n_users)
        by_question: list[list[GroupPlan]] = [[] for _ in self.batch.questions]
        for group, _ in groups:
            by_question[group.question].append(group)
        parts: list[list[Part]] = [[] for _ in self.batch.questions]
        for group, part in groups:
            parts[group.question].append(part)
        users = [[group.users for group in own] for own in by_question]
        taus = [self._tau(index, parts[index], numbers) for index, numbers in enumerate(users)]
        nats = self.nano_nats / NANO_NATS_PER_NAT
        pairs = list(zip(self.batch.questions, taus, strict=True))
        # A batch that is right except with this probability has each of its values right.
        each = self.beta / float(shares(self.waves)[-1])
        joint = each * self.batch.values
        return RoundPlan(
            queries=len(pairs),
            users=sum({group.cohort: group.users for group, _ in groups}.values()),
            allocation=self.allocation,
            groups=tuple(group for group, _ in groups),
            tau=min(taus),
            n_variance=max(
                _n_variance(own, numbers) for own, numbers in zip(parts, users, strict=True)
            ),
            n_variance_limit=_limit(parts),
            hoeffding_users=sum(
                printed_users(question, tau, nats, each) for question, tau in pairs
            ),
            lower_bound=max(
                least_users(question, tau, nats, max(joint, miss_of(question, each)))
                for question, tau in pairs
            ),
            waves=self.waves,
            options=self.options,
            uninformed=_uninformed(pairs),
        )

    def _groups(self, n_users: int | None) -> list[tuple[GroupPlan, Part]]:
        """Return the groups with their parts, in the order of questions and of blocks."""
        found = []
        cohorts = numbered(self.sections)
        for section, numbers, users in zip(
            self.sections, cohorts, self._users(n_users), strict=True
        ):
            for index in section.members:
                for place in section.parts_of(index):
                    part = section.all_parts[place]
                    group = GroupPlan(
                        index,
                        part.question.query,
                        part.randomizer,
                        users[place],
                        numbers[place],
                        part.decode,
                    )
                    found.append((group, part))
        return sorted(found, key=lambda pair: pair[0].question)

    def _users(self, n_users: int | None) -> list[list[int]]:
        """Return the users of each part of each section."""
        if n_users is None:
            return [section.users(None, self.least_answers) for section in self.sections]
        open_ = [section for section in self.sections if section.is_open]
        given = iter(divided(max(n_users - self.claimed, 0), open_, self.least_answers))
        return [
            section.users(
                section.claimed + next(given) if section.is_open else None, self.least_answers
            )
            for section in self.sections
        ]

    def _tau(self, index: int, parts: Sequence[Part], users: Sequence[int]) -> float:
        question = self.batch.questions[index]
        if question.tau is not None:
            return float(question.tau)
        reached = max(
            tail_of(part.question, part.randomizer, part.decode).tolerance(number, self.beta)
            for part, number in zip(parts, users, strict=True)
        )
        return min(reached, float(question.spread))


def size_batch(batch: Batch, nano_nats: int, beta: float, rules: RoundRules) -> Sizing:
    """Size a batch, in waves where that may save users, else asked at once.

    In waves it needs a tolerance for every question, users enough in every group for each wave to
    ask `least_answers` of them (at least one), and a population for which a look may end it
    (`looks.can_end_early`). A group that needs fewer users than `least_answers` gets that many.

    Raises:
        InvalidParameter: no randomizer spends such a budget, or the number of waves is none.
        PlanRefused: the budget of a question is less than devices answer, however it is divided.
    """
    waves = rules.waves
    if not 1 <= waves <= MAX_WAVES:
        raise InvalidParameter(f"waves expects 1 to {MAX_WAVES}, found {waves}")
    open_tau = any(question.tau is None for question in batch.questions)
    if waves > 1 and not open_tau:
        last = beta * float(shares(waves)[-1])
        sizing = replace(_sized(batch, nano_nats, last, rules), waves=waves)
        if _worth_looking(sizing, beta):
            return sizing
    return _sized(batch, nano_nats, beta, rules)


def _worth_looking(sizing: Sizing, beta: float) -> bool:
    """Return whether every wave asks a user, and a look may end a cohort's questions."""
    groups = sizing.planned(None).groups
    fewest = min(group.users for group in groups)
    if fewest < max(1 << sizing.waves, sizing.least_answers << (sizing.waves - 1)):
        return False  # the first wave is 1 part of 2^(waves - 1), and no later one is smaller
    return any(
        any(
            all(_can_end(sizing, parts[place], users[place], beta) for place in places)
            for places in section.looks
        )
        for section in sizing.sections
        for parts, users in [(section.all_parts, section.users(None, sizing.least_answers))]
    )


def _can_end(sizing: Sizing, part: Part, users: int, beta: float) -> bool:
    """Return whether a look may end a part."""
    tail = tail_of(part.question, part.randomizer, part.decode)
    return can_end_early(tail, float(part.question.working_tau), users, sizing.waves, beta)


def _sized(batch: Batch, nano_nats: int, beta: float, rules: RoundRules) -> Sizing:
    """Choose cohorts and randomizers: what takes fewer users; of equals FRESH, then SPLIT.

    Raises:
        InvalidParameter, PlanRefused: no randomizer that devices answer spends such a budget.
    """
    sizer = Sizer(batch.questions, beta, rules)
    options: dict[Allocation, tuple[Section, ...]] = {}
    refusals: list[InvalidParameter | PlanRefused] = []
    for allocation in _allowed(batch, nano_nats):
        try:
            options[allocation] = _WAYS[allocation](batch.questions, sizer, nano_nats, beta)
        except (InvalidParameter, PlanRefused) as refusal:
            refusals.append(refusal)
    if not options:
        raise refusals[0]
    needs = {
        allocation: sum(section.need for section in sections)
        for allocation, sections in options.items()
    }
    best = min(needs, key=lambda allocation: needs[allocation])  # the first of equals
    return Sizing(
        batch,
        options[best],
        nano_nats,
        beta,
        least_answers=rules.least_answers,
        options=needs,
    )


def _allowed(batch: Batch, nano_nats: int) -> Sequence[Allocation]:
    """Return the allocations that are considered."""
    if len(batch.questions) == 1:
        return (Allocation.FRESH,)
    if batch.allocation is not None:
        return (batch.allocation,)
    if len(batch.questions) == 2 or nano_nats < LEAST_NANO_NATS:
        return (Allocation.FRESH, Allocation.SPLIT)
    return (Allocation.FRESH, Allocation.SPLIT, Allocation.GROUPED)


def _fresh(
    questions: Sequence[Question], sizer: Sizer, nano_nats: int, beta: float
) -> tuple[Divided, ...]:
    """Give each question users of its own, and each block of a vector."""
    return tuple(
        Divided(
            index, tuple(sizer.of(block, nano_nats) for block in blocks_of(question, nano_nats))
        )
        for index, question in enumerate(questions)
    )


def _split(
    questions: Sequence[Question], sizer: Sizer, nano_nats: int, beta: float
) -> tuple[Section, ...]:
    """Let all users answer all questions; each vector at once."""
    members = tuple(range(len(questions)))
    return (Shared(members, balanced(members, sizer.part, nano_nats), beta),)


def _grouped(
    questions: Sequence[Question], sizer: Sizer, nano_nats: int, beta: float
) -> tuple[Section, ...]:
    """Let users answer a few questions each."""
    alone = _fresh(questions, sizer, nano_nats, beta)
    return grouped(alone, sizer.profiles, sizer.part, nano_nats, beta)


_WAYS: Mapping[
    Allocation,
    Callable[[Sequence[Question], Sizer, int, float], tuple[Section, ...]],
] = {Allocation.FRESH: _fresh, Allocation.SPLIT: _split, Allocation.GROUPED: _grouped}


def _n_variance(parts: Sequence[Part], users: Sequence[int]) -> float:
    """Return n times the variance of a value, n the users of all parts, of the largest part."""
    total = sum(users)
    return max(
        float(part.n_variance * Fraction(total, number))
        for part, number in zip(parts, users, strict=True)
    )


def _limit(parts: Sequence[Sequence[Part]]) -> float | None:
    """Compute the greatest limit of a round whose answers are single parts with a limit."""
    limits = [part.limit for question in parts for part in question]
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _uninformed(pairs: Sequence[tuple[Question, float]]) -> Uninformed | None:
    """Return the first tolerance that the middle of the range keeps too; None: there is none.

    A question with a decision is left out: it is planned for the conclusion, not for each value.
    """
    for question, tau in pairs:
        middle = float(question.spread) / 2
        if question.decision is None and tau >= middle:
            return Uninformed(tau, middle)
    return None


def printed_users(question: Question, tau: float, nats: float, beta: float) -> int:
    """The paper's size: for every value a fresh group with randomized response on [-b, b].

    n = 2 C^2 b^2 ln(2/beta)/tau^2 with C = (e^eps + 1)/(e^eps - 1) and b half the range.
    Source: KLNRS08 Lemma 4.3, with Hoeffding's inequality in place of a Laplace tail.
    """
    half = float(question.spread) / 2
    scale = 1 / tanh(nats / 2)
    return question.values * ceil(2 * (scale * half / tau) ** 2 * log(2 / beta))


def even(total: int, parts: int) -> list[int]:
    """A number divided evenly; the first parts are one greater."""
    share, extra = divmod(total, parts)
    return [share + (part < extra) for part in range(parts)]
