"""Transactions of a SQLite store for statements that PostgreSQL understands too."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar

from askance_aggregator.store.register_rows import Execute

T = TypeVar("T")
_Begin: TypeAlias = "Callable[[], AbstractContextManager[sqlite3.Connection]]"


class SqliteTransactions:
    """Transactions of one file (see `Transactions`)."""

    def __init__(self, writing: _Begin, reading: _Begin) -> None:
        self._writing = writing
        self._reading = reading

    def read(self, step: Callable[[Execute], T]) -> T:
        with self._reading() as connection:
            return step(connection.execute)

    def write(self, step: Callable[[Execute], T]) -> T:
        with self._writing() as connection:
            return step(connection.execute)
