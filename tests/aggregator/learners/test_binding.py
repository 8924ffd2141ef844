"""Learners that name columns, before they have the schema of the records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from askance_aggregator import learners
from askance_aggregator.learners import (
    Learner,
    LearnerEntry,
    Unbound,
    adaptive,
    correlation,
    difference,
    frequency,
    k_means,
    mean,
    naive_bayes,
)
from askance_aggregator.learners.parameters import declared
from askance_aggregator.oracles import CentreOracle, CheckedOracle, ExactOracle, LazyOracle, learn
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Integer, Label, Real, Schema

PEOPLE = Schema(
    "people",
    1,
    age=Integer(0, 120),
    income=Real(0, 1000),
    sex=Category(["female", "male"]),
    paid=Bit(),
    class_=Label(["high", "low"]),
)
LEARNERS: Any = learners  # where a type checker would find the mistake
STUDY: Any = Study
LEARN: Any = learn
ENTRIES = {
    entry.name: entry
    for entry in learners.learners()
    if entry.function.__module__.startswith("askance_aggregator.")
}


def texts_of(entry: LearnerEntry, built: Learner[Any], schema: Schema) -> dict[str, str]:
    """Return texts for the parameters: small ones, and a column where one is needed."""
    own = {one.entry.name: one for one in declared(entry.function)}
    given = {key: text for key, text in entry.small.oracles.items() if key in own}
    column = next(iter(schema.fields))
    return {
        **{
            key: built.parameters.get(key, column)
            for key, one in own.items()
            if one.is_needed and key not in given
        },
        **given,
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_every_learner_is_called_with_its_schema_first_or_without(name: str) -> None:
    """Both styles make the learner that the command line makes of the same texts."""
    entry = ENTRIES[name]
    known = {one.name for one in entry.parameters}
    shape = {key: text for key, text in entry.small.oracles.items() if key in known}
    built = entry.build(None, shape)
    assert built.schema is not None
    texts = texts_of(entry, built, built.schema)
    public: Callable[..., Learner[Any]] = getattr(learners, entry.function.__name__)
    later = public(**texts)
    assert isinstance(later, Unbound)
    assert (later.name, later.version, later.schema) == (name, built.version, None)
    for made in (later.bound(built.schema), public(built.schema, **texts)):
        assert made.schema is built.schema
        assert (made.name, made.version, made.parameters) == (name, built.version, built.parameters)


@pytest.mark.parametrize(
    ("later", "now"),
    [
        (frequency("sex"), frequency(PEOPLE.sex)),
        (frequency(column="sex", tau="1/10"), frequency(PEOPLE.sex, "1/10")),
        (LEARNERS.frequency(query="sex"), frequency(PEOPLE, "sex")),
        (mean("age"), mean(PEOPLE.age)),
        (mean("income", missing="default"), mean(PEOPLE.income, missing="default")),
        (difference("income", by="sex"), difference(PEOPLE, "income", "sex")),
        (difference("paid", "sex", first="male", second="female"),
         LEARNERS.difference(schema=PEOPLE, column="paid", group="sex", first="male",
                             second="female")),
        (naive_bayes(columns=["age"], bins=4), naive_bayes(PEOPLE, "class_", ["age"], 4)),
        (naive_bayes("class_", "age, sex"), naive_bayes(PEOPLE, "class_", ("age", "sex"))),
        (correlation(["age", "income"]), correlation(PEOPLE, ["age", "income"])),
        (k_means(2, columns=["age"]), k_means(PEOPLE, 2, ["age"])),
    ],
)  # fmt: skip
def test_a_learner_by_names_asks_what_it_asks_with_its_schema(
    later: Learner[Any], now: Learner[Any]
) -> None:
    bound = Study(later, PEOPLE, epsilon=1).learner
    asked = [next(made.run()).questions for made in (bound, now)]
    assert [one.query.canonical for one in asked[0]] == [one.query.canonical for one in asked[1]]
    ignored = "label"  # a label that is not named is found, and not recorded
    assert {key: text for key, text in bound.parameters.items() if key != ignored} == {
        key: text for key, text in now.parameters.items() if key != ignored
    }


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: LEARNERS.difference("age", sex="f"),
     "difference: expected one of the parameters column, by, first, second, tau, present,"
     " got sex='f'"),
    (lambda: LEARNERS.frequency("sex", tua="1/10"),
     "frequency: expected one of the parameters query, tau, got tua='1/10' (did you mean tau?)"),
    (lambda: LEARNERS.difference("age"),
     "difference: by: expected the category or bit that groups users (default: the only label or"
     " the first category), got none"),
    (lambda: LEARNERS.difference(3, "sex"), "difference: column: expected a column's name, got 3"),
    (lambda: LEARNERS.difference("age", PEOPLE),
     "difference: by: expected a column's name, got Schema('people', 1, age=Integer"),
    (lambda: LEARNERS.difference("age", "sex", group="paid"),
     "difference: group: expected one value, got 'sex' and 'paid'"),
    (lambda: LEARNERS.frequency(["sex"]),
     "frequency: column: expected a column's name or an expression, got ['sex']"),
    (lambda: LEARNERS.frequency(schema="people", query="sex"),
     "frequency: schema: expected a schema, got 'people'"),
    (lambda: LEARNERS.frequency(),
     "frequency: column: expected the category (default: the label, or the only one), got none"),
    (lambda: LEARNERS.frequency("sex", "1/10", "1/20"),
     "frequency: expected at most 2 arguments in order (query, tau), got '1/20' besides"),
    (lambda: LEARNERS.frequency("sex", "often"),
     "frequency: tau expects a finite number, got 'often'"),
    (lambda: LEARNERS.k_means("age", 3), "k-means: k expects a whole number, got 'age'"),
    (lambda: LEARNERS.naive_bayes(["age"], "class_"),
     "naive-bayes: label: expected a column's name, got ['age']"),
    (lambda: LEARNERS.naive_bayes("class_", 4),
     "naive-bayes: columns: expected a list of columns' names, got 4"),
    (lambda: LEARNERS.mean("age", missing="drop"),
     "mean: missing: expected one of exclude, default, got 'drop'"),
    (lambda: Study(LEARNERS.difference("sex", by="age"), PEOPLE, epsilon=1),
     "difference: column: expected a number or a bit, got 'sex', a category (try age, income,"
     " paid); are column and by swapped?"),
    (lambda: LEARNERS.difference(PEOPLE, "sex", "age"),
     "difference: column: expected a number or a bit, got 'sex', a category (try age, income,"
     " paid); are column and by swapped?"),
    (lambda: Study(LEARNERS.difference("age", by="income"), PEOPLE, epsilon=1),
     "difference: group: expected a category or a bit, got 'income', a number (try sex, paid,"
     " class_)"),
    (lambda: Study(LEARNERS.frequency("age"), PEOPLE, epsilon=1),
     "frequency: column: expected a category, got 'age', a whole number (try sex, class_)"),
    (lambda: Study(LEARNERS.frequency("sexx"), PEOPLE, epsilon=1),
     "frequency: column: expected one of the fields sex, class_, got 'sexx' (did you mean sex?)"),
    (lambda: Study(LEARNERS.frequency("sex"), epsilon=1).fields,
     "study: expected a schema, got none for frequency"),
    (lambda: STUDY(PEOPLE, LEARNERS.frequency("sex"), epsilon=1),
     "study: learner: expected a learner, got Schema('people', 1, age=Integer"),
    (lambda: learn(frequency("sex"), ExactOracle(Schema("other", 1, age=Bit()), {"age": [1]})),
     "frequency: column: expected a field of a fitting type, of which there is none, got 'sex'"),
    (lambda: LEARN(ExactOracle(PEOPLE, {"age": [1]}), LEARNERS.mean("age")),
     "learn: learner: expected a learner, got"),
    (lambda: LEARNERS.frequency("sex").run(),
     "frequency('sex'): expected the schema of the records, got none"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_a_mistake_is_told_in_a_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidParameter) as found:
        call()
    assert str(found.value).startswith(message)
    assert "\n" not in str(found.value)


def test_a_column_is_called_by_its_own_name() -> None:
    schema = Schema("flowers", sepal_length__cm_=Real(0, 9), kind=Category(["a", "b"]))
    for made in (
        naive_bayes("kind", ["sepal length (cm)"]),
        naive_bayes("kind", '"sepal length (cm)"'),
        naive_bayes("kind", "sepal length (cm)"),
    ):
        assert made.bound(schema).parameters["columns"] == "sepal_length__cm_"
    assert difference("sepal length (cm)", by="kind").bound(schema).parameters == (
        difference(schema, "sepal_length__cm_", "kind").parameters
    )


def test_an_oracle_binds_a_learner_to_its_schema() -> None:
    truth = ExactOracle(PEOPLE, {"age": [20, 40, 60], "sex": ["female", "male", "male"]})
    assert learn(mean("age"), truth).estimate == 40
    assert learn(mean("age"), CheckedOracle(truth)).estimate == 40
    lazy = LazyOracle(truth, CentreOracle())
    assert learn(frequency("sex"), lazy).cells == ("female", "male")


class Blind:
    """Oracle that knows no schema."""

    def __init__(self) -> None:
        self.answer = ExactOracle(PEOPLE, {"age": [20, 40, 60]}).answer


def test_an_oracle_without_a_schema_is_given_one() -> None:
    assert learn(mean("age"), Blind(), PEOPLE).estimate == 40
    with pytest.raises(InvalidParameter, match=r"mean\('age'\): expected the schema"):
        learn(mean("age"), Blind())


@pytest.mark.parametrize("schema", [None, PEOPLE])
def test_a_learner_of_other_labels_is_refused(schema: Schema | None) -> None:
    """Every share would be that of another label."""
    others = Schema("people", sex=Category(["male", "female"]))
    made = frequency("sex") if schema else frequency(PEOPLE, "sex")
    with pytest.raises(
        InvalidParameter, match="expected fields as the oracle's schema has them, got 'sex'"
    ):
        learn(made, ExactOracle(others, {"sex": ["male", "male"]}), schema)


def test_a_learner_outside_the_catalogue_takes_what_its_function_takes() -> None:
    @adaptive("own")
    def own(schema: Schema, text: str) -> Any:
        yield learners.Batch([])

    assert own(PEOPLE, "any, text").parameters == {"text": "any, text"}
