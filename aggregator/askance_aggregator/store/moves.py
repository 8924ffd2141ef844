"""Move of a store to a database of the other kind, offline: marks, a copy, and its verification.

Theory of operation. Both ends are held alone until the end. At any time at most one of them opens:

    target: empty -> unfinished     a mark, durable before the first row; the target does not open
    target: filled, read back, compared with the source
    source: -> moved                a mark with the same id; the source does not open any more
    target: unfinished -> a store   the final commit, which removes the mark

A process that dies before the source is marked leaves it as it was; started again, the move clears
the target and copies anew. One that dies after it leaves a target that was verified: started again,
the move removes the target's mark. The target of a move from another store is never cleared.

Tables and columns are those that the databases themselves name: what a step of both schemas adds is
copied. What one database alone has is listed here; anything else that the other one lacks is
refused before a row is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from askance_aggregator.store.audit import AuditLog, every_entry, verify_entries
from askance_aggregator.store.dialect import Execute, OrderedTransactions, list_rows
from askance_client.errors import AskanceError, StoreError

MOVE_ID_BYTES = 16
ValueKind: TypeAlias = Literal["integer", "text", "bytes", "real"]
Columns: TypeAlias = dict[str, ValueKind]
Row: TypeAlias = tuple[Any, ...]  # typed by the columns, not by Python

OWN_TABLES = frozenset(
    {"holder", "leases", "moves", "population", "probe", "replicas", "schema_steps"}
)
"""Tables that are not copied: a database's own processes, numbers and steps."""
OWN_COLUMNS = frozenset(
    {
        ("reports", "arrived"),  # numbers of a database's own transactions
        ("reports", "part"),  # follow from the studies of the requests
        ("requests", "part"),
        ("rounds", "closes_unix_s"),  # not read any more (see `MoveEnd.unready`)
        ("rounds", "ended"),  # follows from the ends of studies
        ("studies", "cancelling"),  # of open studies of replicas (see `MoveEnd.unready`)
    }
)
"""Columns that are not copied: one database has them, and the other needs none."""
_ROWS_BETWEEN_SIGNS = 100_000  # of life


@dataclass(frozen=True, slots=True)
class MoveMark:
    """Mark of a store that does not open.

    Args:
      id: of the move, 16 bytes: source and target of one move have one.
      unfinished: True in the target until its final commit, False in a source that was moved away.
      other: address of the other end.
    """

    id: bytes
    unfinished: bool
    other: str
    at_unix_s: int

    def refusal(self, name: str) -> StoreError:
        """Return the refusal to open a store of that name."""
        if self.unfinished:
            return StoreError(
                f"store {name}: expected a whole store, found the unfinished target of a move from"
                f" {self.other} (run: askance aggregator migrate --to, again, from there)"
            )
        return StoreError(
            f"store {name}: expected a store that is in use, found one that was moved to"
            f" {self.other} (set that as the store in the configuration)"
        )


def read_mark(execute: Execute) -> MoveMark | None:
    """Return a store's mark; None: it may be opened."""
    rows = execute("SELECT id, unfinished, other, at_unix_s FROM moves", ()).fetchall()
    for move_id, unfinished, other, at_unix_s in rows:
        return MoveMark(bytes(move_id), bool(unfinished), other, at_unix_s)
    return None


def check_not_moved(execute: Execute, name: str) -> None:
    """Refuse a store that was moved away, or that is the unfinished target of a move."""
    mark = read_mark(execute)
    if mark is not None:
        raise mark.refusal(name)


def write_mark(execute: Execute, mark: MoveMark | None) -> None:
    """Replace a store's mark, or remove it, in a transaction."""
    execute("DELETE FROM moves", ())
    if mark is not None:
        execute(
            "INSERT INTO moves (id, unfinished, other, at_unix_s) VALUES (?, ?, ?, ?)",
            (mark.id, int(mark.unfinished), mark.other, mark.at_unix_s),
        )


@dataclass(frozen=True, slots=True)
class TableDigest:
    """Content of a table, whatever the order of its rows and the database.

    Args:
      rows: their number.
      total: the sum over the rows of the SHA-256 of their encoding, modulo 2^256.
    """

    rows: int = 0
    total: int = 0

    @property
    def digest(self) -> str:
        """The sum in hexadecimal, 64 digits."""
        return f"{self.total:064x}"


