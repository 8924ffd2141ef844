"""Plans whose local epsilon follows from one towards readers of tallies."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

import askance as ask
from askance.cli import main
from askance_aggregator.amplification import epsilon_ends
from askance_client.errors import InvalidParameter

SCHEMA = ask.Schema("people", 1, smokes=ask.Bit())
SHARE = ask.learners.mean(SCHEMA.smokes == 1, missing="default")  # one bit: randomized response
HONEST = 1_980  # of 2,000 answers, 1 % being lies
DELTA = Fraction(1, 10**6)


def planned(**changes: object) -> ask.StudyPlan:
    given = {"schema": SCHEMA, "users": 50_000, "least_answers": 2_000, "outer_epsilon": "0.1"}
    return ask.plan(changes.pop("learner", SHARE), **(given | changes))  # type: ignore[arg-type]


def upper(nano_nats: int, delta: Fraction = DELTA) -> float:
    """Epsilon towards readers of randomized response, by the least answers that are published."""
    return epsilon_ends(ask.randomized_response(nano_nats), HONEST, delta).upper


def test_the_greatest_hundredth_that_keeps_the_outer_epsilon_is_found() -> None:
    plan = planned(outer_delta="1e-6")
    assert plan.nano_nats % 10_000_000 == 0
    assert upper(plan.nano_nats) <= 0.1 < upper(plan.nano_nats + 10_000_000)
    found = plan.to_json()
    assert found["outer"]["epsilon"] == pytest.approx(upper(plan.nano_nats), rel=1e-9)
    assert found["outer"]["answers"] == 2_000
    assert found["outer"]["liars"] == 0.01
    assert found["outer"]["delta"] == 1e-6


def test_a_plan_keeps_its_epsilon_at_the_delta_of_its_results() -> None:
    of_results = Fraction(1, 5_000_000)  # 1 / (100 * 50,000)
    plan = planned()
    found = plan.to_json()["outer"]
    assert found["delta"] == float(of_results)
    assert found["epsilon"] == pytest.approx(upper(plan.nano_nats, of_results), rel=1e-9)
    assert upper(plan.nano_nats, of_results) <= 0.1
    open_plan = planned(
        learner=ask.learners.mean(SCHEMA.smokes == 1, missing="default", tau="0.01"), users=None
    )
    assert open_plan.users_needed > 10_000
    assert open_plan.to_json()["outer"]["delta"] == 1 / (100 * open_plan.users_needed)


def test_more_answers_allow_a_greater_local_epsilon_and_smaller_errors() -> None:
    few, many = planned(), planned(least_answers=20_000)
    assert many.epsilon > few.epsilon
    assert many.rounds[0].tau < few.rounds[0].tau


def test_errors_lie_between_a_trusted_curators_and_those_of_reports_alone() -> None:
    beside = planned().to_json()["outer_wanted"]["beside"]
    assert beside["cost"] == "tau"
    assert beside["curator"] < beside["own"] / 1.2
    assert beside["local_only"] > 5 * beside["own"]  # epsilon .1 in place of about 1


def test_stated_tolerances_are_compared_by_users() -> None:
    share = ask.learners.mean(SCHEMA.smokes == 1, missing="default", tau="0.05")
    plan = planned(learner=share)
    beside = plan.to_json()["outer_wanted"]["beside"]
    assert beside["cost"] == "users"
    assert beside["own"] == plan.users_needed
    assert beside["local_only"] > 10 * beside["own"]
    assert beside["curator"] <= beside["own"]


def test_a_lower_limit_of_the_local_epsilon_is_kept() -> None:
    assert planned(local_at_most="0.5").epsilon == 0.5


def test_where_nothing_is_amplified_the_local_epsilon_is_the_wanted_one() -> None:
    plan = planned(least_answers=3)
    assert plan.epsilon == 0.1
    assert plan.to_json()["outer_wanted"]["epsilon"] == 0.1
    # Two honest answers of three: a bound is the local epsilon, or hardly less.
    outer = plan.to_json().get("outer")
    assert outer is None or 0.09 < outer["epsilon"] <= 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"local_at_most": 5}, "local_at_most: expected a number of nats up to 4, got 5"),
        ({"least_answers": 0}, "least_answers: expected the fewest answers .* 3 or more, got 0"),
        ({"outer_epsilon": 0}, "outer_epsilon: expected a positive number of nats, got '?0'?"),
        ({"outer_delta": 1}, "outer_delta: expected a number between 0 and 1, got 1"),
        ({"epsilon": 1}, "outer_epsilon: expected no epsilon with it, got 1"),
        ({"curve": True}, "outer_epsilon: expected no curve with it"),
    ],
)
def test_wrong_arguments_are_refused_with_their_value(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        planned(**changes)


def test_the_command_prints_both_guarantees(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "mean", "--users", "9000", "--least-answers", "2000")
    assert main([*words, "--outer-epsilon", "0.5", "--set", "missing=default"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "with fewer than 2,000 answers in a group the study ends without a result" in text
    assert "at delta 1e-06 (2,000 answers, 1 % of them assumed to lie)." in text
    assert main([*words, "--outer-epsilon", "0.5", "--set", "missing=default", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outer"]["epsilon"] <= 0.5 < found["epsilon"] <= 4


def test_a_plan_with_an_epsilon_promises_what_its_least_answers_keep() -> None:
    plan = ask.plan(SHARE, schema=SCHEMA, epsilon=1, users=9_000, least_answers=2_000)
    found = plan.to_json()
    assert found["outer"]["epsilon"] == pytest.approx(upper(10**9), rel=1e-9)
    assert found["outer"]["answers"] == 2_000
    assert "towards readers of its tallies: at most" in str(plan)
    assert "outer" not in ask.plan(SHARE, schema=SCHEMA, epsilon=1, users=9_000).to_json()
