"""Missing answers: a simulation reports them, their default, and rounds without any answer."""

import numpy as np
import pytest

from askance_aggregator.learners import difference, frequency, mean, principal_components, ranges
from askance_aggregator.queries import category, predicate
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Integer, Schema
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population

SCHEMA = Schema("people", 1, kind=Category("ab"), age=Integer(0, 100))
KINDS = ["a", "b", None, "b", "c"] * 40
PEOPLE = Population.from_columns(SCHEMA, {"kind": KINDS, "age": np.arange(200) % 90})


def notes(study: Study) -> tuple[str, ...]:
    return simulate(study, PEOPLE).notes


def test_who_has_no_valid_value_counts_as_the_default_and_that_is_said() -> None:
    said = "80 of 200 users have no valid value of kind and count as"
    assert notes(Study(frequency(SCHEMA.kind), SCHEMA, epsilon=1)) == (f"{said} 'a'",)
    other = frequency(category(SCHEMA.kind, default=1))
    assert notes(Study(other, SCHEMA, epsilon=1)) == (f"{said} 'b'",)
    share = mean(predicate(SCHEMA.kind == "a"))
    assert notes(Study(share, SCHEMA, epsilon=1)) == (f"{said} 'no'",)


def test_a_missing_value_that_is_in_no_cell_is_left_out() -> None:
    people = Population.from_columns(SCHEMA, {"kind": KINDS, "age": [None, 1, 2, 3] * 50})
    found = simulate(Study(ranges(SCHEMA, "age", steps=4), SCHEMA, epsilon=1), people).notes
    assert found == ("50 of 200 users have no valid value of age and are left out of its estimate",)


def test_users_without_a_value_are_left_out_of_a_difference() -> None:
    """The level for "missing" is a code of its questions, no value that they count as."""
    people = Population.from_columns(
        SCHEMA, {"kind": ["a", "b"] * 100, "age": [None, 1, 2, 3] * 50}
    )
    learner = difference(SCHEMA, "age", "kind")
    found = simulate(Study(learner, SCHEMA, epsilon=1), people).notes
    assert found == (
        "50 of 200 users have no valid value of age or kind and are left out of its estimate",
    )


def test_a_default_stands_beside_the_range_of_its_answers() -> None:
    """Numbers are scaled to [-1, 1], squares have more room: a bare 0 would be read as an age."""
    schema = Schema("two", 1, age=Integer(0, 9), pay=Integer(0, 9))
    people = Population.from_columns(
        schema, {"age": [None, 1, 2, 3] * 50, "pay": [1, 2, 3, 4] * 50}
    )
    learner = principal_components(schema, ["age", "pay"], components=1, missing="default")
    found = simulate(Study(learner, schema, epsilon=1), people).notes
    counted = "50 of 200 users have no valid value of age or pay and count as"
    where = "in every component that depends on it"
    assert found == (f"{counted} 0, the middle (its answers range from -2.0625 to 2.0625) {where}",)


def test_what_is_missing_counts_as_the_default_only_where_it_is_used() -> None:
    """A vector that is asked of all users keeps the components of the fields that are there."""
    schema = Schema("two", 1, age=Integer(0, 9), pay=Integer(0, 9))
    people = Population.from_columns(schema, {"age": [None, 9] * 1000, "pay": [9] * 2000})
    learner = principal_components(schema, ["age", "pay"], components=1, missing="default")
    age, pay = simulate(Study(learner, schema, epsilon=4), people).hypothesis.mean
    assert abs(age - 0.5) < 0.1
    assert abs(pay - 1) < 0.1


def test_where_nobody_lacks_anything_nothing_is_said() -> None:
    assert notes(Study(mean(SCHEMA.age), SCHEMA, epsilon=1)) == ()


def test_a_study_of_another_schema_is_refused_before_anybody_is_asked() -> None:
    other = Schema("people", 2, age=Integer(0, 100))
    with pytest.raises(InvalidParameter, match="expected the schema of the population"):
        simulate(Study(mean(other.age), other, epsilon=1), PEOPLE)
