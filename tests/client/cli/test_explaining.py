"""Questions in an owner's own words: bounds of the value, cells by their labels."""

from __future__ import annotations

import pytest

from askance_aggregator import learners
from askance_aggregator.learners import Learner
from askance_aggregator.queries import category, predicate, real
from askance_client.cli.explaining import level_name, question
from askance_client.queries import Bit, Category, Integer, Query, Real, Schema

SCHEMA = Schema(
    "people",
    1,
    age=Integer(17, 90),
    height=Real("0.5", "2.5"),
    smoker=Bit(),
    education=Category(("school", "college", "university")),
)


def first(learner: Learner[object]) -> Query:
    """Return the first question of a learner."""
    return next(learner.bound(SCHEMA).run()).questions[0].query


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (real(SCHEMA.age), "What is your age, from 17 to 90?"),
        (first(learners.mean(SCHEMA, "age")), "What is your age, from 17 to 90?"),
        (first(learners.mean(SCHEMA, "height")), "What is your height, from 0.5 to 2.5?"),
        (first(learners.mean(SCHEMA, "smoker")), "Yes or no: smoker?"),
        (real(SCHEMA.age * 2), "What is age * 2, from 34 to 180?"),
        (predicate(SCHEMA.smoker == 1), "Yes or no: smoker == 1?"),
        (predicate(SCHEMA.age > 40), "Yes or no: 40 < age?"),
        (
            predicate((SCHEMA.age > 40) & (SCHEMA.education == "college")),
            "Yes or no: (40 < age) & (education == 'college')?",
        ),
        (
            category(SCHEMA.education),
            "Which of school, college, university is your education?",
        ),
        (
            first(learners.mean_vector(SCHEMA, columns="age")),
            "Which signs have 2 numbers, from -1 to 1: vector((((age - 17) * 3591/131072) - 1),"
            " -(((age - 17) * 3591/131072) - 1))?",
        ),
    ],
)
def test_a_question_is_a_question(query: Query, expected: str) -> None:
    assert question(query) == expected


def test_a_level_beyond_a_number_s_bounds_is_that_of_no_value() -> None:
    missing = first(learners.mean(SCHEMA, "age"))
    assert [level_name(missing, level, 3) for level in range(3)] == ["17", "90", "no value"]
    assert [level_name(real(SCHEMA.age), level, 2) for level in range(2)] == ["17", "90"]
