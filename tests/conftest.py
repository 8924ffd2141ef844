"""What tests of more than one room need."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from askance.client.sqlite_file import SqliteFile

BreakDisk = Callable[[SqliteFile, set[str]], set[str]]


class FailingConnection:
    """A disk that fails at the statements of your choice."""

    def __init__(self, connection: sqlite3.Connection, failing: set[str]) -> None:
        self._connection = connection
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.split()[0] in self._failing:
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *parameters)


@pytest.fixture(scope="session")
def break_disk() -> BreakDisk:
    """Puts a broken disk under an open file; empty the set of statements and it is whole again."""

    def put(file: SqliteFile, failing: set[str]) -> set[str]:
        file.connection = FailingConnection(file.connection, failing)  # type: ignore[assignment]  # a stand-in
        return failing

    return put
