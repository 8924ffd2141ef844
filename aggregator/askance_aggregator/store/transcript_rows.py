"""Lines of transcripts as rows."""

from __future__ import annotations

from collections.abc import Iterator

from askance_aggregator.store.dialect import Transactions

_PAGE_LINES = 256
_PAGE_CHARACTERS = 256 * 1024  # a longer line has a page for itself
_OF = "FROM transcript_lines WHERE study = ? AND epoch = ?"
_BETWEEN = f"{_OF} AND number >= ? AND number < ? ORDER BY number"


def read_transcript(transactions: Transactions, study: int, epoch: int) -> Iterator[str]:
    """Return the lines of a transcript as they are now, oldest first.

    They are read in pages as they are taken, so that a long transcript is never whole in memory.
    Lines that are deleted meanwhile are left out.

    Args:
      transactions: of the database.
      study: the study's number in it.
      epoch: of the transcript.

    Raises:
      StoreError: the database cannot be read; later pages raise it from the iterator.
    """
    statement = f"SELECT coalesce(max(number) + 1, 0) {_OF}"
    ((count,),) = transactions.read(lambda execute: execute(statement, (study, epoch)).fetchall())
    return _pages(transactions, (study, epoch), count)


def _pages(transactions: Transactions, of: tuple[int, int], count: int) -> Iterator[str]:
    start = 0
    while start < count:
        page = _page(transactions, of, start, min(start + _PAGE_LINES, count))
        if not page:
            return
        yield from page
        start += len(page)


def _page(transactions: Transactions, of: tuple[int, int], start: int, stop: int) -> list[str]:
    """Return lines from a number on: one at least, and no more than a page holds."""
    sizes = transactions.read(
        lambda execute: execute(f"SELECT length(line) {_BETWEEN}", (*of, start, stop)).fetchall()
    )
    fitting = held = 0
    for (size,) in sizes:
        held += size
        if fitting and held > _PAGE_CHARACTERS:
            break
        fitting += 1
    rows = transactions.read(
        lambda execute: execute(f"SELECT line {_BETWEEN}", (*of, start, start + fitting)).fetchall()
    )
    return [str(line) for (line,) in rows]
