"""Guarantee of a result towards its readers: which tallies it is of, and where it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import askance as ask
from askance_aggregator.amplification import epsilon_ends
from askance_aggregator.amplification.outer import Outer, delta_for
from askance_aggregator.reports.guarantees import guarantees_text
from askance_aggregator.studies.outer import (
    Account,
    EarlierAnswers,
    no_account,
    outer_of_transcript,
)
from askance_aggregator.studies.transcript import Asked, Closed, MemoryLog, Transcript

SCHEMA = ask.Schema("people", 1, smokes=ask.Bit(), drives=ask.Bit())
PEOPLE = ask.Population.from_columns(
    SCHEMA, {"smokes": [0, 1] * 3_000, "drives": [0, 0, 1] * 2_000}
)
WAVERS = ask.Population.from_columns(SCHEMA, {"smokes": [0, 1] * 20_000, "drives": [0, 1] * 20_000})
ONE = ask.randomized_response(10**9)
DELTA = Fraction(1, 10**6)


@ask.non_adaptive("two-shares")
def two_shares(allocation: str) -> tuple[ask.Batch, Callable[[ask.Answers], int]]:
    """Two questions of one bit, in one batch."""
    asked = [ask.Question(ask.predicate(field == 1)) for field in (SCHEMA.smokes, SCHEMA.drives)]
    return ask.Batch(asked, allocation=ask.Allocation(allocation)), lambda answers: len(answers)


def simulated(learner: object) -> ask.Simulation:
    study = ask.Study(learner, SCHEMA, epsilon=1)  # type: ignore[arg-type]
    return ask.simulate(study, PEOPLE, fleet="columns", seed=1)


@pytest.fixture(scope="module")
def one_share() -> ask.Simulation:
    return simulated(ask.learners.mean(SCHEMA.smokes == 1, missing="default"))


def outer_with(
    simulation: ask.Simulation, account: Account = no_account, **changes: object
) -> Outer | None:
    """Return the guarantee of a transcript whose tallies are changed."""
    changed = Transcript(MemoryLog())
    for event in simulation.transcript.recorded:
        if isinstance(event, Closed):
            tallies = tuple(replace(tally, **changes) for tally in event.tallies)  # type: ignore[arg-type]
            event = replace(event, tallies=tallies)
        changed.append(event)
    return outer_of_transcript(changed, SCHEMA, DELTA, account)


def test_it_is_of_the_fresh_honest_answers(one_share: ask.Simulation) -> None:
    found = one_share.to_json()["outer"]
    wanted = epsilon_ends(ONE, 5_940, DELTA).upper  # 6,000 less 1 %
    assert found["epsilon"] == pytest.approx(wanted, rel=1e-9)
    assert (found["answers"], found["liars"], found["delta"]) == (6_000, 0.01, 1e-6)
    assert "replace-one" in found["holds_for"]


def test_delta_is_less_where_more_devices_are_enrolled(one_share: ask.Simulation) -> None:
    outer = outer_of_transcript(one_share.transcript, SCHEMA, delta_for(1_000_000))
    assert outer is not None
    assert outer.delta == Fraction(1, 10**8)


def test_both_are_said_in_one_sentence(one_share: ask.Simulation) -> None:
    assert (
        "Towards the aggregator: at most epsilon 1.00; towards readers of this result: at most"
        in str(one_share)
    )
    assert "at delta 1e-06 (6,000 answers, 1 % of them assumed to lie)." in str(one_share)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reused": 1}, "an answer that was given before is in a user's atom of its own"),
        ({"salted": False}, "single answers can be found from the root"),
        ({"answered": 1}, "one answer hides nothing"),
        ({"answered": 0}, "there is nothing to read"),
    ],
)
def test_the_local_epsilon_alone_is_said(
    one_share: ask.Simulation, changes: dict[str, object], why: str
) -> None:
    assert outer_with(one_share) is not None
    assert outer_with(one_share, no_account, **changes) is None, why


def test_the_smallest_of_disjoint_groups_decides() -> None:
    simulation = simulated(two_shares("fresh"))
    (asked,) = (one for one in simulation.transcript.recorded if isinstance(one, Asked))
    assert len({(group.start, group.stop) for group in asked.groups}) == 2
    outer = outer_of_transcript(simulation.transcript, SCHEMA, DELTA)
    assert outer is not None
    assert outer.answers == 3_000
    assert outer.epsilon == pytest.approx(epsilon_ends(ONE, 2_970, DELTA).upper, rel=1e-9)


def test_a_wave_is_a_batch_of_its_own_and_no_prefix() -> None:
    """Users of a wave were not asked before: the smallest increment decides, and not a sum."""
    learner = ask.learners.mean(SCHEMA.smokes == 1, missing="default", tau="0.01")
    study = ask.Study(learner, SCHEMA, epsilon=4, waves=2)
    simulation = ask.simulate(study, WAVERS, fleet="columns", seed=1)
    closed = [one for one in simulation.transcript.recorded if isinstance(one, Closed)]
    answered = [tally.answered for one in closed for tally in one.tallies]
    outer = outer_of_transcript(simulation.transcript, SCHEMA, DELTA)
    assert len(answered) == 2
    assert outer is not None
    assert outer.answers == min(answered)
    least = min(answered) - -(-min(answered) // 100)
    four = ask.randomized_response(4 * 10**9)
    assert outer.epsilon == pytest.approx(epsilon_ends(four, least, DELTA).upper, rel=1e-9)


def test_questions_to_the_same_users_compose() -> None:
    simulation = simulated(two_shares("split"))
    outer = outer_of_transcript(simulation.transcript, SCHEMA, DELTA)
    half = ask.randomized_response(500_000_000)
    each = epsilon_ends(half, 5_940, DELTA / 2).upper
    assert outer is not None
    assert each < outer.epsilon <= 2 * each * (1 + 1e-9)


def of_halves(seen: range) -> Account:
    """Return an account of two questions, each asked of another half, and of `seen` before."""
    halves: list[bytes] = []

    def account(request: bytes, answers: int) -> EarlierAnswers:
        own = np.arange(len(halves) * 3_000, len(halves) * 3_000 + 3_000)
        halves.append(request)
        users = np.union1d(own, np.array(seen, np.int64))
        return EarlierAnswers(1_500, 1, 1, request, own, users)

    return account


def test_a_user_of_two_groups_by_an_earlier_tally_pays_for_both() -> None:
    """The halves were others in an earlier study: users have answered both questions by now."""
    simulation = simulated(two_shares("fresh"))
    each = epsilon_ends(ONE, 1_485, DELTA / 2).upper
    both = outer_with(simulation, of_halves(range(1_500, 4_500)), reused=1_500)
    assert both is not None
    assert both.epsilon == pytest.approx(2 * each, rel=1e-9)
    assert (both.answers, both.other_tallies) == (1_500, 2)


def test_users_of_one_group_alone_pay_for_one() -> None:
    """An earlier study had asked each half the same question."""
    simulation = simulated(two_shares("fresh"))
    one = outer_with(simulation, of_halves(range(0)), reused=1_500)
    assert one is not None
    assert one.epsilon == pytest.approx(epsilon_ends(ONE, 1_485, DELTA).upper, rel=1e-9)


def test_no_less_than_the_local_epsilon_of_own_answers_is_not_stated() -> None:
    """Two answers among twenty each have less than 2 nats, and more than the 1 of a report."""
    simulation = simulated(two_shares("fresh"))

    def account(request: bytes, answers: int) -> EarlierAnswers:
        users = np.arange(6_000)
        return EarlierAnswers(20, 1, 1, request, users, users)

    assert outer_with(simulation, account, reused=1_500) is None


@pytest.mark.parametrize(
    ("local", "outer", "text"),
    [
        (
            1.0,
            {"epsilon": 0.0028707, "delta": 1e-6, "answers": 1_000_000, "liars": 0.01},
            "Towards the aggregator: at most epsilon 1.00; towards readers of this result: at most"
            " 0.00288 at delta 1e-06 (1,000,000 answers, 1 % of them assumed to lie).",
        ),
        (
            0.125,
            {"epsilon": 0.12, "delta": 5e-7, "answers": 9, "liars": 0.0},
            "Towards the aggregator: at most epsilon 0.125; towards readers of this result: at most"
            " 0.12 at delta 5e-07 (9 answers).",
        ),
        (  # 1 / (100 x 30,001) is 3.33322e-07: a delta of 3.33e-07 was not shown
            1.0,
            {"epsilon": 0.0200834, "delta": 1 / 3_000_100, "answers": 30_001, "liars": 0.01},
            "Towards the aggregator: at most epsilon 1.00; towards readers of this result: at most"
            " 0.0201 at delta 3.34e-07 (30,001 answers, 1 % of them assumed to lie).",
        ),
        (
            2.0,
            None,
            "Towards the aggregator: at most epsilon 2.00; towards readers of this result: no less"
            " is promised.",
        ),
        (
            2.0,
            {"epsilon": 2.0, "delta": 1e-6, "answers": 2, "liars": 0.01},
            "Towards the aggregator: at most epsilon 2.00; towards readers of this result: no less"
            " is promised.",
        ),
    ],
)
def test_text(local: float, outer: dict[str, float] | None, text: str) -> None:
    assert guarantees_text(local, outer) == text
