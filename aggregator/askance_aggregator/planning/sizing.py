"""Sizing of one batch: groups, randomizers and numbers of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from math import ceil, log, tanh

from askance_aggregator.estimation import Decode
from askance_aggregator.learners import Allocation, Batch, Question
from askance_aggregator.planning.blocks import blocks_of
from askance_aggregator.planning.choices import Choice, choices
from askance_aggregator.planning.decided import miss_of
from askance_aggregator.planning.looks import can_end_early, shares
from askance_aggregator.planning.lower_bound import least_users
from askance_aggregator.planning.plans import GroupPlan, RoundPlan
from askance_aggregator.planning.precision import Design, n_variance, tail_of
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_client.messages import MAX_WAVES
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True)
class Part:
    """A question, or one block of a vector's components: what one group is asked.

    Args:
        question: what is asked of it.
        randomizer: what answers.
        need: users; for an open tolerance those for 1/20 of its range.
        decode: what the randomizer's reports are decoded by, where that was designed with it.
        limit: n x variance that no other randomizer is below, where that is known (`Choice`).
    """

    question: Question
    randomizer: Randomizer
    need: int
    decode: Decode | None = None
    limit: float | None = None

    def enough(self, users: int, beta: float) -> bool:
        """Return whether `users` keep its tolerance, or the stand-in of an open one."""
        tail = tail_of(self.question, self.randomizer, self.decode)
        return tail.enough(users, float(self.question.working_tau), beta)

    def at_least(self, least_answers: int, beta: float) -> Part:
        """Return this part with no fewer users than these, and enough of them for its tolerance.

        A few more users than an exact size need not be enough (`Tail`).
        """
        users = max(self.need, least_answers)
        while users > self.need and not self.enough(users, beta):
            users += 1
        return replace(self, need=users)

    @property
    def n_variance(self) -> Fraction:
        """Return n times the variance of a value, n the users of this part."""
        return n_variance(self.question, self.randomizer, self.decode)


@dataclass(frozen=True, slots=True)
class Sizing:
    """A batch with its allocation and randomizers chosen; users for open tolerances not yet.

    Args:
        batch: what is asked.
        allocation: the users who answer.
        parts: for each question one, or one a block.
        nano_nats: each user's budget for the batch.
        beta: the probability of failure for each value, at the last look.
        waves: in how many parts its users are asked.
        least_answers: users in every group, at least; every part's `need` is no less.
    """

    batch: Batch
    allocation: Allocation
    parts: tuple[tuple[Part, ...], ...]
    nano_nats: int
    beta: float
    waves: int = 1
    least_answers: int = 0

    @property
    def needs(self) -> tuple[int, ...]:
        """Users a question, in all its blocks."""
        return tuple(sum(part.need for part in parts) for parts in self.parts)

    @property
    def total(self) -> int:
        """Number of users of all needs: the maximum for one cohort, the sum for fresh groups."""
        if self.allocation is Allocation.SPLIT:
            return self._enough_for([part for parts in self.parts for part in parts])
        return sum(self.needs)

    @property
    def claimed(self) -> int:
        """The users that questions with a tolerance claim."""
        if self.allocation is Allocation.SPLIT:
            return self._enough_for(self._closed)
        return sum(part.need for part in self._closed)

    @property
    def _closed(self) -> list[Part]:
        return [part for parts in self.parts for part in parts if part.question.tau is not None]

    @property
    def open_groups(self) -> int:
        """Number of groups that can use all remaining users."""
        count = sum(question.tau is None for question in self.batch.questions)
        return min(count, 1) if self.allocation is Allocation.SPLIT else count

    def planned(self, n_users: int | None) -> RoundPlan:
        """The round, when it may take n_users (None: any number)."""
        users = [
            proportional(number, [part.need for part in parts])
            for number, parts in zip(self._users(n_users), self.parts, strict=True)
        ]
        split = self.allocation is Allocation.SPLIT
        cohorts = count(0)
        groups = tuple(
            GroupPlan(
                index,
                part.question.query,
                part.randomizer,
                number,
                0 if split else next(cohorts),
                part.decode,
            )
            for index, (parts, numbers) in enumerate(zip(self.parts, users, strict=True))
            for part, number in zip(parts, numbers, strict=True)
        )
        taus = [self._tau(index, numbers) for index, numbers in enumerate(users)]
        nats = self.nano_nats / NANO_NATS_PER_NAT
        pairs = list(zip(self.batch.questions, taus, strict=True))
        # A batch that is right except with this probability has each of its values right.
        each = self.beta / float(shares(self.waves)[-1])
        joint = each * self.batch.values
        return RoundPlan(
            queries=len(pairs),
            users=(max if split else sum)(sum(numbers) for numbers in users),
            allocation=self.allocation,
            groups=groups,
            tau=min(taus),
            n_variance=max(
                _n_variance(parts, numbers)
                for parts, numbers in zip(self.parts, users, strict=True)
            ),
            n_variance_limit=_limit(self.parts),
            hoeffding_users=sum(
                printed_users(question, tau, nats, each) for question, tau in pairs
            ),
            lower_bound=max(
                least_users(question, tau, nats, max(joint, miss_of(question, each)))
                for question, tau in pairs
            ),
            waves=self.waves,
        )

    def _enough_for(self, parts: Sequence[Part]) -> int:
        """The least number of users, from the greatest need on, that is enough for all of these.

        An exact size is enough at its number; a few more users need not be, since shares of them
        fall on other numbers (`Tail`).
        """
        users = max((part.need for part in parts), default=0)
        while not all(part.need == users or part.enough(users, self.beta) for part in parts):
            users += 1
        return users

    def _within(self, n_users: int) -> int:
        """Compute the most users of one cohort that its tolerances need, within `n_users`."""
        claimed = self.claimed
        users = max(n_users, claimed)
        while users > claimed and not all(part.enough(users, self.beta) for part in self._closed):
            users -= 1
        return users

    def _users(self, n_users: int | None) -> list[int]:
        open_tau = [question.tau is None for question in self.batch.questions]
        if n_users is None or not any(open_tau):
            if self.allocation is Allocation.SPLIT:
                return [self.total] * len(self.needs)
            return list(self.needs)
        if self.allocation is Allocation.SPLIT:
            return [self._within(max(n_users, self.least_answers, 1))] * len(self.needs)
        shares = iter(even(max(n_users - self.claimed, 0), self.open_groups))
        return [
            max(next(shares), 1, self._least_users(parts)) if is_open else need
            for is_open, need, parts in zip(open_tau, self.needs, self.parts, strict=True)
        ]

    def _least_users(self, parts: Sequence[Part]) -> int:
        """Return the least users of a question for which each part has `least_answers` of them."""
        whole = sum(part.need for part in parts)
        return max(-(-self.least_answers * whole // part.need) for part in parts)

    def _tau(self, index: int, users: Sequence[int]) -> float:
        question = self.batch.questions[index]
        if question.tau is not None:
            return float(question.tau)
        reached = max(
            tail_of(part.question, part.randomizer, part.decode).tolerance(number, self.beta)
            for part, number in zip(self.parts[index], users, strict=True)
        )
        return min(reached, float(question.spread))


def size_batch(
    batch: Batch,
    nano_nats: int,
    beta: float,
    design: Design,
    waves: int = 1,
    least_answers: int = 0,
) -> Sizing:
    """Size a batch, in waves where that may save users, else asked at once.

    In waves it needs a tolerance for every question, users enough in every group for each wave to
    ask `least_answers` of them (at least one), and a population for which a look may end it
    (`looks.can_end_early`). A group that needs fewer users than `least_answers` gets that many.

    Raises:
        InvalidParameter: no randomizer spends such a budget, or the number of waves is none.
    """
    if not 1 <= waves <= MAX_WAVES:
        raise InvalidParameter(f"waves expects 1 to {MAX_WAVES}, found {waves}")
    open_tau = any(question.tau is None for question in batch.questions)
    if waves > 1 and not open_tau:
        last = beta * float(shares(waves)[-1])
        sizing = replace(_sized(batch, nano_nats, last, design, least_answers), waves=waves)
        if _worth_looking(sizing, beta):
            return sizing
    return _sized(batch, nano_nats, beta, design, least_answers)


def _worth_looking(sizing: Sizing, beta: float) -> bool:
    """Return whether every wave asks a user, and a look may end a question (all of one cohort)."""
    groups = sizing.planned(None).groups
    fewest = min(group.users for group in groups)
    if fewest < max(1 << sizing.waves, sizing.least_answers << (sizing.waves - 1)):
        return False  # the first wave is 1 part of 2^(waves - 1), and no later one is smaller
    split = sizing.allocation is Allocation.SPLIT
    parts = [part for parts in sizing.parts for part in parts]
    return (all if split else any)(
        can_end_early(
            tail_of(part.question, part.randomizer, part.decode),
            float(part.question.working_tau),
            group.users,
            sizing.waves,
            beta,
        )
        for part, group in zip(parts, groups, strict=True)
    )


def _sized(batch: Batch, nano_nats: int, beta: float, design: Design, least_answers: int) -> Sizing:
    """Choose allocation and randomizers: what takes fewer users; a tie is FRESH.

    Raises:
        InvalidParameter: no randomizer spends such a budget.
    """
    questions = len(batch.questions)

    def sized(allocation: Allocation, budget: int) -> Sizing:
        # One cohort that answers everything answers a vector at once.
        fresh = allocation is Allocation.FRESH
        parts = tuple(
            tuple(
                _part(block, budget, beta, design).at_least(least_answers, beta)
                for block in (blocks_of(question, budget) if fresh else (question,))
            )
            for question in batch.questions
        )
        return Sizing(batch, allocation, parts, nano_nats, beta, least_answers=least_answers)

    allowed = (Allocation.FRESH, Allocation.SPLIT) if questions > 1 else (Allocation.FRESH,)
    options: list[Sizing] = []
    refusals: list[InvalidParameter] = []
    for allocation in allowed if batch.allocation is None else (batch.allocation,):
        budget = nano_nats if allocation is Allocation.FRESH else nano_nats // questions
        try:
            options.append(sized(allocation, budget))
        except InvalidParameter as refusal:
            refusals.append(refusal)
    if not options:
        raise refusals[0]
    return min(options, key=lambda option: option.total)  # the first of equals


def need(question: Question, choice: Choice, beta: float) -> int:
    """Users for one question: its tolerance, or the stand-in for an open one."""
    tail = tail_of(question, choice.randomizer, choice.decode)
    return tail.users(float(question.working_tau), beta)


def _part(question: Question, nano_nats: int, beta: float, design: Design) -> Part:
    """Choose the randomizer that takes the fewest users; the first of equals."""
    parts = [
        Part(question, choice.randomizer, need(question, choice, beta), choice.decode, choice.limit)
        for choice in choices(question, nano_nats, design)
    ]
    return min(parts, key=lambda part: part.need)


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


def proportional(total: int, weights: Sequence[int]) -> list[int]:
    """A number divided in proportion to weights, each part at least 1; the first ones round up."""
    whole = sum(weights)
    parts = [max(total * weight // whole, 1) for weight in weights]
    spare = total - sum(parts)
    return [part + (place < spare) for place, part in enumerate(parts)]
