"""Rounds in waves: who is asked, when it ends, and that the stated error is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from askance_aggregator.estimation import estimate
from askance_aggregator.families import family_of, randomized_response
from askance_aggregator.learners import (
    Allocation,
    Answer,
    Answers,
    Batch,
    Learner,
    NonAdaptive,
    Question,
    adaptive,
)
from askance_aggregator.planning import RoundPlan, RoundRules, plan_batch, prefixes, shares
from askance_aggregator.queries import predicate
from askance_aggregator.studies import MemoryLog, Outcome, Tally, Transcript
from askance_aggregator.studies.transcript import Asked, Closed
from askance_aggregator.studies.waves import Waves, exact_enough
from askance_client.codec import decode_request
from askance_client.errors import (
    InvalidParameter,
    LocalProtocolError,
    NondeterminismError,
    TooFewRespondents,
)
from askance_client.messages import Conduct, Request
from askance_client.queries import Integer, Schema
from askance_simulation.fleets import ObjectFleet

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

TAU = Fraction(1, 10)
BETA = Fraction(1, 100)


@pytest.fixture(scope="module")
def world(worlds: type[World]) -> World:
    return worlds(users=1500)


def asks(world: World, allocation: Allocation) -> Learner[Answers]:
    """Ask for a bit that no user has, and for one that half of all have."""
    schema = world.schema
    nobody, half = predicate(schema["i"] > 5), predicate(schema["b"] == 1)
    batch = Batch([Question(nobody, tau=TAU), Question(half, tau=TAU)], allocation)
    return NonAdaptive(
        name="two", version=1, parameters={}, batch=batch, conclude=lambda answers: answers
    )


def run(world: World, log: MemoryLog, allocation: Allocation, waves: int = 4) -> Outcome[Answers]:
    study = world.study(waves=waves)
    return world.run(world.devices(), log, study=study, learner=asks(world, allocation))


def rounds(log: MemoryLog) -> list[tuple[Asked, Closed]]:
    events = Transcript(log).recorded[1:]
    pairs = []
    for asked, closed in zip(events[::2], events[1::2], strict=True):
        assert isinstance(asked, Asked)
        assert isinstance(closed, Closed)
        pairs.append((asked, closed))
    return pairs


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    """Log of `outcome`."""
    return MemoryLog()


@pytest.fixture(scope="module")
def outcome(world: World, log: MemoryLog) -> Outcome[Answers]:
    """Outcome of fresh groups, in four waves."""
    return run(world, log, Allocation.FRESH)


class TestFreshGroups:
    def test_a_question_that_is_done_is_not_asked_again(
        self, outcome: Outcome[Answers], log: MemoryLog
    ) -> None:
        """The first question is known after 2 or 3 looks; a half needs all four."""
        asked = [len(asked.questions) for asked, _ in rounds(log)]
        assert asked in ([2, 2, 1, 1], [2, 2, 2, 1])
        assert (outcome.rounds, outcome.queries) == (4, sum(asked))

    def test_each_wave_ends_at_its_prefix(
        self, world: World, outcome: Outcome[Answers], log: MemoryLog
    ) -> None:
        planned = world.session(
            world.devices(), study=world.study(waves=4), learner=asks(world, Allocation.FRESH)
        ).plan()
        ends = [prefixes(group.users, 4) for group in planned.rounds[0].groups]
        heard: defaultdict[bytes, int] = defaultdict(int)
        for wave, (asked, _) in enumerate(rounds(log)):
            for group in asked.groups:
                heard[asked.questions[group.question]] += group.stop - group.start
            assert heard[asked.questions[-1]] == ends[1][wave]
        assert outcome.users_used + outcome.users_saved == planned.users_needed
        assert outcome.users_saved == ends[0][3] - heard[rounds(log)[0][0].questions[0]] > 0

    def test_users_are_asked_from_the_front_and_nobody_twice(
        self, outcome: Outcome[Answers], log: MemoryLog
    ) -> None:
        ranges = [(group.start, group.stop) for asked, _ in rounds(log) for group in asked.groups]
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == outcome.users_used
        assert outcome.spending.users_asked == outcome.users_used
        assert outcome.reconciled

    def test_answers_are_of_all_waves_at_the_share_of_the_look_that_ended_them(
        self, world: World, outcome: Outcome[Answers], log: MemoryLog
    ) -> None:
        counts: defaultdict[bytes, list[Any]] = defaultdict(list)
        for asked, closed in rounds(log):
            for group, tally in zip(asked.groups, closed.tallies, strict=True):
                counts[asked.questions[group.question]].append((group, tally))
        for question, found in zip(counts, outcome.hypothesis, strict=True):
            request = decode_request(counts[question][0][0].payload, world.schema)
            total = np.sum([tally.counts for _, tally in counts[question]], axis=0)
            answered = sum(tally.answered for _, tally in counts[question])
            share = shares(4)[len(counts[question]) - 1]
            expected = estimate(
                Question(request.query), request.randomizer, total, answered, 0.05 * share / 2
            )
            assert found.values == expected.values
            assert found.lows + found.highs == pytest.approx(expected.lows + expected.highs)


def test_one_cohort_goes_on_until_all_are_done(world: World) -> None:
    log = MemoryLog()
    outcome = run(world, log, Allocation.SPLIT)
    assert [len(asked.questions) for asked, _ in rounds(log)] == [2, 2, 2, 2]
    for asked, _ in rounds(log):
        assert len({(group.start, group.stop) for group in asked.groups}) == 1
    assert outcome.users_saved == 0


def test_a_cohort_of_a_few_questions_goes_on_until_its_own_are_done(world: World) -> None:
    """Three rare bits share a cohort, and three of a half: the first ends, the second goes on."""
    schema, nats = world.schema, 12 * 10**9
    rare = Question(predicate(schema["i"] > 5), tau="1/7")
    half = Question(predicate(schema["b"] == 1), tau="1/12")
    batch = Batch([rare, half] * 3, Allocation.GROUPED)
    learner = NonAdaptive(
        name="six", version=1, parameters={}, batch=batch, conclude=lambda answers: answers
    )
    log = MemoryLog()
    owners = dict.fromkeys(range(1_500), world.policy(life_nano_nats=nats))
    outcome = world.run(
        world.devices(owners), log, study=world.study(budget=nats, waves=4), learner=learner
    )
    cohorts = [
        Counter((group.start, group.stop) for group in asked.groups) for asked, _ in rounds(log)
    ]
    assert [list(found.values()) for found in cohorts] in (
        [[3, 3], [3, 3], [3, 3], [3]],
        [[3, 3], [3, 3], [3], [3]],
        [[3, 3], [3], [3], [3]],
    )
    assert {asked.allocation for asked, _ in rounds(log)} == {"grouped"}
    assert outcome.users_saved > 0
    assert outcome.spending.max_spent <= nats
    assert outcome.reconciled


def test_users_that_were_not_asked_are_there_for_the_next_round(world: World) -> None:
    @adaptive("twice")
    def twice(schema: Schema) -> Any:
        question = Question(predicate(schema["i"] > 5), tau=TAU)
        for _ in range(2):
            yield Batch([question])

    log = MemoryLog()
    outcome = world.run(
        world.devices(), log, study=world.study(waves=4), learner=twice(world.schema)
    )
    assert outcome.users_saved > 0
    stops = [asked.groups[0].stop for asked, _ in rounds(log)]
    starts = [asked.groups[0].start for asked, _ in rounds(log)]
    assert starts == [0, *stops[:-1]]


@pytest.mark.parametrize("part", [Fraction(0), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("number", range(4))
def test_a_study_that_breaks_off_in_a_wave_goes_on_from_it(
    worlds: type[World], number: int, part: Fraction
) -> None:
    world = worlds(users=900)
    arguments = {"study": world.study(waves=4), "learner": asks(world, Allocation.FRESH)}
    log, broken, devices = MemoryLog(), MemoryLog(), world.devices()
    expected = world.run(world.devices(), log, **arguments)
    with pytest.raises(world.interrupted):
        world.run(world.breaking(ObjectFleet(devices), number, part), broken, **arguments)
    assert world.run(devices, broken, **arguments) == expected
    assert list(broken.lines()) == list(log.lines())


def test_each_wave_must_have_its_least_answers(world: World) -> None:
    log = MemoryLog()
    learner = asks(world, Allocation.FRESH)
    study = world.study(waves=4, least_answers=1)
    misers = world.devices(dict.fromkeys(range(1_500), world.policy(life_nano_nats=0)))
    with pytest.raises(TooFewRespondents, match="round 1: expected at least 1 answers"):
        world.run(misers, log, study=study, learner=learner)
    assert len(rounds(log)) == 1


def test_one_wave_is_a_study_like_any_other(world: World) -> None:
    """To the byte: the study that is signed, and what it leaves behind."""
    assert world.study(waves=1) == world.study()
    logs = [MemoryLog(), MemoryLog()]
    run(world, logs[0], Allocation.FRESH, waves=1)
    world.run(world.devices(), logs[1], learner=asks(world, Allocation.FRESH))
    assert list(logs[0].lines()) == list(logs[1].lines())
    assert len(rounds(logs[0])) == 1


def test_a_number_of_waves_is_checked_where_it_is_said() -> None:
    with pytest.raises(InvalidParameter, match="waves: expected 1 to 16, found 17"):
        Conduct(waves=17)


# The rule itself, on tallies.

SCHEMA = Schema("s", 1, n=Integer(0, 9))
FINE = Fraction(1, 25)
YES = Question(predicate(SCHEMA["n"] > 4), tau=FINE)


def tally(yes: int, answered: int) -> Tally:
    return Tally((answered - yes, yes), answered, answered, b"")


def entered(planned: RoundPlan, *yeses: int) -> Waves:
    """Return one question's round after waves with these numbers of yes."""
    waves = Waves(Batch([YES]), planned, float(BETA))
    randomizer = planned.groups[0].randomizer
    for yes in yeses:
        users = waves.next().users
        request = Request(bytes(32), 0, 0, YES.query, randomizer)
        waves.add([0], [request], [tally(yes, users)])
    return waves