class MoveEnd(OrderedTransactions, Protocol):
    """A store that is held alone to be moved away or to be filled."""

    @property
    def name(self) -> str:
        """Address, without a password."""
        ...

    @property
    def derived(self) -> Mapping[tuple[str, str], str]:
        """Own columns that every row needs, by table and name.

        Each is an expression over the rows of the source, in the SQL of both databases.
        """
        ...

    def tables(self) -> dict[str, Columns]:
        """Return tables and their columns, each table after those that it refers to."""
        ...

    def unready(self) -> str | None:
        """Return why the store cannot be moved away yet; None: it can."""
        ...

    def population(self) -> int:
        """Return the number of ordinals that were given."""
        ...

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Read a table's rows in any order; the columns may be expressions. Bounded memory."""
        ...

    def filling(self, mark: MoveMark) -> AbstractContextManager[None]:
        """Clear and mark the store, and let it be filled in the block.

        The mark is durable when the block is entered, and the rows when it was left.
        """
        ...

    def fill(self, table: str, columns: Sequence[str], rows: Iterator[Row]) -> None:
        """Add rows to a table."""
        ...


@dataclass(frozen=True, slots=True)
class Moved:
    """Outcome of a move."""

    tables: dict[str, TableDigest]  # the copied ones, by name
    audit_entries: int  # in the verified audit log
    resumed: bool  # an earlier run had copied and verified all

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self.tables[table].rows


@dataclass(frozen=True, slots=True)
class MoveContext:
    """Facts of a run that come from outside.

    Args:
      id: 16 random bytes.
      note: appends the command's entry to an audit log: "begun", "done" or "failed: WORD".
      show: shows a sign of life.
    """

    id: bytes
    now_s: int
    note: Callable[[AuditLog, str], None]
    show: Callable[[str], None]

    def mark_of_target(self, source: str) -> MoveMark:
        """Return the mark of a target that is filled from a source of that name."""
        return MoveMark(self.id, unfinished=True, other=source, at_unix_s=self.now_s)


def check_source(source: MoveEnd) -> MoveMark | None:
    """Check that a store can be moved away; return its mark if it was, perhaps not to the end."""
    mark = source.read(read_mark)
    if mark is not None and mark.unfinished:
        raise mark.refusal(source.name)
    reason = source.unready()
    if reason is not None:
        raise StoreError(f"store {source.name}: {reason}")
    return mark


def move(source: MoveEnd, target: MoveEnd, new: MoveEnd, context: MoveContext) -> Moved:
    """Move a store into an empty one, or go on with a move that broke off.

    `new` is a store that has just been made, which an empty one is equal to.

    Returns:
      What the target has, verified.

    Raises:
      StoreError: the source was moved elsewhere or is not ready, the target is not empty or has
        begun to be filled from another store, one database has a table or a column that the other
        lacks, or the copy is not equal. The source is as it was.
      AuditBroken: the source's audit log is not as it was written; nothing was copied.
    """
    moved, begun = check_source(source), target.read(read_mark)
    shared = _shared(source, target)
    if moved is not None:
        if begun is None or begun.id != moved.id:
            raise moved.refusal(source.name)
        done = Moved(_digests(target, shared, context), _verify_audit(target), resumed=True)
    else:
        if begun is None:
            _check_empty(target, new)
        elif not begun.unfinished or begun.other != source.name:  # another store may be in there
            raise begun.refusal(target.name)
        context.note(AuditLog(source), "begun")
        try:
            done = _copy_verified(source, target, shared, context)
        except (AskanceError, KeyboardInterrupt) as error:
            with suppress(StoreError):  # the first failure is the one to show
                context.note(AuditLog(source), f"failed: {type(error).__name__}")
            raise
        mark = MoveMark(context.id, unfinished=False, other=target.name, at_unix_s=context.now_s)
        source.write(lambda execute: write_mark(execute, mark))
    target.write(lambda execute: write_mark(execute, None))
    context.note(AuditLog(target), "done")
    return done


def _copy_verified(
    source: MoveEnd, target: MoveEnd, shared: dict[str, Columns], context: MoveContext
) -> Moved:
    """Fill the target, read it back and compare it with what was read of the source."""
    _verify_audit(source)
    copied = {}
    with target.filling(context.mark_of_target(source.name)):
        for table, columns in shared.items():
            derived = {name: text for (of, name), text in target.derived.items() if of == table}
            counted = _Counted(source.rows(table, [*columns, *derived.values()]), len(columns))
            target.fill(table, [*columns, *derived], _shown(counted, f"copied {table}", context))
            copied[table] = counted.digest
    found = _digests(target, shared, context)
    for table, expected in copied.items():
        if found[table] != expected:
            raise StoreError(
                f"store {target.name}: expected {expected.rows} rows of {table} with the digest"
                f" {expected.digest}, found {found[table].rows} with {found[table].digest}"
            )
    before, after = source.population(), target.population()
    if before != after:
        raise StoreError(f"store {target.name}: expected {before} ordinals, found {after}")
    return Moved(copied, _verify_audit(target), resumed=False)


