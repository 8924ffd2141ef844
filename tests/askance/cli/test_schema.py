"""`askance schema`: the inferred schema as a file that is read back and gives the same result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import askance as ask
from askance.cli.main import main
from askance_client.records import schema_from_toml

HEADER = 'sepal length (cm),Größe,a b,a_b,"say ""hi""",educ,zip,smokes,same (all)'


def people(folder: Path) -> Path:
    """Write a file with columns of every kind."""
    path = folder / "people.csv"
    rows = [
        f"{4 + row % 37 / 10:.1f},{row % 50},{row % 3},{row % 5},{row % 7 / 1000},{row % 16},"
        f"0{1000 + row % 9},{('yes', 'no', 'NA')[row % 3]},x"
        for row in range(200)
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


def test_it_is_read_back_and_gives_the_same_result(tmp_path: Path) -> None:
    path, out = people(tmp_path), tmp_path / "people.toml"
    assert main(["schema", str(path), "--out", str(out), "--categories", "educ"]) == 0
    assert schema_from_toml(out) == ask.read(path, categories=["educ"]).schema
    lines = out.read_text(encoding="utf-8").splitlines()
    for line in (
        '"sepal length (cm)" = { type = "real", low = "4", high = "7.6", frac_bits = 16 }',
        '"Größe" = { type = "integer", low = 0, high = 49 }',
        'smokes = { type = "category", labels = ["(missing)", "no", "yes"] }',
        "# 66 values NA of smokes were read as missing; a schema that lists the label counts them",
        "# same (all) is left out: the same value in all rows",
    ):
        assert line in lines
    transcripts = []
    for schema, categories in ((out, ()), (None, ("educ",))):
        made = ask.named(
            "frequency",
            epsilon=8,
            data=path,
            schema=schema,
            categories=categories,
            settings={"column": "educ"},
        )
        transcripts.append(ask.simulate(made.study, made.people).transcript.digest)
    assert transcripts[0] == transcripts[1]


def test_it_is_printed_and_no_file_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = people(tmp_path), tmp_path / "people.toml"
    assert main(["schema", str(path)]) == 0
    printed = capsys.readouterr().out
    out.write_text(printed, encoding="utf-8")
    assert schema_from_toml(out) == ask.read(path).schema
    assert main(["schema", str(path), "--out", str(out)]) == 2
    capsys.readouterr()
    assert main(["schema", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"]["fields"]["educ"] == {"type": "integer", "low": 0, "high": 15}
    assert told["columns"]["same (all)"] == "the same value in all rows"
    assert len({*told["notes"]}) == len(told["notes"]) > 1


def test_a_line_may_be_deleted_and_the_others_mean_what_they_did(tmp_path: Path) -> None:
    """Alone "a b" would be the field a_b, which is the other column."""
    path, out = people(tmp_path), tmp_path / "people.toml"
    assert main(["schema", str(path), "--out", str(out)]) == 0
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True)
    out.write_text("".join(line for line in lines if line[:4] != "a_b "), encoding="utf-8")
    edited = ask.read(path, schema_from_toml(out))
    (field,) = [name for name in edited.schema.fields if name.startswith("a_b")]
    values = np.asarray(edited.columns(0, 5).values[field]).tolist()
    assert values == [0, 1, 2, 0, 1]
