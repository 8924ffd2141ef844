"""An interrupted study resumes from its transcript; no user is asked or charged twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.encoding import query_from_bytes
from askance_aggregator.families import family_of
from askance_aggregator.learners import (
    Adaptive,
    Allocation,
    Answers,
    Batch,
    Learner,
    Learning,
    NonAdaptive,
    Question,
)
from askance_aggregator.queries import (
    clip,
    predicate,
    real,
    vector,
)
from askance_aggregator.studies import MemoryLog, Transcript
from askance_aggregator.studies.transcript import Asked, Closed
from askance_client.codec import decode_request
from askance_client.errors import NondeterminismError
from askance_client.queries import Query, constant
from askance_simulation.fleets import ObjectFleet

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import Crowd, World

PARTS = (Fraction(0), Fraction(1, 2), Fraction(1))  # of a round's members, asked before it broke
STEP = Fraction(1, 2**16)
Make = Callable[["World"], Learner[Any]]


def one_batch(allocation: Allocation) -> Make:
    """A non-adaptive learner that returns its answers."""

    def make(world: World) -> Learner[Answers]:
        schema = world.schema
        queries = [predicate(schema["b"] == 1), predicate(schema["i"] == 1)]
        batch = Batch(map(Question, queries), allocation=allocation)
        return NonAdaptive(
            name="two", version=1, parameters={}, batch=batch, conclude=lambda answers: answers
        )

    return make


def in_blocks(world: World) -> Learner[Answers]:
    """Ask one question of 64 components, which the plan divides into two blocks."""
    schema = world.schema
    bits = [schema["b"], *schema["x"]]
    question = Question(vector([bits[place % len(bits)] for place in range(64)]))
    return NonAdaptive(
        name="blocks",
        version=1,
        parameters={},
        batch=Batch([question]),
        conclude=lambda answers: answers,
    )


LEARNERS: dict[str, tuple[Make, int]] = {
    "adaptive": (lambda world: world.learner, 2),
    "fresh groups": (one_batch(Allocation.FRESH), 1),
    "split budgets": (one_batch(Allocation.SPLIT), 1),
    "a vector in blocks": (in_blocks, 1),
}
BREAKS = [
    pytest.param(make, number, part, id=f"{name}, round {number}, after {part}")
    for name, (make, rounds) in LEARNERS.items()
    for number, part in product(range(rounds), PARTS)
]


def break_off(
    world: World, devices: Crowd, log: MemoryLog, number: int, part: Fraction, **arguments: Any
) -> None:
    fleet = world.breaking(ObjectFleet(devices), number, part)
    with pytest.raises(world.interrupted):
        world.run(fleet, log, **arguments)
    assert isinstance(Transcript(log).recorded[-1], Asked)


@pytest.mark.parametrize(("make", "number", "part"), BREAKS)
def test_it_ends_as_if_nothing_had_happened(
    world: World, make: Make, number: int, part: Fraction
) -> None:
    undisturbed, log = world.devices(), MemoryLog()
    expected = world.run(undisturbed, log, learner=make(world))
    devices, broken = world.devices(), MemoryLog()
    break_off(world, devices, broken, number, part, learner=make(world))
    before = list(broken.lines())
    outcome = world.run(devices, broken, learner=make(world))
    assert outcome == expected  # hypothesis, tallies, spending and transcript alike
    assert outcome.reconciled
    assert list(broken.lines()) == list(log.lines())
    assert list(broken.lines())[: len(before)] == before
    assert devices.history() == undisturbed.history()


def test_a_vector_has_an_answer_from_its_blocks_by_disjoint_users(world: World) -> None:
    """Every block's values are those of its own tally."""
    outcome = world.run(world.devices(), log := MemoryLog(), learner=in_blocks(world))
    _, asked, closed = Transcript(log).recorded
    assert isinstance(asked, Asked)
    assert isinstance(closed, Closed)
    assert [group.question for group in asked.groups] == [0, 0]
    assert [(group.start, group.stop) for group in asked.groups] == [(0, 55), (55, 110)]
    requests = [decode_request(group.payload, world.schema) for group in asked.groups]
    assert [request.query.components for request in requests] == [32, 32]
    expected = [
        float(share)
        for request, tally in zip(requests, closed.tallies, strict=True)
        for share in family_of(request.randomizer).frequencies(tally.counts, tally.answered)
    ]
    (answer,) = outcome.hypothesis
    assert list(answer.values) == expected
    assert all(low <= high for low, high in zip(answer.lows, answer.highs, strict=True))


