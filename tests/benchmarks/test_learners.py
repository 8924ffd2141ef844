"""The table of learners and oracles: it contains every learner and goes to the given file."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from askance_aggregator.learners import learners

ROOT = Path(__file__).resolve().parents[2]


def test_a_row_has_an_error_under_each_oracle(table_of_learners: ModuleType) -> None:
    row = table_of_learners.measured("masked-parity", ("exact", "noisy labels"))
    assert row == {
        "learner": "masked-parity",
        "rounds": 2,
        "queries": 2,
        "exact": 0.0,
        "noisy labels": 0.0,
    }
    assert table_of_learners.measured("mean", ("noisy labels",))["noisy labels"] is None


@pytest.mark.slow
def test_it_prints_all_of_them(
    table_of_learners: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table_of_learners.main(["--quick", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["learner"] for row in rows] == [entry.name for entry in learners()]


def test_the_document_has_all_of_them() -> None:
    text = (ROOT / "docs" / "learners.md").read_text(encoding="utf-8")
    table = text.partition("<!-- table -->")[2].partition("<!-- end -->")[0]
    listed = [line.split(" | ")[0][2:] for line in table.splitlines() if line.startswith("| ")]
    assert listed == ["learner", *(entry.name for entry in learners())]


def test_it_replaces_the_table_and_nothing_else(
    table_of_learners: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- table -->\nold\n<!-- end -->\nafter\n")
    table_of_learners.replace_table(path, "new\n")
    assert path.read_text() == "before\n<!-- table -->\nnew\n<!-- end -->\nafter\n"
    path.write_text("no table")
    with pytest.raises(SystemExit, match="expected <!-- table -->"):
        table_of_learners.replace_table(path, "new\n")
