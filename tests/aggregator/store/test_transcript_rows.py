"""Transcripts are read in pages, so that none is whole in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from askance_aggregator.store import SqliteStore
from askance_aggregator.store.sql_store import read_transcript
from askance_client.messages import SignedStudy

DIGEST = b"d" * 32


class Recorded:
    """Transactions that note how many characters each one read."""

    def __init__(self, transactions: Any) -> None:
        self._transactions = transactions
        self.read_characters: list[int] = []

    def read(self, step: Callable[[Any], Any]) -> Any:
        rows = self._transactions.read(step)
        self.read_characters.append(sum(len(cell) for (cell,) in rows if isinstance(cell, str)))
        return rows

    def write(self, step: Callable[[Any], Any]) -> Any:
        return self._transactions.write(step)


def test_a_page_is_read_when_its_lines_are_taken(tmp_path: Path) -> None:
    lines = ["x" * 100_000] * 30
    store = SqliteStore.create(tmp_path / "store.sqlite")
    store.add_study(DIGEST, SignedStudy(b"study", b"k" * 32, b"s" * 64))
    for line in lines:
        store.log(DIGEST).append(line)
    recorded = Recorded(store._dialect)
    taken = read_transcript(recorded, 1, 0)
    assert recorded.read_characters == [0]
    assert next(taken) == lines[0]
    assert sum(recorded.read_characters) == 200_000  # two fit in a page of 256 Ki characters
    assert [lines[0], *taken] == lines
    assert max(recorded.read_characters) == 200_000
    store.close()