@pytest.mark.parametrize(("number", "part"), list(product((0, 1), PARTS)))
def test_requests_keep_their_digests_and_closed_rounds_are_not_asked_again(
    world: World, number: int, part: Fraction
) -> None:
    devices, log = world.devices(), MemoryLog()
    whole = world.recorded(ObjectFleet(world.devices()))
    world.run(whole)
    break_off(world, devices, log, number, part)
    again = world.recorded(ObjectFleet(devices))
    world.run(again, log)
    assert [round_.number for round_ in again.recalled] == list(range(number))
    assert [round_.number for round_ in again.asked] == list(range(number, 2))
    for before, after in zip(whole.asked, [*again.recalled, *again.asked], strict=True):
        assert [g.digest for g in before.groups] == [g.digest for g in after.groups]
        assert [g.cohort.members.tolist() for g in before.groups] == [
            g.cohort.members.tolist() for g in after.groups
        ]


def test_it_may_break_off_again_and_again(world: World) -> None:
    expected = world.run(world.devices())
    devices, log = world.devices(), MemoryLog()
    for number, part in product((0, 1), PARTS):
        break_off(world, devices, log, number, part)
    assert world.run(devices, log) == expected


class Failing(MemoryLog):
    """A log whose disk fails once, at one of its lines: before or after it is durable."""

    def __init__(self, at: int, *, kept: bool) -> None:
        super().__init__()
        self._left, self._kept = at, kept

    def append(self, line: str) -> None:
        self._left -= 1
        if self._left != -1 or self._kept:
            super().append(line)
        if self._left == -1:
            raise OSError("disk full")


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("at", range(5))
def test_whichever_line_could_not_be_written(world: World, at: int, *, kept: bool) -> None:
    expected = world.run(world.devices())
    devices, log = world.devices(), Failing(at, kept=kept)
    fleet = world.recorded(ObjectFleet(devices))
    with pytest.raises(OSError, match="disk full"):
        world.run(fleet, log)
    assert len(fleet.asked) == at // 2  # what could not be recorded was not asked
    assert world.run(devices, log) == expected


class Growing(ObjectFleet):
    """Devices of which only some are enrolled as yet."""

    enrolled = 110

    @property
    def population(self) -> int:
        return self.enrolled


def test_who_enrols_meanwhile_is_not_part_of_it(world: World, worlds: type[World]) -> None:
    """The cohorts are those of the users with whom it began."""
    devices, log = worlds(users=150).devices(), MemoryLog()  # the first 110 are the world's
    fleet = Growing(devices)
    with pytest.raises(world.interrupted):
        world.run(world.breaking(fleet, 1, Fraction(1, 2)), log)
    fleet.enrolled = 150
    assert world.run(fleet, log) == world.run(world.devices())
    assert not any(devices.history()[110:])


def test_the_same_session_may_go_on(world: World) -> None:
    expected = world.run(world.devices())
    session = world.session(world.breaking(ObjectFleet(world.devices()), 1, Fraction(1, 2)))
    with pytest.raises(world.interrupted):
        session.run()
    with pytest.raises(world.interrupted):
        session.run()
    finished = world.session(world.devices())
    assert finished.run() == finished.run() == expected


def test_a_finished_study_is_read_from_its_transcript(world: World) -> None:
    devices, log = world.devices(), MemoryLog()
    expected = world.run(devices, log)
    fleet = world.recorded(ObjectFleet(devices))
    lines = list(log.lines())
    assert world.run(fleet, log) == expected
    assert fleet.asked == []
    assert list(log.lines()) == lines


class TestOtherStudies:
    @pytest.fixture
    def log(self, world: World) -> MemoryLog:
        log = MemoryLog()
        world.run(world.devices(), log)
        return log

    @pytest.mark.parametrize(
        "change",
        [
            lambda world: {"study": world.study(nonce=1)},
            lambda world: {"cohort_seed": b"other"},
            lambda world: {"learner": replace(world.learner, version=2)},
            lambda world: {"learner": replace(world.learner, name="other")},
            lambda world: {"study": world.study(beta=Fraction(1, 50))},
            lambda world: {"study": world.study(confidence=Fraction(1, 2))},
        ],
        ids=["study", "cohorts", "version", "learner", "beta", "confidence"],
    )
    def test_are_not_continued_on_this_transcript(
        self, world: World, log: MemoryLog, change: Callable[[World], dict[str, Any]]
    ) -> None:
        fleet, lines = world.recorded(ObjectFleet(world.devices())), list(log.lines())
        with pytest.raises(NondeterminismError, match="another's"):
            world.run(fleet, log, **change(world))
        assert fleet.asked == fleet.recalled == []
        assert list(log.lines()) == lines

    def test_nor_by_fewer_users(self, world: World, worlds: type[World], log: MemoryLog) -> None:
        with pytest.raises(NondeterminismError, match="another's"):
            world.run(worlds(users=109).devices(), log)

    def test_a_transcript_without_a_header_is_none_of_ours(
        self, world: World, log: MemoryLog
    ) -> None:
        headless = MemoryLog()
        for line in list(log.lines())[1:]:
            headless.append(line)
        with pytest.raises(NondeterminismError, match="header"):
            world.run(world.devices(), headless)


