"""A study asks a user as many questions as its analyst signed, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import askance as ask
from askance_aggregator.learners import Adaptive, Allocation, Batch, Learning, Question
from askance_aggregator.queries import predicate
from askance_aggregator.studies.study import Study
from askance_client.codec import decode_study
from askance_client.errors import InvalidParameter, PlanExceeded, PlanRefused
from askance_client.queries import Integer, Schema
from askance_simulation.populations import Population

SCHEMA = Schema("people", 1, age=Integer(0, 127))
USERS = 2_000
PEOPLE = Population.from_columns(SCHEMA, {"age": [40] * USERS})
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def older(*ages: int) -> Batch:
    """Ask all users a question per age."""
    asked = [Question(predicate(SCHEMA["age"] > age), tau="1/5") for age in ages]
    return Batch(asked, Allocation.SPLIT if len(ages) > 1 else None)


def study(*batches: Batch, **options: Any) -> Study:
    def run() -> Learning[int]:
        for batch in batches:
            _ = yield batch
        return len(batches)

    learner = Adaptive(name="asks", version=1, parameters={}, schema=SCHEMA, factory=run)
    return Study(learner, SCHEMA, epsilon=4, **options)


def test_a_plan_counts_the_questions_to_a_user() -> None:
    rounds = study(older(1), older(1, 2, 3)).plan().rounds
    assert [planned.answers for planned in rounds] == [1, 3]


def test_as_many_as_are_signed_are_asked() -> None:
    result = ask.simulate(study(older(1, 2, 3), most_answers=3), PEOPLE, fleet="objects", seed=1)
    assert result.trials[0].outcome.refusals == 0


@pytest.mark.parametrize("fleet", ["objects", "columns"])
def test_one_more_is_refused_before_a_user_is_asked(fleet: str) -> None:
    with pytest.raises(PlanRefused, match=r"most_answers: expected 3 or more, .* got 2"):
        ask.simulate(study(older(1, 2, 3), most_answers=2), PEOPLE, fleet=fleet, seed=1)


def test_a_later_round_with_more_stops_the_study() -> None:
    with pytest.raises(PlanExceeded, match=r"round 2: most_answers: expected 3 or more, .* got 2"):
        ask.simulate(study(older(1), older(1, 2, 3), most_answers=2), PEOPLE, seed=1)


@pytest.mark.parametrize("number", [0, -1, 65_537])
def test_a_number_that_no_device_gives_is_refused(number: int) -> None:
    with pytest.raises(InvalidParameter, match=r"most_answers: expected 1 to 65536, got"):
        study(older(1), most_answers=number)


def test_it_is_signed() -> None:
    for options, most in (({}, 4_096), ({"most_answers": 7}, 7)):
        signed = study(older(1), **options).sign(KEY, nonce=bytes(16), expires_unix_s=2**40)
        assert decode_study(signed.study).most_answers == most
