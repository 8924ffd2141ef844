"""The least epsilon from which on users are enough, against plans of the whole grid."""

from __future__ import annotations

from decimal import Decimal

import pytest

import askance as ask
from askance_aggregator.learners import find, learners
from askance_aggregator.studies.least_epsilon import GRID, GRID_TEXT, plan_least_epsilon
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter

NAT = 10**9


def test_the_grid_is_the_one_that_is_printed() -> None:
    milli = [*range(10, 100, 10), *range(100, 1000, 50), *range(1000, 4000, 100)]
    milli += [*range(4000, 8000, 250), *range(8000, 16_001, 1000)]
    assert list(GRID) == [each * 10**6 for each in milli]
    assert GRID_TEXT == "0.01 to 0.1 by 0.01, to 1 by 0.05, to 4 by 0.1, to 8 by 0.25, to 16 by 1"


SETTINGS = {"tau": "0.05", "missing": "default"}  # one bit: it has no table to design


def test_the_plan_is_at_the_least_epsilon_and_all_greater_ones_are_enough() -> None:
    """A mean within .05 takes 5,344 users at 2 nats, as docs/explanations/epsilon.md had it."""
    needs = {
        nano: ask.plan("mean", epsilon=Decimal(nano) / NAT, settings=SETTINGS).users_needed
        for nano in GRID
    }
    users = needs[2 * NAT]
    found = ask.plan("mean", users=users, settings=SETTINGS)
    assert (found.nano_nats, found.users_needed, found.feasible) == (2 * NAT, users, True)
    assert all(needs[nano] <= users for nano in GRID if nano >= 2 * NAT)
    assert needs[19 * NAT // 10] > users


def test_an_epsilon_that_is_enough_below_one_that_is_not_is_passed_over() -> None:
    schema = ask.Schema("people", yes=ask.Bit())

    def study_at(epsilon: Decimal) -> Study:
        tau = "0.02" if epsilon == Decimal("1.5") else "0.1"
        mean = ask.learners.mean(schema.yes, tau=tau, missing="default")
        return Study(mean, schema, epsilon=epsilon)

    users = study_at(Decimal(1)).plan().users_needed
    assert study_at(Decimal("1.4")).plan(users).feasible
    found = plan_least_epsilon(study_at, users, whole=True)
    assert found.nano_nats == 16 * NAT // 10
    assert found.curve is not None
    needs = dict(found.curve.points)
    assert needs[NAT] == users
    assert (needs[15 * NAT // 10] or 0) > users


def test_the_curve_ends_at_the_first_that_is_not_enough_or_has_the_whole_grid() -> None:
    short = ask.plan("mean", users=5_100, settings=SETTINGS)
    whole = ask.plan("mean", users=5_100, settings=SETTINGS, curve=True)
    assert short.nano_nats == whole.nano_nats
    assert short.curve is not None
    assert whole.curve is not None
    assert [nano for nano, _ in whole.curve.points] == list(GRID)
    first = whole.curve.points[len(GRID) - len(short.curve.points) :]
    assert short.curve.points == first
    assert [needed > 5_100 for _, needed in first if needed is not None] == [
        True,
        *([False] * (len(first) - 1)),
    ]


def test_a_refused_epsilon_is_not_enough() -> None:
    def study_at(epsilon: Decimal) -> Study:
        if epsilon < 2:
            raise InvalidParameter("no randomizer spends it")
        schema = ask.Schema("people", yes=ask.Bit())
        mean = ask.learners.mean(schema.yes, tau="0.5", missing="default")
        return Study(mean, schema, epsilon=epsilon)

    found = plan_least_epsilon(study_at, 10_000)
    assert found.nano_nats == 2 * NAT
    assert found.curve is not None
    assert found.curve.points[0] == (19 * NAT // 10, None)


def test_too_few_users_for_every_epsilon_are_refused_with_the_greatest() -> None:
    found = ask.plan("mean", users=3, settings=SETTINGS)
    assert not found.feasible
    assert found.nano_nats == 16 * NAT
    needed = f"{found.users_needed:,}"
    assert found.reason == (
        f"no epsilon up to 16 nats is enough: at 16 the plan needs {needed} users, and there are 3"
        " (allow a wider tolerance, ask a simpler question, or find more users)"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"users": 100}, "a tolerance .tau. for each answer of frequency"),
        ({}, "a number of users that the least epsilon follows from, got neither"),
        ({"users": 100, "epsilon": 1, "curve": True}, "curve: expected no epsilon with it, got 1"),
    ],
)
def test_what_no_epsilon_follows_from_is_refused(settings: dict[str, int], reason: str) -> None:
    with pytest.raises(InvalidParameter, match=reason):
        ask.plan("frequency", **settings)  # type: ignore[arg-type]  # as text would give them


def test_a_tolerance_that_is_missing_is_told_before_anything_is_sized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The threshold alone takes `heavy-hitters` ten seconds, twice."""

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("askance_aggregator.planning.planner.size_batch", refuse)
    with pytest.raises(InvalidParameter, match="for each answer of heavy-hitters"):
        ask.plan("heavy-hitters", users=20_000)


@pytest.mark.slow  # a hundred plans
@pytest.mark.parametrize(
    "name", [one.name for one in learners() if "tau" in {each.name for each in one.parameters}]
)
def test_every_learner_with_a_tau_has_a_least_epsilon(name: str) -> None:
    settings = {"tau": "0.3"}
    if name == "heavy-hitters":
        settings["threshold"] = "0.75"  # else one below the tolerance
    if "decide" in {each.name for each in find(name).parameters}:
        settings["decide"] = "model"  # a check's users have no tolerance
    users = 1
    for epsilon in (14, 15, 16) * 2:  # a learner may choose its rounds by the users
        planned = ask.plan(name, epsilon=epsilon, settings=settings, users=users)
        users = max(users, planned.users_needed)
    found = ask.plan(name, users=users, settings=settings)
    assert found.feasible
    assert found.epsilon <= 14
    assert found.users_needed <= users
