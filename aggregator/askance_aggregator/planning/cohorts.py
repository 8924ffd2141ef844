"""Cohorts of a batch: which questions the same users answer, and with which part of epsilon.

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

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Protocol

from askance_aggregator.learners import Allocation
from askance_aggregator.planning.parts import Part
from askance_client.errors import InvalidParameter, PlanRefused

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
    """Question whose users answer one part of it each: all of it, or a block of a vector.

    Args:
        question: its index in the batch.
        all_parts: all of it, or its blocks.
    """

    question: int
    all_parts: tuple[Part, ...]

    @property
    def members(self) -> tuple[int, ...]:
        """The question's index."""
        return (self.question,)

    @cached_property
    def need(self) -> int:
        """Users of all parts."""
        return sum(part.need for part in self.all_parts)

    @property
    def claimed(self) -> int:
        """Users that the question's tolerance claims."""
        return 0 if self.is_open else self.need

    @property
    def is_open(self) -> bool:
        """Return whether the question leaves its tolerance open."""
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
        """Return all places."""
        return list(range(len(self.all_parts)))

    @property
    def looks(self) -> list[list[int]]:
        """Return each part by itself."""
        return [[place] for place in range(len(self.all_parts))]


@dataclass(frozen=True)
class Shared:
    """Cohort that answers several questions.

    Args:
        members: indexes of the questions.
        all_parts: a part per question; their budgets add up to the batch's at most.
        beta: the probability of failure for each value.
    """

    members: tuple[int, ...]
    all_parts: tuple[Part, ...]
    beta: float

    @cached_property
    def need(self) -> int:
        """Users that are enough for every question."""
        return self._enough_for(self.all_parts)

    @cached_property
    def claimed(self) -> int:
        """Users that the tolerances claim."""
        return self._enough_for(self._closed)

    @property
    def is_open(self) -> bool:
        """Return whether a question leaves its tolerance open."""
        return any(part.question.tau is None for part in self.all_parts)

    def least(self, least_answers: int) -> int:
        """Return the least users beyond those claimed."""
        return max(max(least_answers, 1) - self.claimed, 0)

    def users(self, most: int | None, least_answers: int) -> list[int]:
        """Return the same number for every part."""
        total = self.need
        if most is not None and self.is_open:
            total = self._within(max(most, least_answers, 1))
        return [total] * len(self.all_parts)

    def cohorts(self, numbers: Iterator[int]) -> list[int]:
        """Return one cohort for all parts."""
        return [next(numbers)] * len(self.all_parts)

    def parts_of(self, question: int) -> list[int]:
        """Return the place of a question's part."""
        return [self.members.index(question)]

    @property
    def looks(self) -> list[list[int]]:
        """All parts."""
        return [list(range(len(self.all_parts)))]

    @property
    def _closed(self) -> list[Part]:
        return [part for part in self.all_parts if part.question.tau is not None]

    def _enough_for(self, parts: Sequence[Part]) -> int:
        """The least number of users, from the greatest need on, that is enough for all of these.

        An exact size is enough at its number; a few more users need not be, since shares of them
        fall on other numbers (`Tail`).
        """
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
    """Choose cohorts of at most eight questions that need the fewest users.

    Two lists are cut into cohorts by dynamic programming: questions sorted by need, so that those
    of a cohort are alike, and the same with small and large needs in turn, so that an easy question
    takes a small part of the budget of a hard one's users. The better of the best cuts is taken; a
    cohort of questions that are neighbours in neither list is not considered.

    Args:
        alone: each question with users of its own.
        profiles: of each question; those with equal profiles have equal parts.
        sized: the part of a question at a budget.
        nano_nats: each user's budget.
        beta: the probability of failure for each value.
    """
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
    """Return about the users that these questions need together; None if the budget is too small.

    It is the greatest need, which a cohort of them may have to exceed by a few (`Shared.need`).
    """
    if len(members) == 1:
        return alone[members[0]].need
    try:
        return max(part.need for part in balanced(members, sized, nano_nats))
    except (InvalidParameter, PlanRefused):
        return None


def balanced(members: Sequence[int], sized: Sized, nano_nats: int) -> tuple[Part, ...]:
    """Divide a budget over the questions of a cohort, so that the greatest need is small.

    Equal parts, or, of unequal questions, sixteenths of the budget: one after another goes to the
    question that needs the most users. Needs fall with the budget, so no other division into
    sixteenths has a smaller greatest need. Of more than eight questions only equal parts are
    considered.

    Args:
        members: indexes of the questions.
        sized: the part of a question at a budget.
        nano_nats: each user's budget.

    Raises:
        InvalidParameter: no randomizer spends such a part.
        PlanRefused: an equal part is less than devices answer.
    """
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
