"""Sizing of one batch: cohorts, randomizers and numbers of users.

Cohorts of a batch: which questions the same users answer, and with which part of epsilon.

Each question is in one of two kinds of section:

- `Divided`: its users answer nothing else, each at the whole budget. The blocks of a vector have
  users of their own.
- `Shared`: a cohort answers several questions, each at a part of the budget.

Both spend the same. With n users in all, a cohort per question has its reports of n / t users at
epsilon, and one cohort for all has those of n users at epsilon / t. The first has less noise for
each user, the second has more users, which counts where the users themselves vary: of two shares
about 1/2 the second needs fewer users from 3.06 nats on (`blocks`). Between are cohorts of a few
questions (`grouped`): eight such shares at 8 nats need the fewest users in cohorts of four.

**Unequal parts.** In a cohort of unequal questions each gets the part of the budget at which all
need about the same number of users, on a grid of sixteenths of the budget. In a round without a
tolerance, each section gets users in proportion to its need (`divided`), so that all answers keep
about the same part of their range.

Needs are exact or bounded tails of the population's law (`tails`): the variance of users is part of
them, and so is the number of values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import ceil, log, tanh
from typing import NamedTuple, Protocol

from askance_aggregator.estimation import Decode, known_scores, levels_of
from askance_aggregator.families import TableFamily, best_for, family_of
from askance_aggregator.learners import Allocation, Batch, Question, RatiosKept
from askance_aggregator.planning.blocks import blocks_of
from askance_aggregator.planning.decided import miss_of
from askance_aggregator.planning.designed import designed_for
from askance_aggregator.planning.looks import can_end_early, shares
from askance_aggregator.planning.lower_bound import least_users
from askance_aggregator.planning.plans import GroupPlan, RoundPlan, Uninformed, WideRange
from askance_aggregator.planning.precision import (
    Design,
    RoundRules,
    candidates,
    n_variance,
    randomizer_of,
    tail_of,
)
from askance_aggregator.planning.present import present_table
from askance_client.accounting import LEAST_LOSS, NANO_NATS_PER_NAT, format_nats
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.messages import MAX_WAVES
from askance_client.queries import QueryKind
from askance_client.randomizers import Randomizer


class Choice(NamedTuple):
    """A randomizer with its decode values.

    Args:
        decode: what was designed with a table; None: the randomizer's own way.
        limit: n x variance that no randomizer of this epsilon is below, in the unit of
            `n_variance`; None where none was proved.
    """

    randomizer: Randomizer
    decode: Decode | None = None
    limit: float | None = None


def choices(question: Question, nano_nats: int, design: Design) -> tuple[Choice, ...]:
    """Return the choices of a plan, which takes the one with the least need.

    A number that may be missing has a table with a level for that (`present`), or the study's own
    design on as many levels, if that is a table. A number whose mean is wanted for more than the
    worst population has the table that is designed for that (`designed_for`), unless the study has
    a design of its own.
    """
    if question.over_present:
        own = randomizer_of(design, levels_of(question) or 2, nano_nats)
        if design is not best_for and isinstance(family_of(own), TableFamily):
            return (Choice(own, known_scores(question, own, None)[1]),)
        table = present_table(question, nano_nats)
        return (Choice(table.channel, table.numbers + table.presences),)
    designed = designed_for(question, nano_nats) if design is best_for else None
    if designed is None:
        return tuple(Choice(each) for each in candidates(question, nano_nats, design))
    proved = designed.nano == nano_nats  # a bound holds for the budget that it was computed for
    limit = float(question.spread / 2) ** 2 * designed.lower_bound if proved else None
    return (Choice(designed.channel, designed.values, limit),)


@dataclass(frozen=True, slots=True)
class Part:
    """A question, or one block of a vector's components: what one group is asked.

    Args:
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


def need(question: Question, choice: Choice, beta: float) -> int:
    """Users for one question: its tolerance, or the stand-in for an open one."""
    tail = tail_of(question, choice.randomizer, choice.decode)
    return tail.users(float(question.working_tau), beta)


def part_of(question: Question, nano_nats: int, beta: float, design: Design) -> Part:
    """Choose the randomizer that takes the fewest users; the first of equals."""
    _check_loss(nano_nats)
    offered = choices(question, nano_nats, design)
    _check_loss(max(choice.randomizer.loss.nano_nats for choice in offered))
    parts = [
        Part(question, choice.randomizer, need(question, choice, beta), choice.decode, choice.limit)
        for choice in offered
        if choice.randomizer.loss.nano_nats >= LEAST_LOSS
    ]
    return min(parts, key=lambda part: part.need)


