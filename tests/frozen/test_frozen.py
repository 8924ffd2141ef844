"""Outputs, stores and results of an earlier version: this one prints and reads them as it did."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from askance_aggregator.store import PostgresqlLocation, SqliteLocation
from tests.frozen.commands import SESSIONS
from tests.frozen.old_stores import describe, load_postgresql, load_sqlite
from tests.frozen.record import expected
from tests.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[2]


def test_forty_commands_are_recorded() -> None:
    assert sum(len(session.commands) for session in SESSIONS.values()) >= 40


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "slow" else []) for name in SESSIONS],
)
def test_commands_print_what_they_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    recorded = expected(name)
    printed = SESSIONS[name].run(tmp_path)
    assert [one["command"] for one in printed] == [one["command"] for one in recorded]
    for one, other in zip(printed, recorded, strict=True):
        assert one == other, one["command"]


def test_an_old_sqlite_store_is_read(tmp_path: Path) -> None:
    load_sqlite(tmp_path / "store")
    with closing(SqliteLocation(tmp_path / "store").open()) as store:
        assert describe(store) == expected("store")


def test_an_old_postgresql_store_is_read(postgresql: PostgresqlServer) -> None:
    with closing(PostgresqlLocation(load_postgresql(postgresql)).open()) as store:
        assert describe(store) == expected("store")
