"""The estimators run the studies that they say, and give what a study gives."""

from __future__ import annotations

import pickle
from typing import Any, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import askance as ask
from askance.estimators import (
    LocalDecisionTree,
    LocalHistogram,
    LocalKMeans,
    LocalLinearRegression,
    LocalLogisticRegression,
    LocalNaiveBayes,
    LocalPCA,
)
from askance_aggregator.studies.study import Epsilon
from askance_client.errors import InvalidParameter, InvalidRecord, PlanRefused

USERS = 6_000


def examples() -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(5)
    rows = random.normal(size=(USERS, 3))
    return rows, np.where(rows[:, 0] > 0, "yes", "no")


@pytest.mark.parametrize(
    "kind",
    [
        LocalDecisionTree,
        LocalHistogram,
        LocalKMeans,
        LocalLinearRegression,
        LocalLogisticRegression,
        LocalNaiveBayes,
        LocalPCA,
    ],
)
def test_the_types_of_all_parameters_can_be_read(kind: Any) -> None:
    types = get_type_hints(kind.__init__)
    assert types["epsilon"] == Epsilon
    assert types["schema"] == ask.Schema | None
    assert types.keys() - {"return"} == kind().get_params().keys()


@pytest.mark.parametrize(
    "kind",
    [
        LocalNaiveBayes,
        pytest.param(LocalLogisticRegression, marks=pytest.mark.slow),
        LocalDecisionTree,
    ],
)
def test_a_classifier_learns_a_label_of_texts_and_spends_no_more_than_its_epsilon(
    kind: Any,
) -> None:
    rows, label = examples()
    model = kind(epsilon=8, random_state=0).fit(rows, label)
    assert model.score(rows, label) > 0.85
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict_proba(rows[:5]).shape == (5, 2)
    likely = model.classes_[model.predict_proba(rows[:50]).argmax(axis=1)]
    assert (likely == model.predict(rows[:50])).all()
    assert model.n_users_ == USERS
    assert 0 < model.epsilon_spent_ <= 8
    assert "bounds and labels were inferred from the data file" in model.notes_


def test_one_random_state_gives_one_transcript_and_another_gives_another() -> None:
    rows, label = examples()
    first, again, other = (
        LocalNaiveBayes(epsilon=2, random_state=state).fit(rows, label) for state in (0, 0, 1)
    )
    assert first.study_.transcript.digest == again.study_.transcript.digest
    assert first.study_.transcript.digest != other.study_.transcript.digest


def test_a_grid_of_numpys_numbers_is_searched() -> None:
    rows, label = examples()
    grid = {"epsilon": np.logspace(0, 1, 2), "bins": np.arange(4, 6)}
    search = GridSearchCV(LocalNaiveBayes(random_state=0), grid, cv=2, error_score="raise")
    search.fit(rows, label)
    assert search.best_params_["epsilon"] == 10


def test_a_frame_keeps_the_names_and_kinds_of_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    rows, label = examples()
    frame = pandas.DataFrame(
        {"hours-per-week": rows[:, 0], "town": np.where(rows[:, 1] > 0, "Graz", "Linz")}
    )
    model = LocalNaiveBayes(epsilon=8, random_state=0).fit(frame, label)
    assert list(model.feature_names_in_) == ["hours-per-week", "town"]
    assert list(model.study_.study.schema.fields) == ["hours_per_week", "town", "label"]
    assert isinstance(model.study_.study.schema.fields["town"], ask.Category)
    assert model.score(frame, label) > 0.85


@pytest.mark.parametrize(
    ("library", "column", "expected"),
    [
        ("pandas", "pandas.array(['a', 'b', 'b', None] * 20, dtype='string')", "Category"),
        ("pandas", "pandas.array([True, False, True, None] * 20, dtype='boolean')", "Bit"),
        ("pandas", "pandas.array([1, 2, 3, None] * 20, dtype='Int64')", "Integer"),
        ("pandas", "pandas.cut(pandas.Series([1, 2] * 40), [0, 1, 2])", "Category"),
        ("pandas", "pandas.to_datetime(['2024-01-01', '2024-01-02'] * 40)", "Category"),
        ("pandas", "pandas.to_timedelta([1, 2] * 40, unit='s')", "Timedelta"),
        ("pandas", "[['Jane Roe']] * 80", "list"),
        ("polars", "polars.Series([1, 2] * 40, dtype=polars.Int128)", "Integer"),
        ("polars", "[{'name': 'Jane Roe'}] * 80", "dict"),
        ("pyarrow", "['a', 'b', 'b', None] * 20", "Category"),
        ("pyarrow", "[b'Jane Roe'] * 80", "bytes"),
    ],
)
def test_an_odd_column_is_learned_from_or_refused_in_a_line(
    library: str, column: str, expected: str
) -> None:
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    frame = make({"odd": eval(column, {library: module}), "n": [1, 2] * 40})
    model = LocalNaiveBayes(epsilon=20, bins=2, random_state=0)
    if expected[0].islower() or expected == "Timedelta":
        refusal = f"in 'odd', got values of the type {expected}$"
        with pytest.raises(InvalidParameter, match=refusal):
            model.fit(frame, ["n", "y"] * 40)
        return
    model.fit(frame, ["n", "y"] * 40)
    assert type(model.study_.study.schema.fields["odd"]).__name__ == expected
    assert model.predict(frame).shape == (80,)