def _check_loss(nano_nats: int) -> None:
    """Refuse a question that costs less than devices answer."""
    if nano_nats < LEAST_LOSS:
        raise PlanRefused(
            f"epsilon: expected {format_nats(LEAST_LOSS)} nats or more per question of a user, the"
            f" least loss that devices answer, got {format_nats(nano_nats)}"
        )


class Sizer:
    """Parts of questions by budget, shared by those that differ in their expression only."""

    def __init__(self, questions: Sequence[Question], beta: float, rules: RoundRules) -> None:
        self._questions = questions
        self._beta = beta
        self._rules = rules
        self._known: dict[tuple[Hashable, int], Part] = {}
        self.profiles = tuple(profile(question) for question in questions)

    def part(self, index: int, nano_nats: int) -> Part:
        """Return the part of a whole question that spends so much."""
        return self.of(self._questions[index], nano_nats, self.profiles[index])

    def of(self, question: Question, nano_nats: int, like: Hashable | None = None) -> Part:
        """Return the part of a question, or of a block of one; `like` is its profile, if known."""
        key = (profile(question) if like is None else like, nano_nats)
        if key not in self._known:
            part = part_of(question, nano_nats, self._beta, self._rules.design)
            self._known[key] = part.at_least(self._rules.least_answers, self._beta)
        known = self._known[key]
        return known if known.question is question else replace(known, question=question)


def profile(question: Question) -> Hashable:
    """Return all that a question's randomizer and need depend on: not its expression."""
    query = question.query
    return (
        query.kind,
        question.values,
        question.bounds,
        (query.low, query.high, query.frac),
        (question.tau, question.cell_mass, question.aim, question.present),
        (question.over_present, question.decision, question.length),
    )


_LARGE_PART = 0.1  # of the range of an answer: a tolerance for which narrower bounds matter


@dataclass(frozen=True, slots=True)
class Sizing:
    """A batch with its cohorts and randomizers chosen; users for open tolerances not yet.

    Args:
        sections: questions with users of their own, each question in one.
        beta: the probability of failure for each value, at the last look.
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
            values=self.batch.values,
            waves=self.waves,
            options=self.options,
            uninformed=_uninformed(pairs),
            wide=_wide(pairs),
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
    tail = tail_of(part.question, part.randomizer, part.decode)
    return can_end_early(tail, float(part.question.working_tau), users, sizing.waves, beta)


def _sized(batch: Batch, nano_nats: int, beta: float, rules: RoundRules) -> Sizing:
    """Choose cohorts and randomizers: what takes fewer users; of equals FRESH, then SPLIT."""
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
    """Return the first tolerance that the middle of the range keeps too; None: there is none."""
    # A question with another decision is left out: it is planned for a conclusion from all values.
    for question, tau in pairs:
        middle = float(question.spread) / 2
        of_each = question.decision is None or isinstance(question.decision, RatiosKept)
        if of_each and tau >= middle:
            return Uninformed(tau, middle)
    return None


def _wide(pairs: Sequence[tuple[Question, float]]) -> WideRange | None:
    """Return the first tolerance of a number that is a large part of its range."""
    for question, tau in pairs:
        if question.query.kind is QueryKind.REAL and tau >= _LARGE_PART * float(question.spread):
            low, high = map(float, question.bounds)
            return WideRange(tau, low, high, question.tau is not None)
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


MOST_TOGETHER = 8  # questions of a cohort, unless all are: at 16 nats each has 2
PARTS = 16  # a cohort divides the budget in so many parts
LEAST_NANO_NATS = 3 * 10**9  # below it no cohort of two needs fewer users (`blocks`: 3.06)

Sized = Callable[[int, int], Part]
"""The part of a question, by its index, that spends so many nano-nats."""


class Section(Protocol):
    """Questions whose users answer no other question."""

    @property
    def members(self) -> tuple[int, ...]:
        """Indexes of the questions."""

    @property
    def need(self) -> int:
        """Users, with the stand-in of open tolerances."""

    @property
    def claimed(self) -> int:
        """Users that tolerances claim."""

    @property
    def is_open(self) -> bool:
        """Return whether it can use all remaining users."""

    def least(self, least_answers: int) -> int:
        """Return the least users beyond those claimed that an open one can be asked of."""

    def users(self, most: int | None, least_answers: int) -> list[int]:
        """Return the users of each part, of the most that it may have (None: any number)."""

    def cohorts(self, numbers: Iterator[int]) -> list[int]:
        """Return the cohort of each part."""

    def parts_of(self, question: int) -> list[int]:
        """Return the places of a question's parts."""

    @property
    def looks(self) -> list[list[int]]:
        """Places of parts that a look ends together."""

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """All parts."""