def asking(*rounds: list[Query]) -> Learner[list[Answers]]:
    """Ask these questions, round by round, and return all answers."""

    def factory() -> Learning[list[Answers]]:
        answers = []
        for queries in rounds:
            answers.append((yield Batch(Question(query, tau="2/5") for query in queries)))
        return answers

    return Adaptive(name="asking", version=1, parameters={}, factory=factory)


class TestNondeterminism:
    """A learner that asks something else on replay is detected before a request is sent."""

    @pytest.fixture
    def bit(self, world: World) -> Query:
        return predicate(world.schema["b"] == 1)

    @pytest.fixture
    def index(self, world: World) -> Query:
        return predicate(world.schema["i"] == 1)

    @pytest.mark.parametrize("number", [0, 1])
    def test_another_question_is_not_asked(
        self, world: World, bit: Query, index: Query, number: int
    ) -> None:
        devices, log = world.devices(), MemoryLog()
        break_off(world, devices, log, 1, Fraction(1, 2), learner=asking([bit], [bit]))
        lines, history = list(log.lines()), devices.history()
        other = asking(*([index] if place == number else [bit] for place in (0, 1)))
        with pytest.raises(NondeterminismError, match=f"round {number + 1}: expected question 1"):
            world.run(devices, log, learner=other)
        assert list(log.lines()) == lines
        assert devices.history() == history

    def test_nor_more_or_fewer_questions(self, world: World, bit: Query, index: Query) -> None:
        devices, log = world.devices(), MemoryLog()
        world.run(devices, log, learner=asking([bit, index]))
        for queries in ([bit], [bit, index, bit]):
            with pytest.raises(NondeterminismError, match=f"2 questions .*found {len(queries)}"):
                world.run(devices, log, learner=asking(queries))

    def test_nor_fewer_rounds(self, world: World, bit: Query) -> None:
        devices, log = world.devices(), MemoryLog()
        world.run(devices, log, learner=asking([bit], [bit]))
        with pytest.raises(NondeterminismError, match=r"expected 1 rounds.*found more"):
            world.run(devices, log, learner=asking([bit]))

    def test_nor_the_same_in_another_order(self, world: World, bit: Query, index: Query) -> None:
        devices, log = world.devices(), MemoryLog()
        world.run(devices, log, learner=asking([bit, index]))
        with pytest.raises(NondeterminismError, match="question 1"):
            world.run(devices, log, learner=asking([index, bit]))


def above(world: World, threshold: Fraction) -> Query:
    """A predicate with a constant that a learner computed."""
    return predicate(world.schema["i"] + Fraction(1, 2) > constant(threshold, 16))


def clipped(world: World, end: Fraction) -> Query:
    """A number whose very range follows from such a constant."""
    return real(clip(world.schema["i"], Fraction(0), end))


class TestConstants:
    """Floats of another machine may move a computed constant by one step of the grid."""

    @pytest.mark.parametrize("make", [above, clipped])
    @pytest.mark.parametrize("step", [-STEP, 0 * STEP, STEP])
    def test_one_step_is_let_pass_and_the_recorded_question_counts(
        self, world: World, make: Callable[[World, Fraction], Query], step: Fraction
    ) -> None:
        first, moved = make(world, Fraction(3, 4)), make(world, Fraction(3, 4) + step)
        expected = world.run(world.devices(), learner=asking([first], [first]))
        devices, log = world.devices(), MemoryLog()
        break_off(world, devices, log, 1, Fraction(1, 2), learner=asking([first], [first]))
        outcome = world.run(devices, log, learner=asking([moved], [moved]))
        assert outcome == expected  # to the last bit of the answers
        asked = [event for event in Transcript(log).recorded if isinstance(event, Asked)]
        assert [query_from_bytes(event.questions[0], world.schema) for event in asked] == [
            first,
            first,
        ]

    @pytest.mark.parametrize("make", [above, clipped])
    @pytest.mark.parametrize("steps", [-2, 2, 1000])
    def test_two_steps_are_another_question(
        self, world: World, make: Callable[[World, Fraction], Query], steps: int
    ) -> None:
        devices, log = world.devices(), MemoryLog()
        world.run(devices, log, learner=asking([make(world, Fraction(3, 4))]))
        with pytest.raises(NondeterminismError, match="question 1"):
            world.run(devices, log, learner=asking([make(world, Fraction(3, 4) + steps * STEP)]))

    def test_after_the_transcript_a_moved_constant_is_a_question_like_any(
        self, world: World
    ) -> None:
        """Round 1 was not asked before the break: there is nothing that it must agree with."""
        first, moved = above(world, Fraction(3, 4)), above(world, Fraction(1, 4))
        devices, log = world.devices(), MemoryLog()
        break_off(world, devices, log, 0, Fraction(1), learner=asking([first], [first]))
        world.run(devices, log, learner=asking([first], [moved]))
        events = Transcript(log).recorded
        assert [type(event) for event in events[1:]] == [Asked, Closed] * 2
