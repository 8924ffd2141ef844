"""Aims of a question about a number, and priors as text."""

from __future__ import annotations

from fractions import Fraction

import pytest

from askance_aggregator.learners import (
    PopulationMean,
    PriorMean,
    Question,
    SampleMean,
    find,
    mean,
    prior_in,
)
from askance_aggregator.learners.aims import MAX_POINTS
from askance_aggregator.queries import predicate, real
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Integer, Real, Schema

SCHEMA = Schema("people", 1, age=Integer(17, 90), share=Real(-1, 3, 8))
LOW, HIGH = Fraction(-1), Fraction(3)


def test_a_question_is_for_the_population_s_mean_if_nobody_says_otherwise() -> None:
    assert Question(real(SCHEMA["age"])).aim == PopulationMean()
    assert Question(real(SCHEMA["age"]), aim=SampleMean()).aim == SampleMean()


def test_only_a_number_has_another_aim() -> None:
    with pytest.raises(InvalidQuery, match="what a PREDICATE question is for"):
        Question(predicate(SCHEMA["age"] > 40), aim=SampleMean())


def test_a_prior_is_points_of_the_range_with_weights() -> None:
    assert prior_in(" 0:5, 0.2 : 3,3:1/2", LOW, HIGH).points == (
        (Fraction(0), Fraction(5)),
        (Fraction(1, 5), Fraction(3)),
        (Fraction(3), Fraction(1, 2)),
    )


def test_a_shape_halves_with_each_tenth_of_the_range() -> None:
    small = dict(prior_in("small", LOW, HIGH).points)
    assert max(small, key=lambda at: small[at]) == 0
    assert small[Fraction(4, 5)] == Fraction(1, 4)
    assert min(small) == Fraction(-4, 5)
    assert max(small) == Fraction(28, 10)
    ages = dict(prior_in("small", Fraction(17), Fraction(90)).points)
    assert max(ages, key=lambda at: ages[at]) == 17  # the possible number nearest to 0
    assert dict(prior_in("middle", LOW, HIGH).points)[Fraction(1)] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("large", "small, middle, or POINT:WEIGHT with commas; item 0 is neither"),
        ("0:1,2", "item 1 is neither"),
        ("", "item 0 is neither"),
        ("4:1", r"point 0: expected a number in -1\.\.3, found 4"),
        ("x:1", "prior, point 0 expects a finite number"),
        ("0:inf", "prior, weight 0 expects a finite number"),
        ("0:0", "one above 0"),
        ("0:-1,1:2", "weights of 0 or more"),
        (",".join(["0:1"] * (MAX_POINTS + 1)), "1..1024 points, found 1025"),
    ],
)
def test_what_is_no_prior_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        prior_in(text, LOW, HIGH)


@pytest.mark.parametrize(
    ("settings", "aim"),
    [
        ({}, PopulationMean()),
        ({"objective": "minimax"}, PopulationMean()),
        ({"objective": "conditional"}, SampleMean()),
        ({"objective": "prior", "prior": "20:1"}, PriorMean(((Fraction(20), Fraction(1)),))),
    ],
)
def test_an_objective_is_an_aim_and_is_signed_as_text(
    settings: dict[str, str], aim: object
) -> None:
    entry = find("mean")
    learner = entry.build(SCHEMA, {"column": "age", **settings})
    (question,) = next(learner.run()).questions
    assert question.aim == aim
    text = entry.spell(learner, SCHEMA)
    assert text == {"column": "age", **settings}
    (again,) = next(entry.build(SCHEMA, text).run()).questions
    assert again == question


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "best"}, "expects minimax, conditional or prior, found 'best'"),
        ({"objective": "prior"}, "found one without the other"),
        ({"prior": "small"}, "found one without the other"),
        ({"objective": "prior", "prior": "100:1"}, r"expected a number in 17\.\.90"),
    ],
)
def test_what_is_no_objective_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        find("mean").build(SCHEMA, {"column": "age", **settings})


def test_a_predicate_has_no_objective() -> None:
    over = SCHEMA["age"] > 40
    assert mean(over, objective="minimax").parameters["objective"] == "minimax"
    with pytest.raises(InvalidQuery, match="PREDICATE question is for"):
        mean(over, objective="conditional")
    with pytest.raises(InvalidQuery, match="a prior is of a number"):
        mean(over, objective="prior", prior="small")
