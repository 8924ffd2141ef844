"""The catalogue: learners by name and text, with and without data."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from askance_aggregator.learners import (
    Learner,
    LearnerEntry,
    conjunctions_schema,
    decision_lists,
    find,
    frequency,
    labelled_bits_schema,
    learners,
    linear_regression,
    marginals,
    masked_parity_schema,
    mean,
    naive_bayes,
    principal_components,
    quantiles,
    register,
    ridge_regression,
)
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Integer, Label, Real, Schema
from askance_client.queries.categories import cell_names

PEOPLE = Schema(
    "people",
    1,
    age=Integer(17, 90),
    education=Category(["a", "b", "c"]),
    income=Label(["low", "high"]),
)


def test_the_catalogue_names_its_learners_and_what_their_error_measures() -> None:
    names = [entry.name for entry in learners()]
    assert {"conjunctions", "frequency", "masked-parity", "mean"} <= set(names)
    assert names == sorted(names)
    assert all(entry.summary and entry.error for entry in learners())


@pytest.mark.parametrize("entry", learners(), ids=lambda entry: str(entry.name))
def test_every_learner_can_be_built_without_data_and_has_a_schema(entry: LearnerEntry) -> None:
    learner = entry.build()
    assert learner.name == entry.name
    assert learner.schema is not None
    batch = next(learner.run())
    assert all(
        question.query.fields_used <= set(learner.schema.fields) for question in batch.questions
    )


def test_parameters_are_text() -> None:
    parity = find("masked-parity").build(None, {"d": "16", "variant": "printed"})
    assert len(next(parity.run()).questions) == 16
    histogram = find("frequency").build(None, {"cells": "5", "tau": "0.1"})
    assert next(histogram.run()).questions[0].values == 5
    assert histogram.parameters["tau"] == "0.1"


def test_a_schema_is_taken_as_it_is() -> None:
    schema = masked_parity_schema(4)
    assert find("masked-parity").build(schema).schema is schema
    assert find("conjunctions").build(conjunctions_schema(5)).schema.fields["x"].width == 5  # type: ignore[union-attr]  # Bits, and a schema
    with pytest.raises(InvalidParameter, match="different records"):
        find("masked-parity").build(schema, {"d": "8"})
    with pytest.raises(InvalidParameter, match="different records"):
        find("conjunctions").build(conjunctions_schema(5), {"d": "8"})


def test_a_frequency_is_of_the_field_named_or_of_the_label() -> None:
    entry = find("frequency")
    default = next(entry.build(PEOPLE).run()).questions[0]
    named = next(entry.build(PEOPLE, {"column": "education"}).run()).questions[0]
    assert cell_names(default.query) == ("low", "high")
    assert cell_names(named.query) == ("a", "b", "c")
    with pytest.raises(
        InvalidParameter,
        match="column: expected a category, got 'age', a whole number",
    ):
        entry.build(PEOPLE, {"column": "age"})
    two = Schema("two", 1, one=Category("ab"), two=Category("ab"))
    with pytest.raises(
        InvalidParameter, match="column: expected one of the fields one, two, got none"
    ):
        entry.build(two)
    with pytest.raises(InvalidParameter, match="without data"):
        entry.build(PEOPLE, {"cells": "3"})


def test_a_mean_is_of_the_only_number() -> None:
    question = next(find("mean").build(PEOPLE).run()).questions[0]
    assert question.query.fields_used == {"age"}
    low, high = next(find("mean").build().run()).questions[0].bounds
    assert low == -1
    assert high == 1
    bits = next(find("mean").build(Schema("s", 1, b=Bit())).run()).questions[0]
    assert bits.over_present
    assert list(bits.bounds) == [0, 1]
    with pytest.raises(InvalidParameter, match="one of the fields x, y, got none"):
        find("mean").build(Schema("s", 1, x=Real(0, 1), y=Real(0, 1)))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "masked-parity",
            {"dd": "8"},
            r"no parameter 'dd' \(did you mean d\?\); it has d, variant",
        ),
        ("masked-parity", {"d": "x"}, "d expects a whole number"),
        ("masked-parity", {"d": "1"}, r"d: expected a whole number in 2\.\.1024, got 1"),
        ("frequency", {"cells": "1"}, "cells: expected a whole number in 2..1048576"),
        ("mean", {"tau": "x"}, "tau expects a finite number"),
        ("mean", {"tau": "0"}, "tau expects a positive number"),
        ("conjunctions", {"accuracy": "2"}, "accuracy expects"),
        ("disjunctions", {"d": "x"}, "d expects a whole number"),
        ("naive-bayes", {"columns": "age,weight"}, "expected one of the fields age"),
        ("naive-bayes", {"bins": "many"}, "bins expects a whole number"),
        ("quantiles", {"levels": "1/2,half"}, "levels expects a finite number"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        find(name).build(None, parameters)


@pytest.mark.parametrize("cells", [65_536, 65_537, 1 << 20])
def test_shares_are_planned_for_as_many_cells_as_a_question_has(cells: int) -> None:
    found = find("frequency").build(None, {"cells": str(cells)})
    (question,) = next(found.run()).questions
    assert question.query.cells == cells
    assert Study(found, epsilon=1).plan(10**7).rounds[0].users == 10**7


@pytest.mark.parametrize(
    ("learner", "schema", "text"),
    [
        (frequency(PEOPLE["education"]), PEOPLE, {"column": "education"}),
        (frequency(PEOPLE["income"], "1/20"), PEOPLE, {"column": "income", "tau": "1/20"}),
        (find("frequency").build(PEOPLE), PEOPLE, {"column": "income"}),
        (mean(PEOPLE["age"], 0.5), PEOPLE, {"column": "age", "tau": "1/2"}),
        (
            find("masked-parity").build(None, {"d": "4", "variant": "printed"}),
            masked_parity_schema(4),
            {"variant": "printed"},
        ),
        (find("conjunctions").build(), conjunctions_schema(8), {"accuracy": "1/10"}),
        (
            decision_lists(labelled_bits_schema(4), 0.05, 3),
            labelled_bits_schema(4),
            {"accuracy": "1/20", "length": "3"},
        ),
        (
            naive_bayes(PEOPLE, columns=("age", "education"), tau=0.1),
            PEOPLE,
            {"columns": "age,education", "bins": "8", "tau": "1/10"},
        ),
        (
            ridge_regression(PEOPLE, "age", ["education"], 0.5),
            PEOPLE,
            {"target": "age", "columns": "education", "penalty": "1/2"},
        ),
        (linear_regression(PEOPLE), PEOPLE, {}),
        (principal_components(PEOPLE, components=1), PEOPLE, {"components": "1"}),
        (marginals(PEOPLE, way=3), PEOPLE, {"way": "3", "bins": "4"}),
        (
            quantiles(PEOPLE, "age", ["3/4", "0.25"], tau="1/20"),
            PEOPLE,
            {"column": "age", "levels": "1/4,3/4", "steps": "64", "tau": "1/20"},
        ),
    ],
    ids=lambda item: item.name if isinstance(item, Learner) else "",
)
def test_a_learner_is_built_again_from_its_text(
    learner: Learner[Any], schema: Schema, text: dict[str, str]
) -> None:
    entry = find(learner.name)
    assert entry.spell(learner, schema) == text
    again = entry.build(schema, text)
    assert (again.name, again.version) == (learner.name, learner.version)
    assert [question.query.canonical for question in next(again.run()).questions] == [
        question.query.canonical for question in next(learner.run()).questions
    ]


def test_a_query_that_is_no_column_has_no_text() -> None:
    expected = "that column, tau, objective, prior, missing, present and the schema"
    with pytest.raises(InvalidParameter, match=expected):
        find("mean").spell(mean(PEOPLE["age"] > 40), PEOPLE)


def test_names_are_found_and_taken_once() -> None:
    with pytest.raises(
        InvalidParameter, match="no learner 'nobody'; there are association, conjunctions"
    ):
        find("nobody")
    with pytest.raises(InvalidParameter, match="registered already"):
        register(replace(find("mean"), summary="another"))


def test_an_entry_is_sent_to_another_process_by_its_function() -> None:
    """A function that the decorated one shadows lost its annotations on the way."""
    for entry in learners():
        sent = pickle.loads(pickle.dumps(entry))
        assert sent == entry
        assert sent.function is entry.function
