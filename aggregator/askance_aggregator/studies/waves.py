"""Waves of a batch: reports so far, the next requests, and the estimates.

Between two waves every question that is not done is looked at. A question is done when each of its
values has an interval, at this look's share of its error, that lies within less than its tolerance
of the estimate. Questions that are done are not asked again, unless one cohort answers all of them
together (SPLIT): that goes on until all are done. What was not asked keeps its place at the front
of the permutation: those users are fresh, for a later round.

Utility: a value fails only if at some look its interval misses, or at the last look, the planned
size, its estimate does. Looks are at prefixes that are fixed before any user is asked, and share
beta (`planning.looks`), so that by the union bound the stated beta is kept. The intervals that a
learner is given share their confidence over the looks in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation import Decode, ReportsLaw, TalliedReports
from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.planning import GroupPlan, RoundPlan, prefixes, shares
from askance_aggregator.studies.bounds import AnswerBounds, Heard, Sure, bounds_of
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.transitions import Transitions, next_state
from askance_client.errors import NondeterminismError
from askance_client.messages import Request
from askance_client.randomizers import Randomizer


class WaveState(Enum):
    """State of a batch between its waves."""

    FIRST = auto()  # no wave has come in: the first one's groups make the blocks
    LATER = auto()  # a wave has come in, and another follows
    DONE = auto()  # no user is to be asked any more


class WaveEvent(Enum):
    """Event in a batch's waves."""

    NEXT = auto()  # the next wave is put together
    ENTER = auto()  # a wave comes in
    GO_ON = auto()  # a wave has come in, a question is not exact enough, and a wave is left
    FINISH = auto()  # a wave has come in, the last one or one that made every answer exact enough


TRANSITIONS: Transitions[WaveState, WaveEvent] = {
    WaveState.FIRST: {
        WaveEvent.NEXT: WaveState.FIRST,
        WaveEvent.ENTER: WaveState.FIRST,
        WaveEvent.GO_ON: WaveState.LATER,
        WaveEvent.FINISH: WaveState.DONE,
    },
    WaveState.LATER: {
        WaveEvent.NEXT: WaveState.LATER,
        WaveEvent.ENTER: WaveState.LATER,
        WaveEvent.GO_ON: WaveState.LATER,
        WaveEvent.FINISH: WaveState.DONE,
    },
    WaveState.DONE: {},
}


@dataclass(slots=True)
class _Block:
    """All reports to one group's request, of all waves so far.

    `question` is perhaps a block of a vector's components; `decode` is what the randomizer was
    designed with to decode by, if it was.
    """

    question: Question
    randomizer: Randomizer
    decode: Decode | None
    counts: NDArray[np.int64]
    answered: int = 0
    asked: int = 0

    def add(self, tally: Tally) -> None:
        self.counts = self.counts + np.array(tally.counts, dtype=np.int64)
        self.answered += tally.answered
        self.asked += tally.asked

    @property
    def reports(self) -> TalliedReports:
        return TalliedReports(
            self.question, self.randomizer, self.counts, self.answered, self.decode
        )


@dataclass(slots=True)
class _Asked:
    """A question of the batch: its blocks, and the look at which it was done, if it is."""

    question: Question
    blocks: list[_Block] = field(default_factory=list)
    done_at: int | None = None

    def law(self, alpha: float, look_share: float) -> ReportsLaw:
        """The law of the answer so far."""
        reports = tuple(block.reports for block in self.blocks)
        return ReportsLaw(self.question, reports, alpha, look_share)

    def answer(self, alpha: float, look_share: float = 1.0) -> Answer:
        """The answer so far, whose intervals miss with a chance of at most alpha together."""
        # This look may spend `look_share` of that chance, as of every other.
        law = self.law(alpha, look_share)
        return replace(law.at(alpha), law=law)


