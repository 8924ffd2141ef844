"""Required fields: no level for "missing", fewer users, and the default that no result can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from askance_aggregator.learners import mean, mean_vector, presentation_of, quantiles
from askance_aggregator.learners.mean import MeanEstimate
from askance_aggregator.learners.mean_vector import MeanVector
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import plan
from askance_aggregator.queries import is_required, real
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.queries import Bit, Integer, Real, Schema

OPTIONAL = Schema("people", 1, age=Integer(0, 120), height=Real(1, 3), smokes=Bit())
REQUIRED = Schema(
    "people",
    1,
    age=Integer(0, 120, required=True),
    height=Real(1, 3, required=True),
    smokes=Bit(required=True),
)
MIXED = Schema("people", 1, age=Integer(0, 120, required=True), height=Real(1, 3), smokes=Bit())
RECORDS: dict[str, Any] = {
    "age": [20, 40, None, 40],
    "height": ["1.5", None, "2.5", "2"],
    "smokes": [1, None, 1, 0],
}


def users(make: Callable[[Schema], Any], schema: Schema, epsilon: float) -> int:
    needed = plan(make(schema), round(epsilon * NANO_NATS_PER_NAT), 0.01).users_needed
    assert needed is not None
    return needed


@pytest.mark.parametrize(
    ("make", "epsilon", "planned"),
    [
        (lambda schema: mean(schema.age, tau=6), 0.5, 11_224),  # one bit, of a range of 2 tau 10
        (lambda schema: mean(schema.height, tau="1/10"), 0.5, 11_224),
        (lambda schema: mean(schema.smokes, tau="1/20"), 0.5, 11_224),
        (lambda schema: mean(schema.age + schema.age, tau=12), 0.5, 11_224),
    ],
)
def test_a_required_number_takes_one_bit(
    make: Callable[[Schema], Any], epsilon: float, planned: int
) -> None:
    assert users(make, REQUIRED, epsilon) == planned
    assert users(make, OPTIONAL, epsilon) > 1.3 * planned


def test_a_required_vector_asks_each_number_once() -> None:
    def vector(schema: Schema) -> Any:
        return mean_vector(schema, columns=["age", "height"], tau="1/10")

    def counted(schema: Schema) -> Any:
        return mean_vector(schema, columns=["age", "height"], tau="1/10", missing="default")

    assert users(vector, REQUIRED, 2) == users(counted, OPTIONAL, 2)
    assert 1.2 < users(vector, OPTIONAL, 2) / users(counted, OPTIONAL, 2) < 1.5
    (question,) = vector(MIXED).batch.questions
    assert question.query.components == 3  # of two numbers one may be missing


@pytest.mark.parametrize(
    ("make", "estimate", "required"),
    [
        (lambda s: s.age, 40.0, {"fields": ["age"], "default": 60.0, "bias": 60.0}),
        (lambda s: s.height, 2.0, {"fields": ["height"], "default": 2.0, "bias": 1.0}),
        (lambda s: s.smokes, 0.5, {"fields": ["smokes"], "default": 0.0, "bias": 1.0}),
        (lambda s: s.age > 30, 0.5, {"fields": ["age"], "default": 0.0, "bias": 1.0}),
        (
            lambda s: real(s.age, 20, 100, default=30),
            32.5,
            {"fields": ["age"], "default": 30.0, "bias": 70.0},
        ),
        (
            lambda s: s.age + s.smokes,
            45.25,  # of 21, the middle of 0 .. 121 rounded down, twice, and 40
            {"fields": ["age", "smokes"], "default": 60.0, "bias": 61.0},
        ),
    ],
)
def test_a_mean_says_which_default_it_cannot_see(
    make: Callable[[Schema], Any], estimate: float, required: Mapping[str, Any]
) -> None:
    found = learn(mean(make(REQUIRED)), ExactOracle(REQUIRED, RECORDS))
    assert (found.estimate, found.missing) == (estimate, None)
    assert found.to_json()["required"] == required
    assert MeanEstimate.from_json(found.to_json()) == found
    (note,) = presentation_of(found).notes
    assert f"answers {required['default']:g} unseen" in note
    plain = learn(mean(make(OPTIONAL)), ExactOracle(OPTIONAL, RECORDS))
    assert "required" not in plain.to_json()


def test_a_mean_of_a_field_that_may_be_missing_has_its_level() -> None:
    found = learn(mean(MIXED.age + MIXED.height), ExactOracle(MIXED, RECORDS))
    assert not is_required(MIXED.age + MIXED.height)
    assert found.missing is not None
    assert found.missing.share == pytest.approx(0.5)  # one lacks the age, one the height
    assert found.required is None


def test_a_vector_says_for_each_number_what_it_cannot_see() -> None:
    vector = mean_vector(MIXED, columns=["age", "height"])
    found = learn(vector, ExactOracle(MIXED, RECORDS))
    # A device without the age answers the least value, as one without the height does.
    assert found.estimates == pytest.approx((25.0, 2.0), abs=0.01)
    rows = found.to_json()["means"]
    assert rows["age"]["required"] == {"fields": ["age"], "default": 0.0, "bias": 120.0}
    assert "missing" not in rows["age"]
    assert rows["height"]["missing"]["share"] == pytest.approx(0.25)
    assert "required" not in rows["height"]
    assert MeanVector.from_json(found.to_json()) == found
    assert [name for name, _ in presentation_of(found).missing] == ["height"]


def test_a_vector_of_bounded_length_says_that_its_default_is_0() -> None:
    vector = mean_vector(REQUIRED, columns=["height", "smokes"], norm="l2", bound=2)
    found = learn(vector, ExactOracle(REQUIRED, RECORDS))
    assert found.required is not None
    # Heights are 1 .. 2 within the length, and 0 is 2 from the farthest of them.
    assert [each and (each.default, each.bias) for each in found.required] == [(0, 2), (0, 1)]


def test_quantiles_of_a_required_number_ask_no_level_for_missing() -> None:
    required, optional = (
        learn(quantiles(schema, "age", steps=8), ExactOracle(schema, RECORDS))
        for schema in (REQUIRED, OPTIONAL)
    )
    assert required.missing is None
    assert optional.missing is not None
    (note,) = presentation_of(required).notes
    assert "counts as above all, unseen" in note
    assert presentation_of(optional).notes == ()
