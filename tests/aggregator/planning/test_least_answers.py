"""No charge for what cannot work: every group of a plan has the answers that its study asks for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import askance as ask
from askance_aggregator.learners import Allocation, Batch, Question
from askance_aggregator.planning import RoundRules, plan_batch, prefixes
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    vector,
)
from askance_client.errors import PlanRefused
from askance_client.queries import (
    Bit,
    Category,
    Real,
    Schema,
)

ROOT = Path(__file__).resolve().parents[3]
NAT, BETA = 10**9, 0.01
SCHEMA = Schema("s", 1, b=Bit(), c=Category(range(8)), x=Real(-1, 1), y=Real(-1, 1))
YES = Question(predicate(SCHEMA["b"] == 1), tau="1/5")
CELL = Question(category(SCHEMA["c"]), tau="1/4")
OPEN = Question(real(SCHEMA["x"]))
VECTOR = Question(vector([SCHEMA["x"], SCHEMA["y"]]), tau="1/2")
BATCHES = [
    Batch([YES]),
    Batch([YES, CELL, OPEN], Allocation.FRESH),
    Batch([YES, OPEN], Allocation.SPLIT),
    Batch([VECTOR, OPEN], Allocation.FRESH),
]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.sampled_from(BATCHES), st.integers(0, 3_000), st.integers(1, 4))
def test_every_group_of_every_wave_asks_as_many_as_must_answer(
    batch: Batch, least: int, waves: int
) -> None:
    planned = plan_batch(batch, 4 * NAT, BETA, rules=RoundRules(waves=waves, least_answers=least))
    for group in planned.groups:
        asked = [0, *prefixes(group.users, planned.waves)]
        assert min(after - before for before, after in pairwise(asked)) >= least


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.sampled_from(BATCHES), st.integers(0, 500))
def test_a_population_that_is_large_enough_gives_every_group_its_least(
    batch: Batch, least: int
) -> None:
    needed = plan_batch(batch, 4 * NAT, BETA, rules=RoundRules(least_answers=least)).users
    planned = plan_batch(batch, 4 * NAT, BETA, 2 * needed, rules=RoundRules(least_answers=least))
    assert planned.users <= 2 * needed
    assert min(group.users for group in planned.groups) >= least


@pytest.mark.parametrize("batch", BATCHES)
def test_a_plan_that_has_enough_anyway_is_as_before(batch: Batch) -> None:
    planned = plan_batch(batch, NAT, BETA)
    fewest = min(group.users for group in planned.groups)
    assert plan_batch(batch, NAT, BETA, rules=RoundRules(least_answers=fewest)) == planned


def test_a_population_too_small_for_the_least_answers_is_refused_and_says_so() -> None:
    one_mask = ask.learners.masked_parity(MASKED, candidates=1)
    study = ask.Study(one_mask, epsilon=2, least_answers=100)
    needed = study.plan().users_needed
    assert study.plan(needed).feasible
    refused = study.plan(needed - 1)
    assert not refused.feasible
    assert "least_answers asks for 100 in every group of a round" in (refused.reason or "")
    with pytest.raises(PlanRefused, match=r"least_answers: expected at most 99, .* got 100"):
        study.plan(99)


MASKED = ask.learners.masked_parity_schema(8)


def test_the_two_round_example_asks_no_fewer_than_it_wants_answers_of() -> None:
    """The second round takes 74 users by its tolerance alone, and the example wants 100 answers."""
    study = ask.study_from_toml(ROOT / "examples" / "masked_parity.toml").study
    assert study.conduct.least_answers == 100
    planned = study.plan(6_000)
    assert planned.feasible
    assert min(group.users for round_ in planned.rounds for group in round_.groups) >= 100