def test_a_stated_schema_is_kept_and_names_what_is_predicted() -> None:
    rows, label = examples()
    schema = ask.Schema(
        "stated", 1, **{name: ask.Real(-5, 5) for name in ("x0", "x1", "x2")},
        answer=ask.Label(["no", "yes"]),
    )  # fmt: skip
    model = LocalNaiveBayes(epsilon=8, schema=schema, random_state=0).fit(rows, label)
    assert model.model_.label == "answer"
    assert not [note for note in model.notes_ if "inferred" in note]
    assert model.score(rows, label) > 0.85


def test_a_schema_that_leaves_the_outcome_open_is_refused() -> None:
    rows, label = examples()
    schema = ask.Schema("stated", 1, **{name: ask.Real(-5, 5) for name in ("x0", "x1", "x2")})
    with pytest.raises(InvalidParameter, match="the one to be predicted"):
        LocalNaiveBayes(schema=schema).fit(rows, label)


def test_missing_numbers_are_no_error_and_infinities_are() -> None:
    rows, label = examples()
    rows[::50, 1] = np.nan
    model = LocalNaiveBayes(epsilon=8, random_state=0).fit(rows, label)
    assert model.predict(rows[:100]).shape == (100,)
    rows[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        LocalNaiveBayes(epsilon=8).fit(rows, label)


def test_too_few_rows_are_refused_before_any_device_is_asked() -> None:
    rows, _ = examples()
    with pytest.raises(PlanRefused, match="users"):
        LocalKMeans(2, epsilon=1).fit(rows[:3])


def test_regression_predicts_in_the_outcomes_own_units() -> None:
    rows, _ = examples()
    outcome = 100 + 10 * rows[:, 0] - 5 * rows[:, 1]
    model = LocalLinearRegression(epsilon=8, random_state=0).fit(rows, outcome)
    assert model.score(rows, outcome) > 0.9
    assert model.coef_[0] == pytest.approx(10, abs=3)
    assert model.intercept_ == pytest.approx(100, abs=10)


def test_clusters_components_and_pipelines() -> None:
    rows, label = examples()
    rows[:, 0] += np.where(label == "yes", 8, -8)
    clusters = LocalKMeans(2, epsilon=8, random_state=0).fit(rows)
    apart = clusters.predict(rows) == clusters.predict(rows[label == "yes"])[0]
    assert (apart == (label == "yes")).mean() > 0.95
    assert clusters.n_iter_ >= 1
    model = make_pipeline(LocalPCA(2, epsilon=8, random_state=0), LocalNaiveBayes(epsilon=8))
    assert model.fit(rows, label).score(rows, label) > 0.9


def test_shares_are_those_of_the_rows_within_their_intervals() -> None:
    _, label = examples()
    model = LocalHistogram(epsilon=2, random_state=0).fit(label.reshape(-1, 1) == "yes")
    (shares,), (intervals,) = model.shares_, model.intervals_
    assert shares.sum() == pytest.approx(1, abs=0.1)
    truth = (label == "yes").mean()
    assert any(low <= truth <= high for low, high in intervals)


def test_clones_cross_validation_and_pickles_work() -> None:
    rows, label = examples()
    model = clone(LocalNaiveBayes(epsilon=8, bins=4, random_state=3))
    assert model.get_params() == {"epsilon": 8, "bins": 4, "random_state": 3, "schema": None}
    assert cross_val_score(model, rows, label, cv=2).min() > 0.8
    fitted = model.fit(rows, label)
    read = pickle.loads(pickle.dumps(fitted))
    assert (read.predict(rows[:20]) == fitted.predict(rows[:20])).all()
    assert read.epsilon_spent_ == fitted.epsilon_spent_


def test_labels_of_the_schema_that_no_row_has_are_classes() -> None:
    numbers = examples()[0][:, :2]
    wanted = np.where(numbers[:, 0] > 0, 7, 5)
    fields = {"x0": ask.Real(-4, 4, 16), "x1": ask.Real(-4, 4, 16)}
    schema = ask.Schema.of("points", 1, {**fields, "label": ask.Label(("5", "6", "7"))})
    model = LocalNaiveBayes(epsilon=4, schema=schema, random_state=0).fit(numbers, wanted)
    assert model.classes_.tolist() == [5, 6, 7]
    assert model.predict_proba(numbers).sum(axis=1) == pytest.approx(1)
    assert set(model.predict(numbers).tolist()) <= {5, 6, 7}


def test_classes_that_the_schema_does_not_know_or_that_read_as_missing_are_refused() -> None:
    numbers = examples()[0][:, :2]
    wanted = np.arange(len(numbers)) % 3
    fields = {"x0": ask.Real(-4, 4, 16), "x1": ask.Real(-4, 4, 16)}
    schema = ask.Schema.of("points", 1, {**fields, "label": ask.Label(("0", "1"))})
    with pytest.raises(InvalidParameter, match=r"labels of the schema.*'2'"):
        LocalNaiveBayes(epsilon=4, schema=schema).fit(numbers, wanted)
    named = np.array(["EU", "NA", "US"])[wanted]
    with pytest.raises(InvalidParameter, match="missing, got 'NA'"):
        LocalNaiveBayes(epsilon=4).fit(numbers, named)
    other = ask.Schema.of("points", 1, {**fields, "label": ask.Label(("0", "1", "2", "many"))})
    with pytest.raises(InvalidParameter, match="a type that holds"):
        LocalNaiveBayes(epsilon=4, schema=other).fit(numbers, wanted)


def test_one_outcome_in_all_rows_is_refused_where_bounds_are_inferred() -> None:
    numbers = examples()[0][:, :2]
    with pytest.raises(ValueError, match="two different outcomes"):
        LocalLinearRegression(epsilon=4).fit(numbers, np.ones(len(numbers)))


def test_values_outside_a_stated_schema_are_noted_and_most_of_them_refused() -> None:
    rows, label = examples()
    fields = {name: ask.Real(-5, 5) for name in ("x1", "x2")}
    answer = ask.Label(["no", "yes"])
    narrow = ask.Schema("narrow", 1, x0=ask.Real(-1, 5), **fields, answer=answer)
    model = LocalNaiveBayes(epsilon=8, schema=narrow, random_state=0).fit(rows, label)
    assert [note for note in model.notes_ if "x0" in note]
    far = ask.Schema("far", 1, x0=ask.Real(50, 60), **fields, answer=answer)
    with pytest.raises(InvalidRecord, match="x0"):
        LocalNaiveBayes(epsilon=8, schema=far).fit(rows, label)


@pytest.mark.parametrize(
    ("model", "outcome", "told"),
    [
        (LocalNaiveBayes(epsilon=0.1, random_state=0), "label", "guessing 37 %"),
        (LocalDecisionTree(epsilon=0.1, random_state=0), "label", "37 % of the labels are wrong"),
        (LocalLinearRegression(epsilon=0.1, random_state=0), "number", "guessing 0.00"),
        (LocalKMeans(2, epsilon=0.1, max_iter=1, random_state=0), "number", "guessing 1"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_what_is_no_better_than_a_constant_is_told_in_a_sentence(
    model: Any, outcome: str, told: str
) -> None:
    """63 of 100 labels are "no" and say nothing of the columns, as the number does."""
    random = np.random.default_rng(3)
    rows, number = random.normal(size=(300, 2)), random.normal(size=300)
    label = np.array((["no"] * 63 + ["yes"] * 37) * 3)
    begun = f"{type(model).__name__}: No better than guessing"
    with pytest.warns(UserWarning, match=f"^{begun}") as seen:
        model.fit(rows, label if outcome == "label" else number)
    (text,) = [str(one.message) for one in seen]
    assert told in text
    assert text.endswith("(the 300 rows of the fit, epsilon 0.1)")
    assert text.removeprefix(f"{type(model).__name__}: ") in model.notes_


@pytest.mark.filterwarnings("error::UserWarning")
def test_what_is_better_than_a_constant_is_not_warned_of() -> None:
    rows, label = examples()
    LocalNaiveBayes(epsilon=8, random_state=0).fit(rows, label)
    LocalHistogram(epsilon=8, random_state=0).fit(rows)
    LocalLinearRegression(epsilon=16, rounds=2, random_state=0).fit(rows, rows[:, 0])


def test_an_outcome_of_names_is_refused_without_a_name() -> None:
    names = np.array([f"Jane Roe {row}" for row in range(20)])
    with pytest.raises(
        InvalidParameter, match=r"y: expected numbers, got values that are none \(ValueError\)"
    ):
        LocalLinearRegression(epsilon=1).fit(np.arange(20.0).reshape(20, 1), names)


def test_columns_whose_names_become_one_field_are_two() -> None:
    pandas = pytest.importorskip("pandas")
    rows, label = examples()
    frame = pandas.DataFrame({"a b": rows[:, 0], "a_b": rows[:, 1]})
    model = LocalNaiveBayes(epsilon=8, random_state=0).fit(frame, label)
    assert model.score(frame, label) > 0.85
    swapped = frame.assign(**{"a b": rows[:, 1], "a_b": rows[:, 0]})
    assert model.score(swapped, label) < 0.65
    twice = frame.set_axis(["a", "a"], axis=1)
    with pytest.raises(InvalidParameter, match="expected distinct column names, got 'a' twice"):
        LocalNaiveBayes(epsilon=8).fit(twice, label)