def _digests(
    end: MoveEnd, shared: dict[str, Columns], context: MoveContext
) -> dict[str, TableDigest]:
    found = {}
    for table, columns in shared.items():
        counted = _Counted(end.rows(table, list(columns)), len(columns))
        for _ in _shown(counted, f"verified {table}", context):
            pass
        found[table] = counted.digest
    return found


def _shared(source: MoveEnd, target: MoveEnd) -> dict[str, Columns]:
    """Return the tables and columns to copy, in the order in which the target is filled."""
    given, taken = _copied(source.tables()), _copied(target.tables())
    odd = sorted(
        f"{table}.{column}"
        for table in given.keys() | taken.keys()
        for column in given.get(table, {}).keys() | taken.get(table, {}).keys()
        if given.get(table, {}).get(column) != taken.get(table, {}).get(column)
    )
    if odd:
        raise StoreError(
            f"store {target.name}: expected the tables and columns of {source.name}, found that one"
            f" of the two lacks or keeps otherwise: {', '.join(odd)}"
        )
    # By name: the databases do not have them in one order, and a digest follows it.
    return {table: dict(sorted(given[table].items())) for table in taken}


def _copied(tables: dict[str, Columns]) -> dict[str, Columns]:
    return {
        table: {name: kind for name, kind in columns.items() if (table, name) not in OWN_COLUMNS}
        for table, columns in tables.items()
        if table not in OWN_TABLES
    }


def _check_empty(target: MoveEnd, new: MoveEnd) -> None:
    """Refuse a target with content: rows other than those of a new store."""
    known = _copied(new.tables())
    for table, columns in _copied(target.tables()).items():
        first = _first_rows(target, table, columns)
        if first and (table not in known or first != _first_rows(new, table, columns)):
            raise StoreError(
                f"store {target.name}: expected an empty one, found rows of {table} (give a new"
                " database or file)"
            )


def _first_rows(end: MoveEnd, table: str, columns: Columns) -> list[bytes]:
    """Return the encodings of two rows of a table at most."""
    rows = list_rows(end, f"SELECT {', '.join(columns)} FROM {table} LIMIT 2")
    return [_encoded(tuple(row)) for row in rows]


def _verify_audit(end: MoveEnd) -> int:
    """Check the chain of an audit log and return the number of its entries."""
    log = AuditLog(end)
    head = log.head()
    return 0 if head is None else verify_entries(every_entry(log), head.digest).number


class _Counted:
    """Rows on their way, and the digest of those that have passed."""

    def __init__(self, rows: Iterator[Row], width: int) -> None:
        """Iterate over it once; the first `width` columns count."""
        self._rows = rows
        self._width = width
        self.digest = TableDigest()

    def __iter__(self) -> Iterator[Row]:
        count, total, width = 0, 0, self._width
        sha256 = hashlib.sha256
        for row in self._rows:
            count += 1
            total += int.from_bytes(sha256(_encoded(row[:width])).digest())
            yield row
        self.digest = TableDigest(count, total % (1 << 256))


def _shown(counted: _Counted, what: str, context: MoveContext) -> Iterator[Row]:
    """Pass rows on, with a sign of life from time to time."""
    for number, row in enumerate(counted):
        if number % _ROWS_BETWEEN_SIGNS == 0:
            context.show(f"{what}: {number:,} rows")
        yield row


def _encoded(row: Row) -> bytes:
    """Encode a row so that no two rows have one encoding; a truth value is the number 0 or 1."""
    parts: list[bytes] = []
    for value in row:
        if isinstance(value, int):
            parts.append(b"i%d." % value)
        elif isinstance(value, bytes):
            parts.append(b"b%d:" % len(value))
            parts.append(value)
        elif isinstance(value, str):
            encoded = value.encode()
            parts.append(b"t%d:" % len(encoded))
            parts.append(encoded)
        elif value is None:
            parts.append(b"-")
        else:
            parts.append(b"r%s." % float(value).hex().encode())
    return b"".join(parts)
