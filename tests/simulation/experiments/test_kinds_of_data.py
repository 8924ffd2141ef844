"""Kinds of data sets, each with a question and what the result, or the refusal, says of it.

Rows are those that ship with scikit-learn, or are written anew by a rule that is stated. True
values are counted by hand from that rule, or are the published ones of the data set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # has no stubs here
import pytest

import askance as ask

datasets = pytest.importorskip("sklearn.datasets")


def rows(count: int = 1200, **columns: list[Any]) -> Callable[[], pd.DataFrame]:
    """Return the maker of a frame whose columns repeat their values."""
    return lambda: pd.DataFrame(
        {name: (values * count)[:count] for name, values in columns.items()}
    )


def shipped(name: str, target: str) -> Callable[[], pd.DataFrame]:
    """Return the maker of a data set of scikit-learn, its target under a name."""

    def make() -> pd.DataFrame:
        found = getattr(datasets, f"load_{name}")(as_frame=True)
        return found.frame.rename(columns={"target": target})

    return make


def species() -> pd.DataFrame:
    iris = datasets.load_iris(as_frame=True)
    return iris.data.assign(species=[iris.target_names[place] for place in iris.target])


def scattered(count: int, law: Callable[[np.random.Generator, int], dict[str, Any]]) -> Any:
    """Return the maker of a frame that is drawn by a law."""
    return lambda: pd.DataFrame(law(np.random.default_rng(5), count))


@dataclass(frozen=True)
class Kind:
    """A data set, the question, and pieces of the text that answers it."""

    frame: Callable[[], pd.DataFrame]
    learner: str
    settings: dict[str, Any]
    says: tuple[str, ...]
    epsilon: float = 4.0
    read: dict[str, Any] = field(default_factory=dict)
    never: tuple[str, ...] = ()


HELD = "contain the true value."
INFERRED = "note: bounds and labels were inferred from the data file"
TOWNS = ["a", "b"]
OTHER_HALF = {"label": "risk", "held_out": "1/5"}


def ages(generator: np.random.Generator, count: int) -> dict[str, Any]:
    """Draw ages, of which those from 55 on are at risk, and a label that is noise."""
    age = generator.integers(18, 90, count)
    smokes = generator.choice(["yes", "no"], count)
    return {"age": age, "smokes": smokes, "risk": np.where(age > 54, "high", "low")}


def incomes(generator: np.random.Generator, count: int) -> dict[str, Any]:
    """Draw incomes of 20,000 on average, and one of a million."""
    return {"income": np.append(generator.exponential(2e4, count - 1).round() + 100, 1e6)}


SHIPPED: dict[str, Kind] = {
    "three classes of 50 rows, epsilon 1": Kind(
        species,
        "frequency",
        {"column": "species"},
        (
            "frequency of species, 150 users, epsilon 1",
            "true 33 %",
            f"All 3 intervals (95 %, joint) {HELD} No better than guessing at this size: a constant"
            " guess lies in the intervals, too",
        ),
        epsilon=1,
    ),
    "a measurement whose name has spaces and brackets": Kind(
        species,
        "mean",
        {"column": "sepal length (cm)"},
        ("mean of sepal length (cm), 150 users", "true 5.84", "; of a constant guess 0."),
    ),
    "classes that are numbers": Kind(
        shipped("wine", "cultivar"),
        "frequency",
        {"column": "cultivar"},
        (
            "true 39.9 %",
            "true 33.1 %",
            "true 27.0 %",
            "note: the column cultivar is read as 3 labels, because the question needs a category",
        ),
    ),
    "an outcome of 0 and 1": Kind(
        shipped("breast_cancer", "benign"),
        "mean",
        {"column": "benign"},
        ("mean of benign, 569 users", "true 0.627", "; of a constant guess 0.127."),
    ),
    "a score": Kind(
        shipped("diabetes", "progression"),
        "mean",
        {"column": "progression"},
        ("mean of progression, 442 users", "true 152", "The interval (95 %) contains"),
    ),
    "ten classes of about 180 rows": Kind(
        shipped("digits", "digit"),
        "frequency",
        {"column": "digit"},
        ("frequency of digit, 1,797 users", f"All 10 intervals (95 %, joint) {HELD}"),
    ),
    "20 rows": Kind(
        lambda: datasets.load_linnerud(as_frame=True).frame,
        "mean",
        {"column": "Weight"},
        (
            "true 179",
            "Nothing was learned: the interval is as wide as before any user was asked",
            "What would help, by the planner: ",
        ),
        epsilon=1,
    ),
}

ODD: dict[str, Kind] = {
    "69 rows": Kind(
        rows(69, c=["a", "b", "c"]),
        "frequency",
        {"column": "c"},
        ("frequency of c, 69 users, epsilon 1", "true 33 %", "No better than guessing"),
        epsilon=1,
    ),
    "a column of identifiers beside the one that is asked": Kind(
        rows(id=[f"p{place}" for place in range(1200)], town=TOWNS),
        "frequency",
        {"column": "town"},
        (
            f"Both intervals (95 %, joint) {HELD}",
            "note: the column id is left out: nearly all of its values differ, as of an identifier",
        ),
    ),
    "the column of identifiers itself": Kind(
        rows(id=[f"p{place}" for place in range(1200)], town=TOWNS),
        "frequency",
        {"column": "id"},
        (
            "refused: frequency: column: expected one of the fields town, got 'id'; in the file,"
            " id: nearly all of its values differ, as of an identifier",
        ),
    ),
    "the same value in all rows": Kind(
        rows(c=["x"], town=TOWNS),
        "frequency",
        {"column": "c"},
        ("refused: frequency: column: ", "; in the file, c: the same value in all rows"),
    ),
    "postal codes with leading zeros": Kind(
        rows(zip=["00501", "10115", "94110"]),
        "frequency",
        {"column": "zip"},
        ("  00501  ", "  10115  ", f"All 3 intervals (95 %, joint) {HELD}"),
    ),
    "a label NA, of which nothing is known": Kind(
        rows(c=["NA", "EU", "AS", "EU"]),
        "frequency",
        {"column": "c"},
        (
            "  (missing)  ",
            "note: 300 values NA of c were read as missing; a schema that lists the label counts",
        ),
        never=("  NA  ",),
    ),
    "a label NA that is declared": Kind(
        lambda: pd.DataFrame({"c": pd.Categorical(["NA", "EU"] * 600, categories=["NA", "EU"])}),
        "frequency",
        {"column": "c"},
        ("  NA  ", "true 50.0 %"),
        never=("missing",),
    ),
    "empty cells among numbers": Kind(
        rows(c=[1.5, None, 3.0, 2.0]),
        "mean",
        {"column": "c"},
        (
            "true 2.167",
            "note: over users who have a value; 2",
            "joint with the estimates, true 25 %)",
            "note: 300 of 1,200 users have no valid value of c and are left out of its estimate",
        ),
    ),
    "infinite numbers": Kind(
        rows(c=[1.5, float("inf"), 3.0, 2.0]),
        "mean",
        {"column": "c"},
        ("true 2.167", "note: 300 values inf of c were read as missing"),
    ),
    "yes and no as a number": Kind(
        rows(c=["yes", "no", "no", "no"]),
        "mean",
        {"column": "c"},
        (
            "true 0.250",
            "note: the column c is read as 1 for yes and 0 for no, because the question needs a",
        ),
    ),
    "truth values": Kind(
        rows(c=[True, False, False, False]),
        "mean",
        {"column": "c"},
        ("mean of c, 1,200 users", "true 0.250", "; of a constant guess 0.25."),
        never=("is read as",),
    ),
    "days": Kind(
        rows(c=[pd.Timestamp(2020, 1, day) for day in range(1, 5)]),
        "frequency",
        {"column": "c"},
        ("  2020-01-04  ", "true 25.0 %", f"All 4 intervals (95 %, joint) {HELD}"),
    ),
    "texts alone, of which no question is known": Kind(
        rows(4000, word=["the"] * 1300 + [f"w{place}" for place in range(1300)]),
        "heavy_hitters",
        {"column": "word"},
        (
            "refused: ",
            "word: 1,301 different texts, at most 1,024; keep=[COLUMN] reads one without a list",
        ),
    ),
    "durations": Kind(
        rows(c=[pd.Timedelta(days=day) for day in range(1, 5)], n=[1, 2]),
        "mean",
        {"column": "c"},
        ("refused: ", "in the file, c: durations: write them as numbers, of days or seconds"),
    ),
    "a name with an umlaut": Kind(
        rows(Größe=[1.6, 1.7, 1.8]),
        "mean",
        {"column": "Größe"},
        ("mean of Größe, 1,200 users", "true 1.7000"),
    ),
    "columns that are numbered": Kind(
        lambda: pd.DataFrame({0: [1, 2, 3] * 400, 1: [5, 6, 7] * 400}),
        "mean",
        {"column": "1"},
        ("mean of 1, 1,200 users", "true 6.000"),
    ),
    "more numbers than clusters are sought in": Kind(
        shipped("breast_cancer", "benign"),
        "k_means",
        {},
        ("refused: k-means: columns: expected 1 to 16 columns of numbers, got none, and 31 suit",),
    ),
    "one income that widens the bounds": Kind(
        scattered(3000, incomes),
        "mean",
        {"column": "income"},
        (
            "No better than guessing at this size: a constant guess lies in the interval, too",
            "note: not private, read from the data: half of the users lie within 100 .. 1",
            "of the bounds 100 .. 1,000,000 of income; with bounds 100 .. ",
        ),
        epsilon=1,
    ),
    "a rare label": Kind(
        rows(2000, c=["sick", *["well"] * 99]),
        "frequency",
        {"column": "c"},
        ("true 99.00 %", "true 1.00 %", "; of a constant guess 49 %."),
    ),
    "decimal commas": Kind(
        rows(c=["1,5", "2,5", "3,0"], town=TOWNS),
        "mean",
        {"column": "c"},
        ("refused: ", "c: numbers with decimal commas in 1,200 of 1,200 values", "write 2.5 for"),
    ),
    "commas between thousands": Kind(
        rows(c=["1,500", "2,500", "3,000"], town=TOWNS),
        "mean",
        {"column": "c"},
        ("refused: ", "c: numbers with commas between thousands", "write 1234 for 1,234"),
    ),
    "four groups": Kind(
        rows(pay=[1, 2, 3, 4], job=["w", "x", "y", "z"]),
        "difference",
        {"column": "pay", "by": "job"},
        (
            "  x less w  ",
            "true 1.00",
            "Error 0.",
            "; of a constant guess 1.",
            "note: compared: x less w, two of the 4 values of job; name others by --first and",
        ),
    ),
    "numbers by week, of several ranges": Kind(
        rows(week1=[1, 5], week2=[2, 9]),
        "trend",
        {"columns": ["week1", "week2"]},
        (
            "true 3.0",
            "true 5.5",
            f"Both intervals (95 %, joint) {HELD}",
            "note: the columns week1 and week2 are read as numbers from 1 to 9, as the question",
        ),
    ),
}

LARGE: dict[str, Kind] = {
    "more texts than a category has": Kind(
        rows(4000, word=["the"] * 1300 + [f"w{place}" for place in range(1300)], town=TOWNS),
        "heavy_hitters",
        {"column": "word"},
        ("  the  ", "true 65.0 %", "Right: found 1 of 1 with a share of 1/"),
    ),
    "a label that one number decides": Kind(
        scattered(4000, ages),
        "decision_tree",
        {},
        (
            "if age is ",
            "Better than guessing: ",
            "note: 800 of 4,000 rows are held out to measure the error",
        ),
        read=OTHER_HALF,
    ),
    "a label that is noise": Kind(
        scattered(
            2000,
            lambda generator, count: {
                **ages(generator, count),
                "risk": generator.choice(["high", "low"], count),
            },
        ),
        "naive_bayes",
        {},
        ("No better than guessing: ", "exact answers are no better", "other columns or another"),
        read=OTHER_HALF,
    ),
    "30 columns and a label": Kind(
        shipped("breast_cancer", "benign"),
        "naive_bayes",
        {},
        (
            "naive-bayes of benign, 456 users",
            "Better than guessing: ",
            "note: chosen: mean radius, mean texture, mean perimeter, ",
            "as many as users and epsilon allow; name others by --columns",
        ),
        read={"label": "benign", "held_out": "1/5"},
    ),
    "a regression without rows to measure it": Kind(
        shipped("diabetes", "progression"),
        "linear_regression",
        {"target": "progression", "columns": ["bmi", "bp"]},
        (
            "  progression = ",
            "Not judged: these users have no target, and no rows without a user were kept (in"
            " Python: held_out=1/5 where the data is read).",
        ),
    ),
    "counts": Kind(
        scattered(3000, lambda generator, count: {"children": generator.poisson(1.2, count)}),
        "ranges",
        {"column": "children"},
        ("quartiles (joint intervals): 1/4: 0 ", "median 1 ", f" intervals (95 %, joint) {HELD}"),
    ),
    "two numbers, of which one follows the other": Kind(
        scattered(
            20_000,
            lambda generator, count: {
                "a": (first := generator.uniform(0, 1, count)),
                "b": first + generator.uniform(0, 1, count),
            },
        ),
        "correlation",
        {"columns": ["a", "b"]},
        ("The correlation differs from 0", "Error 0.0", "; of a constant guess 0.7"),
    ),
    "336,776 rows": Kind(
        rows(336_776, hour=[*range(24)], late=["no", "no", "yes"]),
        "frequency",
        {"column": "late"},
        ("frequency of late, 336,776 users", "true 66.67 %", "true 33.33 %"),
    ),
}


def told(kind: Kind) -> str:
    """Return the text of the result, or of the refusal."""
    try:
        people = ask.read(kind.frame(), **kind.read)
        learner = getattr(ask.learners, kind.learner)(**kind.settings)
        return str(ask.simulate(learner, people, epsilon=kind.epsilon, fleet="columns", seed=3))
    except ask.AskanceError as error:
        return f"refused: {error}"


def check(kind: Kind) -> None:
    text = told(kind)
    for part in kind.says:
        assert part in text, text
    for part in kind.never:
        assert part not in text, text


@pytest.mark.parametrize("name", SHIPPED)
def test_a_data_set_of_scikit_learn_is_answered_in_these_words(name: str) -> None:
    check(SHIPPED[name])


@pytest.mark.parametrize("name", ODD)
def test_odd_columns_are_answered_or_refused_in_these_words(name: str) -> None:
    check(ODD[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_model_is_answered_in_these_words(name: str) -> None:
    check(LARGE[name])
