"""SQL that SQLite and PostgreSQL share: transactions, and what one database does otherwise.

A statement is written once, in the SQL that both understand, with question marks for its
parameters. Where the databases differ, the statement takes a part of its text from the `Dialect`,
or the dialect does the step. A step may be run again if the database gave its transaction up for
another: it changes nothing but the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from askance_aggregator.store.backups import Manifest
from askance_client.errors import StoreError

T = TypeVar("T")


class StatementAnswer(Protocol):
    """Rows that a statement gave, or the number that it changed."""

    @property
    def rowcount(self) -> int:
        """Number of rows changed."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        ...


Execute = Callable[[str, Sequence[object]], StatementAnswer]
"""Runs a statement whose parameters are written as question marks."""


class Transactions(Protocol):
    """Transactions of a database, whatever its dialect of parameters; they raise StoreError."""

    def read(self, step: Callable[[Execute], T]) -> T:
        """Run statements that read."""
        ...

    def write(self, step: Callable[[Execute], T]) -> T:
        """Run a step as one durable transaction; if it fails, nothing was changed."""
        ...


class OrderedTransactions(Transactions, Protocol):
    """Transactions that wait for each other where they have to."""

    def take_turn(self, execute: Execute, lock: int) -> None:
        """Let no other transaction that takes this lock pass before this one has ended."""
        ...


class Dialect(OrderedTransactions, Protocol):
    """A database: its transactions, and what its SQL does otherwise than the other database's."""

    @property
    def population(self) -> str:
        """Query of the next device's ordinal: a forgotten one's is not given again."""
        ...

    @property
    def for_update(self) -> str:
        """End of a query whose rows no other transaction may change until this one ends."""
        ...

    @property
    def skip_locked(self) -> str:
        """End of a query as `for_update` that leaves out rows which others are changing."""
        ...

    @property
    def now_s(self) -> str:
        """Expression of the time on the store's clock, in whole seconds since 1970."""
        ...

    @property
    def round_again(self) -> str:
        """End of the statement that notes a round: what happens if it was noted before."""
        ...

    @property
    def request_key(self) -> str:
        """Columns of a request that its reports are found by."""
        ...

    @property
    def of_request(self) -> str:
        """Condition of the reports to a request, with a parameter per column of `request_key`."""
        ...

    def one_of(
        self, column: str, values: Sequence[bytes] | Sequence[int]
    ) -> tuple[str, Sequence[object]]:
        """Return the condition that a column has one of some values, and its parameters."""
        ...

    def add_devices(
        self, execute: Execute, start: int, devices: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Add new devices, each an id and a token's digest, from an ordinal on."""
        ...

    def begin_study(self, execute: Execute, study: int) -> None:
        """Prepare what the reports to a new study need."""
        ...

    def note_requests(
        self, execute: Execute, digests: Sequence[bytes], round_: tuple[int, int, int]
    ) -> None:
        """Note the round that requests are of: a study's number, an epoch, a round."""
        ...

    def end_rounds(self, execute: Execute, study: int, epoch: int) -> None:
        """Let the rounds of an ended epoch take no more reports; of all epochs if it is 0."""
        ...

    def refuse_reports(self, execute: Execute, study: int) -> None:
        """Let no more reports to a study be stored: they are being deleted."""
        ...

    def remove_reports(self, digest: bytes, most: int) -> int:
        """Remove rows of reports that were deleted (see `Retention.remove_rows`)."""
        ...

    def probe(self, execute: Execute) -> None:
        """Write and remove 64 KiB."""
        ...

    def back_up(self, path: Path, now_s: int) -> Manifest:
        """Write a backup (see `Store.back_up`)."""
        ...

    def size_bytes(self) -> int:
        """Return the bytes that the database takes on its disk."""
        ...

    def close(self) -> None:
        """Release the database."""
        ...


def list_rows(
    transactions: Transactions, statement: str, parameters: Sequence[object] = ()
) -> list[Any]:
    """Run one statement that reads, and return its rows."""
    return transactions.read(lambda execute: execute(statement, parameters).fetchall())


def first_row(
    transactions: Transactions, statement: str, parameters: Sequence[object] = ()
) -> Any | None:
    """Run one statement that reads, and return its first row; None if it gives none."""
    rows = list_rows(transactions, statement, parameters)
    return rows[0] if rows else None


def note_restoration(execute: Execute, now_s: int, backup_unix_s: int) -> None:
    """Note when a store was restored, of which time's backup, and what it had acknowledged."""
    execute("DELETE FROM restored_sequences", ())
    execute(
        "INSERT INTO restored_sequences SELECT ordinal, acknowledged_sequence FROM devices"
        " WHERE acknowledged_sequence > 0",
        (),
    )
    execute("INSERT INTO restores VALUES (?, ?)", (now_s, backup_unix_s))


def study_number(execute: Execute, digest: bytes) -> int:
    """Return the number of the study of that digest, or raise StoreError."""
    rows = execute("SELECT number FROM studies WHERE digest = ?", (digest,)).fetchall()
    if not rows:
        raise unknown_study(digest)
    return int(rows[0][0])


def marks(values: Sequence[object]) -> str:
    """Return a question mark per value."""
    return ", ".join("?" * len(values))


def unknown_study(digest: bytes) -> StoreError:
    """Return the complaint about a study that is not stored."""
    return StoreError(f"study {digest.hex()[:16]}: expected a stored one, got none")