@pytest.mark.parametrize(
    ("low", "high", "enough"),
    [
        (0.3125, 0.6875, True),
        (0.25, 0.6875, False),  # a whole tolerance below
        (0.3125, 0.75, False),  # and above
        (0.125, 0.5, False),
        (0.5, 0.875, False),
    ],
)
def test_an_answer_is_exact_enough_within_less_than_tau_on_both_sides(
    low: float, high: float, enough: bool
) -> None:
    exact = Answer((0.5,), (0.3125,), (0.6875,))
    assert exact_enough(Answer((0.5,), (low,), (high,)), Fraction(1, 4)) is enough
    both = Answer((0.5, 0.5), (*exact.lows, low), (*exact.highs, high))
    assert exact_enough(both, Fraction(1, 4)) is enough


def test_a_wave_that_asks_by_another_randomizer_is_refused() -> None:
    planned = plan_batch(Batch([YES]), 4 * 10**9, float(BETA), rules=RoundRules(waves=4))
    waves = entered(planned, 10)
    assert not waves.done
    other = Request(b"", 0, 0, YES.query, randomized_response(10**9))
    with pytest.raises(NondeterminismError, match="wave 2: expected the requests"):
        waves.add([0], [other], [tally(1, 30)])


def test_no_wave_follows_the_last() -> None:
    planned = plan_batch(Batch([YES]), 4 * 10**9, float(BETA), rules=RoundRules(waves=4))
    waves = entered(replace(planned, waves=1), 10)
    assert waves.done
    with pytest.raises(LocalProtocolError, match="expected no event when DONE, got NEXT"):
        waves.next()
    with pytest.raises(LocalProtocolError, match="expected no event when DONE, got ENTER"):
        waves.add([0], [], [])


