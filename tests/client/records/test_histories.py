"""Kept histories: one value per epoch, whole files, and nothing older than is asked for."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from askance_client import KeptHistory
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Bit, Schema
from askance_client.records import ALONE, CallableSource

WEEK_MS = 7 * 86_400_000


class Application:
    """A record that changes, and a clock."""

    def __init__(self, path: Path, fields: Sequence[str] = ("busy",), epochs: int = 4) -> None:
        self.path, self.fields, self.epochs = path, fields, epochs
        self.now_ms = 0
        self.record: dict[str, Any] = {"busy": 0, "age": 40}
        self.history = self.opened()

    def opened(self, **changed: Any) -> KeptHistory:
        settings: dict[str, Any] = {
            "fields": self.fields,
            "every_days": 7,
            "epochs": self.epochs,
        } | changed
        return KeptHistory(lambda: self.record, self.path, wall_ms=lambda: self.now_ms, **settings)

    def see(self, week: int, busy: object, *, late_ms: int = 0) -> None:
        self.now_ms = week * WEEK_MS + late_ms
        self.record["busy"] = busy
        self.history.observe()

    def path_at(self, week: int) -> list[Any]:
        """Return the path that a question in this week is answered from."""
        self.now_ms = week * WEEK_MS
        found = self.history()
        return [found[f"busy_{place}"] for place in range(1, self.epochs + 1)]


@pytest.fixture
def application(tmp_path: Path) -> Application:
    return Application(tmp_path / "history.json")


def test_the_path_is_the_values_of_the_epochs_before_this_one(application: Application) -> None:
    for week, busy in enumerate([0, 1, 1, 0, 1]):
        application.see(week, busy)
    assert application.path_at(4) == [0, 1, 1, 0]
    assert application.path_at(5) == [1, 1, 0, 1]


def test_a_path_is_the_same_for_the_whole_of_an_epoch(application: Application) -> None:
    for week in range(4):
        application.see(week, 0)
    before = application.path_at(4)
    application.see(4, 1, late_ms=6 * 86_400_000)
    assert application.path_at(4) == before == [0, 0, 0, 0]


def test_an_epoch_has_the_last_value_that_was_seen_in_it(application: Application) -> None:
    application.see(0, 0)
    application.see(0, 1, late_ms=86_400_000)
    application.see(1, 0)
    assert application.path_at(2)[-2:] == [1, 0]


def test_an_epoch_without_a_look_has_the_value_before_it(application: Application) -> None:
    application.see(10, 0)
    application.see(11, 1)
    application.see(14, 0)
    assert application.path_at(15) == [1, 1, 1, 0]
    # Nothing was seen for longer than a path: the last value counts for all of it.
    application.record["busy"] = 1
    assert application.path_at(40) == [0, 0, 0, 0]


def test_epochs_before_the_first_look_have_the_first_value(application: Application) -> None:
    application.see(10, 1)
    assert application.path_at(10) == [1, 1, 1, 1]


def test_a_history_lasts_over_restarts(application: Application) -> None:
    for week, busy in enumerate([0, 1, 1, 0]):
        application.see(week, busy)
        application.history = application.opened()
    assert application.path_at(4) == [0, 1, 1, 0]


def test_a_clock_that_goes_back_changes_no_epoch_that_is_over(application: Application) -> None:
    for week, busy in enumerate([0, 1, 1, 0]):
        application.see(week, busy)
    before = application.path.read_bytes()
    application.see(1, 0)
    assert application.path.read_bytes() == before


def test_the_file_is_the_owners_and_keeps_no_more_epochs_than_are_asked(
    application: Application,
) -> None:
    for week in range(30):
        application.see(week, week % 2)
    assert stat.S_IMODE(application.path.stat().st_mode) == 0o600
    kept = json.loads(application.path.read_text())["epochs"]
    assert list(kept) == ["25", "26", "27", "28", "29"]
    assert all(set(values) == {"busy"} for values in kept.values())
    assert [file.name for file in application.path.parent.iterdir()] == ["history.json"]


def test_a_record_that_fails_leaves_the_history_as_it_was(application: Application) -> None:
    application.see(0, 1)
    before = application.path.read_bytes()
    application.record = None  # type: ignore[assignment]  # a source that returns nonsense
    with pytest.raises(TypeError):
        application.history.observe()
    assert application.path.read_bytes() == before


def test_a_device_answers_from_the_path(application: Application) -> None:
    """The record that a source of this function has on the schema of a study."""
    for week, busy in enumerate([0, 1, 1, 0]):
        application.see(week, busy)
    application.now_ms = 4 * WEEK_MS
    schema = Schema("paths", 1, busy_1=Bit(), busy_2=Bit(), busy_3=Bit(), busy_4=Bit())
    table = CallableSource(application.history).load(ALONE)
    row = table.encoder(schema, {})(0)
    assert [row.values[name] for name in schema.fields] == [0, 1, 1, 0]


def test_a_damaged_file_is_refused_and_says_what_to_do(application: Application) -> None:
    for text in ("", "{", "[]", '{"format": 1}', '{"epochs": {"a": 1}}'):
        application.path.write_text(text)
        with pytest.raises(InvalidRecord, match="remove the file to begin a new history"):
            application.opened()


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"fields": []}, "fields: expected one name or more"),
        ({"fields": "busy"}, "fields: expected one name or more, got 'busy'"),
        ({"every_days": 0}, "every_days: expected 1 or more, got 0"),
        ({"epochs": 257}, r"epochs: expected 1\.\.256, got 257"),
        ({"every_days": 1}, "got .*: name another file"),
        ({"fields": ["age"]}, "got .*: name another file"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    application: Application, changed: dict[str, Any], match: str
) -> None:
    application.see(0, 1)
    with pytest.raises(InvalidParameter, match=match):
        application.opened(**changed)
