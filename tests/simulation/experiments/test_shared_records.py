"""The trials of a process read and encode their file once, and again when it has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_simulation.populations import sources
from askance_simulation.populations.sources import read_csv_columns as before
from askance_simulation.populations.tables import TextColumns

ROWS = ["yes", "no", "no", "maybe"] * 500


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """List the files that are read."""
    files: list[Path] = []

    def read_csv_columns(path: Path, delimiter: str) -> TextColumns:
        files.append(path)
        return before(path, delimiter)

    monkeypatch.setattr(sources, "read_csv_columns", read_csv_columns)
    return files


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    write(path, ROWS)
    return path


def write(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(["answer,town", *(f"{row},t{row}" for row in rows)]) + "\n")


def test_the_trials_of_a_sweep_share_their_records(people: Path, read: list[Path]) -> None:
    found = ask.sweep("frequency", {"epsilon": [4, 8], "column": "answer"}, trials=3, data=people)
    assert len(found.rows) == 6
    assert read == [people]


def test_the_trials_of_a_simulation_share_their_records(people: Path, read: list[Path]) -> None:
    made = ask.named("frequency", epsilon=8, data=people, settings={"column": "answer"})
    done = ask.simulate(made.study, made.people, fleet="columns", trials=3)
    assert len({trial.transcript.digest for trial in done.trials}) == 3
    assert read == [people]


def test_shared_records_are_those_of_a_first_reading(people: Path) -> None:
    made = ask.named("frequency", epsilon=8, data=people, settings={"column": "answer"})
    for _ in range(2):
        users = made.people(ask.Seed.of(0))
        assert users.schema == ask.read(people, keep=["answer"]).schema
        assert [str(kind) for kind in users.schema.fields] == ["answer", "town"]


def test_a_file_that_was_written_again_is_read_again(people: Path, read: list[Path]) -> None:
    made = ask.named("frequency", epsilon=8, data=people, settings={"column": "answer"})
    first = made.people(ask.Seed.of(0))
    write(people, [*ROWS, "never", "never"])
    os.utime(people, ns=(1, 1))
    second = made.people(ask.Seed.of(0))
    assert (first.size, second.size) == (len(ROWS), len(ROWS) + 2)
    assert read == [people, people]


def test_another_schema_or_label_is_read_anew(people: Path, read: list[Path]) -> None:
    for label in (None, "answer", "town"):
        made = ask.named(
            "frequency", epsilon=8, data=people, settings={"column": "answer"}, label=label
        )
        assert made.people(ask.Seed.of(0)).size == len(ROWS)
    assert len(read) == 3


def test_a_file_that_is_gone_is_no_longer_shared(people: Path) -> None:
    made = ask.named("frequency", epsilon=8, data=people, settings={"column": "answer"})
    made.people(ask.Seed.of(0))
    people.unlink()
    with pytest.raises(InvalidRecord):
        made.people(ask.Seed.of(0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": "much"},
        {"epsilon": "0"},
        {"beta": "2"},
        {"delta": "none"},
        {"waves": 10**6},
        {"users": 0},
        {"randomizer": "best-of-all"},
        {"settings": {"colour": "red"}},
        {"settings": {"tau": "much"}},
        {"settings": {"column": "answer", "label-noise": "2"}},
        {"settings": {"column": "answer", "drift": ".1"}},
    ],
    ids=str,
)
def test_options_are_checked_before_a_file_is_read(
    wrong: dict[str, Any], people: Path, read: list[Path]
) -> None:
    with pytest.raises(InvalidParameter):
        ask.named("frequency", data=people, **{"epsilon": 1, **wrong})
    assert read == []


def test_options_of_all_cells_of_a_sweep_are_checked_first(people: Path, read: list[Path]) -> None:
    grid = {"epsilon": 1, "column": "answer", "tau": [".1", "much"]}
    with pytest.raises(InvalidParameter):
        ask.sweep("frequency", grid, data=people)
    assert read == []
