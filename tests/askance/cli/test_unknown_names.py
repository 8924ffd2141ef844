"""Unknown names on the command line: the error suggests the nearest known name."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance.cli import main
from askance_aggregator.learners.registry import find
from askance_aggregator.names import unknown_name
from askance_client.errors import InvalidParameter


def test_an_unknown_name_is_shown_with_the_nearest_one() -> None:
    error = unknown_name("fleet", "grcp", ["objects", "grpc", "columns"])
    assert str(error) == (
        "fleet: expected one of objects, grpc, columns, got 'grcp' (did you mean grpc?)"
    )


def test_a_name_that_is_near_to_none_has_no_suggestion() -> None:
    error = unknown_name("fleet", "pigeons", ["objects", "grpc"])
    assert str(error) == "fleet: expected one of objects, grpc, got 'pigeons'"


def test_an_unknown_learner_is_shown_with_the_nearest_one() -> None:
    with pytest.raises(InvalidParameter, match=r"'naive-bayse' \(did you mean naive-bayes\?\)"):
        find("naive-bayse")


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("simulat mean", "did you mean simulate?"),
        ("simulate mean --epsilon 1 --users 9 --fleet colums", "did you mean columns?"),
        ("simulate meen --epsilon 1 --users 9", "did you mean mean?"),
        ("simulate meen --epsilon 1", "did you mean mean?"),
        ("plan mean --epsilon 1 --users 9 --set colum=number", "did you mean column?"),
        ("curate paritty", "did you mean parity?"),
        ("simulate mean --epsilon 1 --users 9 --population plan", "did you mean plane?"),
        ("reproduce theorem-5-2 --quick", "did you mean theorem-5"),
    ],
)
def test_an_unknown_word_of_a_command_is_one_line_with_a_suggestion(
    capsys: pytest.CaptureFixture[str], line: str, suggestion: str
) -> None:
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert suggestion in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (
            "sepal lenght (cm)",
            "expected one of the fields sepal length (cm), Größe, got 'sepal lenght (cm)'"
            " (did you mean sepal length (cm)?)",
        ),
        ("weight", "expected one of the fields sepal length (cm), Größe, got 'weight'"),
    ],
)
def test_a_mistyped_column_is_answered_with_the_columns_own_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, column: str, told: str
) -> None:
    file = tmp_path / "study.toml"
    number = '{ type = "integer", low = 0, high = 9 }'
    fields = f'"sepal length (cm)" = {number}\n"Größe" = {number}\n'
    file.write_text(
        'learner = "mean"\nepsilon = "1"\n[schema.fields]\n'
        f'{fields}[parameters]\ncolumn = "{column}"\n',
        encoding="utf-8",
    )
    assert main(["study", "submit", str(file), "--plan-only"]) == 2
    assert capsys.readouterr().err == (f"askance: {file}: parameters: mean: column: {told}\n")
