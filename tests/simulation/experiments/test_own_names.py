"""Columns by their own names: in settings, rows to predict, texts and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance_aggregator.learners.shapes import Centres, Components
from askance_aggregator.names import ColumnNames, field_called, fields_called, fields_in_json

FLOWERS = ("sepal length (cm)", "Größe", "0", "年龄", "性别", "kind")


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 300 flowers whose columns have names that no field can have."""
    draws = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("own") / "flowers.csv"
    rows = [
        f"{draws.uniform(4, 8):.1f},{draws.integers(0, 90)},{draws.integers(0, 9)},"
        f"{draws.integers(0, 99)},{draws.integers(0, 50)},{'ab'[row % 2]}"
        for row in range(300)
    ]
    path.write_text(",".join(FLOWERS) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def simulated(path: Path, learner: str, **settings: str) -> ask.Simulation:
    label = settings.pop("label", None)
    made = ask.named(learner, epsilon=20, data=path, settings=settings, label=label)
    return ask.simulate(made.study, made.people, fleet="columns")


@pytest.mark.parametrize(
    ("learner", "settings", "expected"),
    [
        ("mean", {"column": "sepal length (cm)"}, ["mean of sepal length (cm)"]),
        ("mean", {"column": "sepal_length__cm_"}, ["mean of sepal length (cm)"]),
        ("mean", {"column": "Größe"}, ["mean of Größe"]),
        ("mean", {"column": "0"}, ["mean of 0,"]),
        ("mean", {"column": "年龄"}, ["mean of 年龄"]),
        ("mean-vector", {"columns": "年龄, 性别"}, ["年龄", "性别"]),
        ("correlation", {"columns": '"sepal length (cm)",0'}, ["sepal length (cm) and '0'"]),
        ("linear-regression", {"target": "Größe"}, ["Größe = ", "sepal length (cm)"]),
        (
            "difference",
            {"column": "年龄", "group": "kind"},
            ["difference of 年龄 by kind, 300 users"],
        ),
        ("mean-vector", {"columns": "0,sepal length (cm)"}, ["of sepal length (cm), '0', 300"]),
        ("decision-tree", {"label": "kind"}, ["decision-tree of kind"]),
    ],
)
def test_texts_have_them(
    flowers: Path, learner: str, settings: dict[str, str], expected: list[str]
) -> None:
    html = simulated(flowers, learner, **settings)._repr_html_().replace("&#x27;", "'")
    for text in expected:
        assert text in html
    for text in ("sepal_length__cm_", "Gr__e", "___9ee831fc", "___a752a7d8"):
        assert text not in html


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        ("mean-vector", {"columns": "sepal length (cm),Größe"}),
        ("correlation", {"columns": "sepal length (cm),Größe"}),
        ("k-means", {"columns": "sepal length (cm),Größe", "k": "2", "rounds": "1"}),
        ("pca", {"columns": "sepal length (cm),Größe", "components": "1"}),
    ],
)
def test_a_printed_hypothesis_has_them(
    flowers: Path, learner: str, settings: dict[str, str]
) -> None:
    """An object prints them, learned or read from its JSON; what is stored has none."""
    result = simulated(flowers, learner, **settings)
    if learner in ("k-means", "pca"):
        shape = result.presentation.shape
        assert isinstance(shape, Centres | Components)
        assert set(shape.names) == {"sepal length (cm)", "Größe"}  # the axes of its picture
    printed = result.to_json()["hypothesis"]
    for text in (str(result.hypothesis), str(ask.learners.hypothesis_from_json(learner, printed))):
        assert "sepal length (cm)" in text
        assert "Größe" in text
        assert "sepal_length__cm_" not in text
    assert "sepal_length__cm_" in str(result.trials[0].outcome.hypothesis)


def test_names_need_no_note(flowers: Path) -> None:
    told = simulated(flowers, "mean", column="Größe").to_json()
    assert told["notes"][1:] == [INFERRED]
    assert told["column_notes"][1] == "the column 'Größe' is the field Gr__e"
    assert told["fields"] == ["Größe"]


@pytest.mark.parametrize(
    ("learner", "settings"),
    [("k-means", {}), ("naive-bayes", {"label": "kind"}), ("linear-regression", {})],
)
def test_printed_json_has_them_and_predicts(
    flowers: Path, learner: str, settings: dict[str, str]
) -> None:
    result = simulated(flowers, learner, **settings)
    printed = json.loads(json.dumps(result.to_json()["hypothesis"]))
    assert "sepal length (cm)" in json.dumps(printed)
    read = ask.learners.hypothesis_from_json(learner, printed)
    assert read == result.hypothesis
    rows = {name: [5, 6] for name in FLOWERS[:-1]}
    by_field = dict(zip(result.study.schema.fields, rows.values(), strict=False))
    assert list(read.predict(rows)) == list(read.predict(by_field))


