"""View of results in PostgreSQL: its columns, and what a role that may read it alone cannot."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from askance_aggregator.store import Conclusion, PostgresqlLocation, StudyState
from tests.aggregator.server.studies.conftest import study
from tests.postgresql import PostgresqlServer

ONE, SERIES = b"\1" * 32, b"\2" * 32
KEY_DIGITS = study(1).public_key.hex()
RESULT: dict[str, Any] = {
    "learner": "mean",
    "users": 12,
    "answers": 11,
    "rounds": 1,
    "hypothesis": {"estimate": 0.25},
}
COLUMNS = [
    *("study", "epoch", "title", "state", "reason", "message", "analyst", "submitted_at"),
    *("ended_at", "learner", "users", "answers", "rounds", "nats_asked", "hypothesis", "result"),
]


@pytest.fixture(scope="module")
def url(postgresql: PostgresqlServer) -> str:
    """A database with three ends, and a role that may read the view alone."""
    location = PostgresqlLocation(postgresql.new_store())
    done = Conclusion(StudyState.DONE, "done", "", json.dumps(RESULT), 1_500_000_000)
    with closing(location.open()) as store:
        store.add_study(ONE, study(1, purpose="Smokers."))
        store.management.note_submission(ONE, 1_000)
        store.conclude(ONE, done, ended_unix_s=2_000)
        store.add_study(SERIES, study(2))
        store.conclude(SERIES, done, 7, 3_000)
        store.conclude(SERIES, Conclusion(StudyState.FAILED, "failed", "no", "{}"))
        store.retention.delete_results(SERIES, 4_000)
    with psycopg.connect(location.url) as connection:
        connection.execute("CREATE ROLE dashboard LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA askance TO dashboard")
        connection.execute("GRANT SELECT ON askance.results TO dashboard")
    return location.url


def test_rows_say_how_each_study_and_epoch_ended(url: str) -> None:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.execute("SET ROLE dashboard")
        rows = connection.execute("SELECT * FROM askance.results ORDER BY study, epoch").fetchall()
    assert list(rows[0]) == COLUMNS
    assert rows[0] == {
        "study": "01" * 32,
        "epoch": None,
        "title": "Smokers.",
        "state": "done",
        "reason": "done",
        "message": "",
        "analyst": KEY_DIGITS,
        "submitted_at": datetime.fromtimestamp(1_000, UTC),
        "ended_at": datetime.fromtimestamp(2_000, UTC),
        "learner": "mean",
        "users": 12,
        "answers": 11,
        "rounds": 1,
        "nats_asked": Decimal("1.5"),
        "hypothesis": {"estimate": 0.25},
        "result": RESULT,
    }
    assert [(one["epoch"], one["state"], one["result"]) for one in rows[1:]] == [
        (7, "done", None),
        (None, "failed", None),
    ]
    assert (rows[1]["ended_at"], rows[1]["title"]) == (None, "Mean of smoker, colour")


def test_a_text_that_postgresql_lacks_leaves_the_view_whole(postgresql: PostgresqlServer) -> None:
    # A label of a schema may have any character, and json.dumps writes two of them so.
    location = PostgresqlLocation(postgresql.new_store())
    named = {"a\0\0": 0.5, "\\u0000": 0.25, "\\\0": 0.25, "z": "\\"}
    odd = Conclusion(StudyState.DONE, "done", "", json.dumps({"hypothesis": named}))
    with closing(location.open()) as store:
        store.add_study(ONE, study(1))
        store.conclude(ONE, odd)
    with psycopg.connect(location.url) as connection:
        ((found,),) = connection.execute("SELECT hypothesis FROM askance.results").fetchall()
    assert found == {"a\ufffd\ufffd": 0.5, "\\u0000": 0.25, "\\\ufffd": 0.25, "z": "\\"}


@pytest.mark.parametrize(
    "table", ["reports", "devices", "conclusions", "studies", "audit", "leaf_keys"]
)
def test_the_reader_of_the_view_sees_nothing_else(url: str, table: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE dashboard")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM askance.{table}".encode())


def test_the_documented_columns_are_those_of_the_view(url: str) -> None:
    text = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    table = text.split("### To a tool that reads SQL")[1].split("\n## ")[0]
    documented = [
        name.strip("` ")
        for line in table.splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    ]
    assert sorted(documented) == sorted(COLUMNS)