class Waves:
    """Batch, from its first wave to its answers.

    Args:
        planned: the round as planned, of all waves.
        beta_per_value: the chance of failure that each value may spend, over all looks.
    """

    def __init__(self, batch: Batch, planned: RoundPlan, beta_per_value: float) -> None:
        self._planned = planned
        self._beta = beta_per_value
        self._shares = shares(planned.waves)
        self._wave = 0
        self._state = WaveState.FIRST
        self._questions = [_Asked(question) for question in batch.questions]
        self._together = _together(planned)

    @property
    def done(self) -> bool:
        """True if no user is to be asked any more."""
        return self._state is WaveState.DONE

    @property
    def asking(self) -> tuple[Question, ...]:
        """The questions of the next wave, in the batch's order."""
        return tuple(self._questions[index].question for index in self._open)

    def next(self) -> RoundPlan:
        """Return the next wave as a round of its own; its questions are `asking`."""
        self._on(WaveEvent.NEXT)
        places = {index: place for place, index in enumerate(self._open)}
        groups = []
        blocks = dict.fromkeys(places, 0)
        for group in self._planned.groups:
            if group.question in places:
                block = blocks[group.question]
                blocks[group.question] += 1
                users, of = self._users(group, block), places[group.question]
                groups.append(replace(self._as_before(group, block), question=of, users=users))
        cohorts = {group.cohort: group.users for group in groups}
        return replace(
            self._planned,
            queries=len(places),
            users=sum(cohorts.values()),
            groups=tuple(groups),
        )

    def add(
        self,
        groups: Sequence[int],
        requests: Sequence[Request],
        tallies: Sequence[Tally],
        decodes: Sequence[Decode | None] | None = None,
    ) -> None:
        """Enter what came in of the wave that was asked last, and look at it.

        `groups` has each group's question by its place in `asking`. `decodes` has what each is
        decoded by; None: all by their randomizers' own way.
        """
        self._on(WaveEvent.ENTER)
        asked = [self._questions[index] for index in self._open]
        places = [0] * len(asked)
        known = [None] * len(groups) if decodes is None else decodes
        for place, request, tally, decode in zip(groups, requests, tallies, known, strict=True):
            empty = np.zeros(len(tally.counts), dtype=np.int64)
            # The query that was answered counts: a replayed one may differ by a grid step.
            of = asked[place].question
            question = Question(
                request.query, of.tau, of.cell_mass, of.aim, of.present, of.over_present
            )
            new = _Block(question, request.randomizer, decode, empty)
            self._block(asked[place], places[place], new).add(tally)
            places[place] += 1
        self._look()
        self._wave += 1
        finished = self._wave == self._planned.waves or not self._open
        self._on(WaveEvent.FINISH if finished else WaveEvent.GO_ON)

    def answers(self, alpha: float) -> Answers:
        """An answer a question; its intervals hold together but for `alpha`, whenever it was done.

        Alpha is divided evenly over the questions, and by share over the looks.
        """
        each = alpha / len(self._questions)
        last = self._planned.waves - 1
        return tuple(
            asked.answer(each, float(self._share(asked, last))) for asked in self._questions
        )

    def bounds(self, number: int, answers: Answers, sure: Sure) -> tuple[AnswerBounds, ...]:
        """Return the bounds of the answers; None for an answer without reports.

        `number` is the round's among the learner's; `sure` has the alpha that the answers are of.
        """
        each = sure._replace(alpha=sure.alpha / len(self._questions))
        found = []
        for place, (asked, answer) in enumerate(zip(self._questions, answers, strict=True)):
            heard = [Heard(b.question, b.randomizer, b.decode, b.answered) for b in asked.blocks]
            found.append(bounds_of((number, place), asked.question, answer, heard, each))
        return tuple(bound for bound in found if bound is not None)

    def _on(self, event: WaveEvent) -> None:
        self._state = next_state("wave", TRANSITIONS, self._state, event)

    @property
    def _open(self) -> list[int]:
        undone = {index for index, one in enumerate(self._questions) if one.done_at is None}
        return sorted(set().union(*(self._together[index] for index in undone)))

    def _share(self, asked: _Asked, last: int) -> Fraction:
        return self._shares[last if asked.done_at is None else asked.done_at]

    def _users(self, group: GroupPlan, place: int) -> int:
        """Return the number of users of a group that the next wave asks."""
        blocks = self._questions[group.question].blocks
        before = blocks[place].asked if blocks else 0
        return max(prefixes(group.users, self._planned.waves)[self._wave] - before, 1)

    def _as_before(self, group: GroupPlan, place: int) -> GroupPlan:
        """A later wave is asked by what the first was: a table might be designed anew otherwise."""
        blocks = self._questions[group.question].blocks
        if not blocks:
            return group
        return replace(group, randomizer=blocks[place].randomizer, decode=blocks[place].decode)

    def _block(self, asked: _Asked, place: int, new: _Block) -> _Block:
        """The block that a group's reports belong to; in the first wave, the new one."""
        if self._state is WaveState.FIRST:
            asked.blocks.append(new)
        block = asked.blocks[place]
        same = block.question.query.canonical == new.question.query.canonical
        if not same or (block.randomizer, block.decode) != (new.randomizer, new.decode):
            raise NondeterminismError(
                f"wave {self._wave + 1}: expected the requests of the wave before, found others"
            )
        return block

    def _look(self) -> None:
        """Mark the questions that this look shows to be exact enough; the last needs no look."""
        if self._wave == self._planned.waves - 1:
            return
        share = float(self._shares[self._wave])
        exact = set()
        for index in self._open:
            question = self._questions[index].question
            answer = self._questions[index].answer(self._beta * share * question.values)
            decision = question.decision
            if question.tau is None or not (decision is None or decision.shown_by_values):
                continue
            if exact_enough(answer, question.tau):
                exact.add(index)
        for index in exact:  # a cohort is done all at once, so all its answers are of one look
            if self._together[index] <= exact:
                self._questions[index].done_at = self._wave


def _together(planned: RoundPlan) -> list[frozenset[int]]:
    """Return for each question those that its users answer, itself included."""
    members: dict[int, set[int]] = {}
    for group in planned.groups:
        members.setdefault(group.cohort, set()).add(group.question)
    found = [frozenset[int]()] * planned.queries
    for group in planned.groups:
        found[group.question] |= members[group.cohort]
    return found


def exact_enough(answer: Answer, tau: Fraction) -> bool:
    """Return whether every value's interval is within less than tau of the value, on both sides."""
    return all(
        value - float(tau) < low and high < value + float(tau)
        for value, low, high in zip(answer.values, answer.lows, answer.highs, strict=True)
    )