def test_the_rule_is_to_look_at_the_sum_at_this_look_s_share() -> None:
    planned = plan_batch(Batch([YES]), 4 * 10**9, float(BETA), rules=RoundRules(waves=4))
    table = coin(planned)
    ends = prefixes(planned.users, 4)
    rng = np.random.default_rng(0)
    done_at = []
    for share in np.repeat([0.01, 0.1, 0.2, 0.5], 15):
        yeses: list[int] = []
        for end, before in zip(ends, (0, *ends), strict=False):
            yeses.append(int(rng.binomial(end - before, table(share))))
            expected = end == ends[-1] or ends_there(planned, len(yeses) - 1, sum(yeses))
            assert entered(planned, *yeses).done == expected
            if expected:
                break
        done_at.append(len(yeses))
    assert set(done_at) >= {3, 4}


@pytest.mark.parametrize("nats", [2, 4])
def test_the_stated_error_is_kept_exactly_for_every_share_of_yes(nats: int) -> None:
    """By the law of the counts at all looks: P[the answer is off by tau] <= beta.

    Each path ends where the looks say; its answer is then judged. No sampling.
    """
    planned = plan_batch(Batch([YES]), nats * 10**9, float(BETA), rules=RoundRules(waves=4))
    ends = prefixes(planned.users, planned.waves)
    stops = [
        np.array([ends_there(planned, wave, count) for count in range(end + 1)])
        for wave, end in enumerate(ends[:-1])
    ]
    saved = {}
    for place in range(41):
        failure, users = exact_law(planned, [*stops, np.ones(ends[-1] + 1, bool)], place / 40)
        assert failure <= float(BETA)
        saved[place] = 1 - users / planned.users
    assert saved[20] < 0.01  # a half, the worst variance, takes all looks
    # A share near 0 has little variance of its own; at eps = 2 the randomizer's is most of it.
    assert saved[0] > 0.4 if nats == 4 else saved[0] < 0.01


def coin(planned: RoundPlan) -> Callable[[float], float]:
    """From the share of yes to the chance of a report of yes."""
    (group,) = planned.groups
    rates = family_of(group.randomizer).inclusion(1)
    assert rates is not None
    return lambda share: float(rates.other + (rates.own - rates.other) * Fraction(share))


def ends_there(planned: RoundPlan, wave: int, count: int) -> bool:
    end = prefixes(planned.users, planned.waves)[wave]
    alpha = BETA * shares(planned.waves)[wave]
    counts = np.array([end - count, count])
    return exact_enough(estimate(YES, planned.groups[0].randomizer, counts, end, alpha), FINE)


def exact_law(
    planned: RoundPlan, stops: list[NDArray[np.bool_]], share: float
) -> tuple[float, float]:
    """P[failure] and the mean number of users, for this share of yes."""
    chance, one, none = (coin(planned)(each) for each in (share, 1, 0))
    law, before, failure, mean = np.array([1.0]), 0, 0.0, 0.0
    for stop in stops:
        end = len(stop) - 1
        fresh = binom.pmf(np.arange(end - before + 1), end - before, chance)
        law = np.convolve(law, fresh)
        values = (np.arange(end + 1) / end - none) / (one - none)
        off = np.abs(values - share) >= float(FINE) - 1e-12
        failure += float(law[stop & off].sum())
        mean += end * float(law[stop].sum())
        law = np.where(stop, 0.0, law)
        before = end
    return failure, mean