@dataclass(frozen=True)
class Divided:
    """Question whose users answer one part of it each: all of it, or a block of a vector."""

    question: int
    all_parts: tuple[Part, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return (self.question,)

    @cached_property
    def need(self) -> int:
        return sum(part.need for part in self.all_parts)

    @property
    def claimed(self) -> int:
        return 0 if self.is_open else self.need

    @property
    def is_open(self) -> bool:
        return self.all_parts[0].question.tau is None

    def least(self, least_answers: int) -> int:
        """Return the least users for which each part has `least_answers` of them."""
        return max(1, *(-(-least_answers * self.need // part.need) for part in self.all_parts))

    def users(self, most: int | None, least_answers: int) -> list[int]:
        """Divide the users over the parts, by need."""
        total = self.need
        if most is not None and self.is_open:
            total = max(most, self.least(least_answers))
        return proportional(total, [part.need for part in self.all_parts])

    def cohorts(self, numbers: Iterator[int]) -> list[int]:
        """Return a cohort of its own for each part."""
        return [next(numbers) for _ in self.all_parts]

    def parts_of(self, question: int) -> list[int]:
        return list(range(len(self.all_parts)))

    @property
    def looks(self) -> list[list[int]]:
        """Return each part by itself."""
        return [[place] for place in range(len(self.all_parts))]


@dataclass(frozen=True)
class Shared:
    """Cohort that answers several questions, one part each, within the budget together."""

    members: tuple[int, ...]
    all_parts: tuple[Part, ...]
    beta: float

    @cached_property
    def need(self) -> int:
        return self._enough_for(self.all_parts)

    @cached_property
    def claimed(self) -> int:
        return self._enough_for(self._closed)

    @property
    def is_open(self) -> bool:
        return any(part.question.tau is None for part in self.all_parts)

    def least(self, least_answers: int) -> int:
        return max(max(least_answers, 1) - self.claimed, 0)

    def users(self, most: int | None, least_answers: int) -> list[int]:
        """Return the same number for every part."""
        total = self.need
        if most is not None and self.is_open:
            total = self._within(max(most, least_answers, 1))
        return [total] * len(self.all_parts)

    def cohorts(self, numbers: Iterator[int]) -> list[int]:
        return [next(numbers)] * len(self.all_parts)

    def parts_of(self, question: int) -> list[int]:
        return [self.members.index(question)]

    @property
    def looks(self) -> list[list[int]]:
        """All parts."""
        return [list(range(len(self.all_parts)))]

    @property
    def _closed(self) -> list[Part]:
        return [part for part in self.all_parts if part.question.tau is not None]

    def _enough_for(self, parts: Sequence[Part]) -> int:
        """The least number of users, from the greatest need on, that is enough for all of these."""
        # An exact size is enough at its number; a few more users need not be, since shares of them
        # fall on other numbers (`Tail`).
        users = max((part.need for part in parts), default=0)
        while not all(part.need == users or part.enough(users, self.beta) for part in parts):
            users += 1
        return users

    def _within(self, most: int) -> int:
        """Compute the most users of the cohort that its tolerances need, within `most`."""
        users = max(most, self.claimed)
        while users > self.claimed and not all(
            part.enough(users, self.beta) for part in self._closed
        ):
            users -= 1
        return users


def grouped(
    alone: Sequence[Divided],
    profiles: Sequence[Hashable],
    sized: Sized,
    nano_nats: int,
    beta: float,
) -> tuple[Section, ...]:
    """Choose cohorts of at most eight questions that need the fewest users."""
    # Two lists are cut into cohorts by dynamic programming: questions sorted by need, so that those
    # of a cohort are alike, and the same with small and large needs in turn, so that an easy
    # question takes a small part of the budget of a hard one's users. The better of the best cuts
    # is taken; a cohort of questions that are neighbours in neither list is not considered.
    # Questions with equal `profiles` have equal parts.
    rising = sorted(range(len(alone)), key=lambda index: (alone[index].need, index))
    turns = [rising[-1 - place // 2 if place % 2 else place // 2] for place in range(len(rising))]
    alike = {profile: index for index, profile in reversed(list(enumerate(profiles)))}
    known: dict[tuple[int, ...], int | None] = {}

    def users(members: Sequence[int]) -> int | None:
        first = tuple(sorted(alike[profiles[index]] for index in members))
        if first not in known:
            known[first] = _users(sorted(members), alone, sized, nano_nats)
        return known[first]

    _, cut = min((_cut(order, users) for order in (rising, turns)), key=lambda found: found[0])
    return tuple(
        alone[members[0]]
        if len(members) == 1
        else Shared(members, balanced(members, sized, nano_nats), beta)
        for members in sorted(cut)
    )


def _cut(
    order: Sequence[int], users: Callable[[Sequence[int]], int | None]
) -> tuple[int, list[tuple[int, ...]]]:
    """Cut a list into the cohorts that need the fewest users; return the users and the cohorts."""
    least, sizes = [0], [0]
    for stop in range(1, len(order) + 1):
        options = []
        for size in range(1, min(stop, MOST_TOGETHER) + 1):
            needed = users(order[stop - size : stop])
            if needed is not None:
                options.append((least[stop - size] + needed, size))
        needed, size = min(options)
        least.append(needed)
        sizes.append(size)
    cohorts, stop = [], len(order)
    while stop:
        cohorts.append(tuple(sorted(order[stop - sizes[stop] : stop])))
        stop -= sizes[stop]
    return least[-1], cohorts


def _users(
    members: Sequence[int], alone: Sequence[Divided], sized: Sized, nano_nats: int
) -> int | None:
    """Return about the users that these questions need together; None: too little budget."""
    # The result is the greatest need, which a cohort of them may have to exceed by a few
    # (`Shared.need`).
    if len(members) == 1:
        return alone[members[0]].need
    try:
        return max(part.need for part in balanced(members, sized, nano_nats))
    except (InvalidParameter, PlanRefused):
        return None


def balanced(members: Sequence[int], sized: Sized, nano_nats: int) -> tuple[Part, ...]:
    """Divide a budget over the questions of a cohort, so that the greatest need is small."""
    # Equal parts, or, of unequal questions, sixteenths of the budget: one after another goes to the
    # question that needs the most users. Needs fall with the budget, so no other division into
    # sixteenths has a smaller greatest need. Of more than eight questions only equal parts are
    # considered.
    even = tuple(sized(index, nano_nats // len(members)) for index in members)
    if len(members) > MOST_TOGETHER or len({part.need for part in even}) == 1:
        return even
    steps = dict.fromkeys(members, 1)
    try:
        parts = {index: sized(index, nano_nats // PARTS) for index in members}
        for _ in range(PARTS - len(members)):
            worst = max(members, key=lambda index: parts[index].need)
            steps[worst] += 1
            parts[worst] = sized(worst, nano_nats * steps[worst] // PARTS)
    except (InvalidParameter, PlanRefused):
        return even
    uneven = tuple(parts[index] for index in members)
    return min(even, uneven, key=lambda option: max(part.need for part in option))


def allocation_of(sections: Sequence[Section], questions: int) -> Allocation:
    """Return the name of the cohorts."""
    if len(sections) == questions:
        return Allocation.FRESH
    return Allocation.SPLIT if len(sections) == 1 else Allocation.GROUPED


def divided(total: int, sections: Sequence[Section], least_answers: int) -> list[int]:
    """Divide users over open sections in proportion to need, none below its least.

    Where so many are not enough for the least of all, each has its least.
    """
    users = [section.least(least_answers) for section in sections]
    left, open_ = total, list(range(len(sections)))
    while open_:
        needs = [sections[place].need for place in open_]
        shares = [left * need // sum(needs) for need in needs]
        spare = left - sum(shares)
        shares = [share + (place < spare) for place, share in enumerate(shares)]
        short = [place for place, share in zip(open_, shares, strict=True) if share < users[place]]
        if not short:
            for place, share in zip(open_, shares, strict=True):
                users[place] = share
            break
        left = max(left - sum(users[place] for place in short), 0)
        open_ = [place for place in open_ if place not in short]
    return users


def numbered(sections: Sequence[Section]) -> list[list[int]]:
    """Return the cohort of each part of each section; numbers start at 0."""
    numbers = count(0)
    return [section.cohorts(numbers) for section in sections]


def proportional(total: int, weights: Sequence[int]) -> list[int]:
    """A number divided in proportion to weights, each part at least 1; the first ones round up."""
    whole = sum(weights)
    parts = [max(total * weight // whole, 1) for weight in weights]
    spare = total - sum(parts)
    return [part + (place < spare) for place, part in enumerate(parts)]