def test_an_error_names_columns(flowers: Path) -> None:
    with pytest.raises(
        ask.InvalidParameter, match=r"one of the fields sepal length \(cm\), Größe, '0', 年龄"
    ):
        simulated(flowers, "mean", column="sepal")


INFERRED = "bounds and labels were inferred from the data file"


@pytest.mark.parametrize(
    ("learner", "settings", "notes"),
    [
        # Of the columns that the question is about, and of no other.
        ("mean", {"column": "age (y)"}, ["2 values NA of age (y) were read as missing"]),
        ("mean", {"column": "height"}, []),
        ("frequency", {"column": "plz"}, ["the column plz is read as 2 labels, because the"]),
        ("frequency", {"column": "spent"}, ["the column spent is of texts: numbers with commas"]),
        # Of all columns: those that are left out, too.
        (
            "naive-bayes",
            {"label": "kind"},
            [
                "the column id is left out: nearly all",
                "the column spent is of texts: numbers",
                "4 values NA of 2 columns of numbers were read as missing",
            ],
        ),
    ],
)
def test_notes_are_on_the_columns_asked_about(
    tmp_path: Path, learner: str, settings: dict[str, str], notes: list[str]
) -> None:
    rows = [
        f"{'NA' if row < 2 else row % 50},{150 + row % 9},{(10115, 20095)[row % 2]},u{row},"
        f'"1,{row % 3:03}",{"NA" if row in (7, 8) else row % 5},{"ab"[row % 2]}'
        for row in range(100)
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["age (y),height,plz,id,spent,visits,kind", *rows]))
    told = simulated(path, learner, **settings).to_json()
    others = ("epsilon 20", INFERRED, "chosen", "held out", "have no valid value")
    found = [note for note in told["notes"] if not any(part in note for part in others)]
    assert len(found) == len(notes), found
    for note, start in zip(found, notes, strict=True):
        assert note.startswith(start)
    assert "the column id is left out" in " ".join(told["column_notes"])


FIELDS = ["a_b", "a_b_c8687a08", "_0", "Gr__e", "kind"]


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("a_b", "a_b"),
        ("a b", "a_b_c8687a08"),
        ("0", "_0"),
        ("Größe", "Gr__e"),
        ("kind", "kind"),
        ("other one", "other one"),
        ("", ""),
    ],
)
def test_a_field_is_found_by_its_column(column: str, field: str) -> None:
    assert field_called(column, FIELDS) == field


def test_a_column_with_a_comma_stands_in_quotes() -> None:
    assert fields_called('"a b", kind,0', FIELDS) == "a_b_c8687a08,kind,_0"
    assert fields_called('"last, first",kind', ["last__first"]) == "last__first,kind"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("a_b", "a b"),
        ("the mean of a_b, a_b_ and x_a_b", "the mean of a b, a_b_ and x_a_b"),
        ("_0", "_0"),
        ("3 _0 + 1", "3 '0' + 1"),
        ({"a_b": 1, "_0": {"p_value": 2, "low": 1}}, {"a b": 1, "0": {"p_value": 2, "low": 1}}),
        ({"p_value": 1, "low": 2}, {"p_value": 1, "low": 2}),
        (
            [{"field": "a_b", "type": "bit"}, {"field": "kind", "type": "bit"}],
            [{"field": "a_b", "type": "bit", "column": "a b"}, {"field": "kind", "type": "bit"}],
        ),
    ],
)
def test_what_is_shown(data: Any, shown: Any) -> None:
    schema = ask.Schema("s", a_b=ask.Bit(), _0=ask.Bit(), p_value=ask.Bit(), kind=ask.Bit())
    names = ColumnNames.of(schema, {"a_b": "a b", "_0": "0", "p_value": "p-value"})
    assert names.in_json(data) == shown
    if isinstance(data, list):
        assert fields_in_json(shown) == shown  # the schemas keep them


def test_a_field_whose_name_is_in_a_label_keeps_it() -> None:
    """A melted table has columns' names as labels: replaced, they would be other labels."""
    schema = ask.Schema("s", a_b=ask.Bit(), c_d=ask.Bit(), kind=ask.Category(["a_b", "c d"]))
    names = ColumnNames.of(schema, {"a_b": "a b", "c_d": "c d"})
    assert names.in_json(["a_b", "c_d", "c d"]) == ["a_b", "c_d", "c d"]
