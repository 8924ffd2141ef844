"""One batch: who answers it, with what, and how many users that takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, tanh

from askance.aggregator.learners import Allocation, Batch, Question
from askance.aggregator.planning.lower_bound import least_users
from askance.aggregator.planning.plans import GroupPlan, RoundPlan
from askance.aggregator.planning.precision import Design, design_for, n_variance, tail_of
from askance.client.accounting import NANO_NATS_PER_NAT
from askance.client.errors import InvalidParameter
from askance.client.randomizers import Randomizer


@dataclass(frozen=True, slots=True)
class Sizing:
    """A batch with its allocation and randomizers chosen; users for open tolerances not yet.

    Args:
        batch: what is asked.
        allocation: who answers.
        randomizers: one a question.
        needs: users a question; for an open tolerance those for 1/20 of its range.
        nano_nats: each user's budget for the batch.
        beta: the probability of failure for each value.
    """

    batch: Batch
    allocation: Allocation
    randomizers: tuple[Randomizer, ...]
    needs: tuple[int, ...]
    nano_nats: int
    beta: float

    @property
    def total(self) -> int:
        """What all needs come to: the greatest of one cohort, the sum of fresh groups."""
        return max(self.needs) if self.allocation is Allocation.SPLIT else sum(self.needs)

    @property
    def claimed(self) -> int:
        """The users that questions with a tolerance claim."""
        needs = [
            need
            for question, need in zip(self.batch.questions, self.needs, strict=True)
            if question.tau is not None
        ]
        if self.allocation is Allocation.SPLIT:
            return max(needs, default=0)
        return sum(needs)

    @property
    def open_groups(self) -> int:
        """How many groups have room for all users that are left."""
        count = sum(question.tau is None for question in self.batch.questions)
        return min(count, 1) if self.allocation is Allocation.SPLIT else count

    def planned(self, n_users: int | None) -> RoundPlan:
        """The round, when it may take n_users (None: any number)."""
        users = self._users(n_users)
        split = self.allocation is Allocation.SPLIT
        questions = self.batch.questions
        groups = tuple(
            GroupPlan(index, question.query, randomizer, count, 0 if split else index)
            for index, (question, randomizer, count) in enumerate(
                zip(questions, self.randomizers, users, strict=True)
            )
        )
        taus = [self._tau(index, count) for index, count in enumerate(users)]
        nats = self.nano_nats / NANO_NATS_PER_NAT
        pairs = list(zip(questions, taus, strict=True))
        # Whoever gets the batch right with this probability of failure gets each value right.
        joint = self.beta * self.batch.values
        return RoundPlan(
            queries=len(questions),
            users=max(users) if split else sum(users),
            allocation=self.allocation,
            groups=groups,
            tau=min(taus),
            n_variance=max(
                float(n_variance(question, randomizer))
                for question, randomizer in zip(questions, self.randomizers, strict=True)
            ),
            hoeffding_users=sum(
                printed_users(question, tau, nats, self.beta) for question, tau in pairs
            ),
            lower_bound=max(least_users(question, tau, nats, joint) for question, tau in pairs),
        )

    def _users(self, n_users: int | None) -> list[int]:
        open_tau = [question.tau is None for question in self.batch.questions]
        if n_users is None or not any(open_tau):
            if self.allocation is Allocation.SPLIT:
                return [self.total] * len(self.needs)
            return list(self.needs)
        if self.allocation is Allocation.SPLIT:
            return [max(n_users, self.claimed, 1)] * len(self.needs)
        shares = iter(even(max(n_users - self.claimed, 0), self.open_groups))
        return [
            max(next(shares), 1) if is_open else need
            for is_open, need in zip(open_tau, self.needs, strict=True)
        ]

    def _tau(self, index: int, users: int) -> float:
        question = self.batch.questions[index]
        if question.tau is not None:
            return float(question.tau)
        reached = tail_of(question, self.randomizers[index]).tolerance(users, self.beta)
        return min(reached, float(question.spread))


def size_batch(batch: Batch, nano_nats: int, beta: float, design: Design) -> Sizing:
    """Chooses allocation and randomizers: what takes fewer users; a tie is FRESH.

    Raises:
        InvalidParameter: no randomizer spends such a budget.
    """
    count = len(batch.questions)

    def sized(allocation: Allocation, budget: int) -> Sizing:
        designs = tuple(design_for(question, budget, design) for question in batch.questions)
        needs = tuple(
            need(question, randomizer, beta)
            for question, randomizer in zip(batch.questions, designs, strict=True)
        )
        return Sizing(batch, allocation, designs, needs, nano_nats, beta)

    allowed = (Allocation.FRESH, Allocation.SPLIT) if count > 1 else (Allocation.FRESH,)
    options: list[Sizing] = []
    refusals: list[InvalidParameter] = []
    for allocation in allowed if batch.allocation is None else (batch.allocation,):
        budget = nano_nats if allocation is Allocation.FRESH else nano_nats // count
        try:
            options.append(sized(allocation, budget))
        except InvalidParameter as refusal:
            refusals.append(refusal)
    if not options:
        raise refusals[0]
    return min(options, key=lambda option: option.total)  # the first of equals


def need(question: Question, randomizer: Randomizer, beta: float) -> int:
    """Users for one question: its tolerance, or the stand-in for an open one."""
    return tail_of(question, randomizer).users(float(question.working_tau), beta)


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
