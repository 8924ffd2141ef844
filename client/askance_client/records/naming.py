"""Naming of the members in a table: rows that a device answers for, and their names.

A member's ledger and identity follow from its name, so that a user who gets another name gets a
second budget, and a name that passes to another user passes that user's budget on. Therefore a
folder is bound to one naming (`LedgerFile.bind`), and a row whose name cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from askance_client.errors import InvalidRecord
from askance_client.queries import Schema
from askance_client.records.tables import Table, is_missing, is_utf_8

ALONE = ""  # the name of the one member of a single device
MAX_NAME_BYTES = 256  # as many as a ledger keeps


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows that a device answers for.

    Args:
      rows: rows, by their numbers from 0, of each name; one or more.
      left_out: problem, without a value, of each row that is left out: it has no certain name.
    """

    rows: Mapping[str, tuple[int, ...]]
    left_out: tuple[str, ...] = ()


class Naming(Protocol):
    """Rule that names members."""

    @property
    def text(self) -> str:
        """The rule in words, for errors and for `binding`; the same for equal rules only."""
        ...

    @property
    def orderless(self) -> bool:
        """True if names do not depend on the order of rows."""
        ...

    def choose(self, table: Table) -> Chosen:
        """Return the rows of a table that have a name.

        Raises:
          InvalidRecord: no such row or column.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneRow:
    """Member, by the number of a row from 0."""

    row: int

    @property
    def text(self) -> str:
        return f"row = {self.row}"

    @property
    def orderless(self) -> bool:
        return False

    def choose(self, table: Table) -> Chosen:
        certain = _certain(table)
        if self.row >= certain:
            raise InvalidRecord(
                f"{table.path}: expected one of {certain} rows from 0, got row {self.row}"
                f"{_uncertain(table)}"
            )
        return Chosen({ALONE: (self.row,)})


@dataclass(frozen=True, slots=True)
class AllRows:
    """Single member, whose records are all rows."""

    @property
    def text(self) -> str:
        return "one_person = true"

    @property
    def orderless(self) -> bool:
        return True

    def choose(self, table: Table) -> Chosen:
        return Chosen({ALONE: tuple(range(len(table.rows)))})


@dataclass(frozen=True, slots=True)
class ByColumn:
    """All rows, each named by its cell in a column."""

    column: str

    @property
    def text(self) -> str:
        return f"key = {self.column!r}"

    @property
    def orderless(self) -> bool:
        return True

    def choose(self, table: Table) -> Chosen:
        place = table.column_index(self.column)
        rows: dict[str, tuple[int, ...]] = {}
        left_out = []
        for row, cells in enumerate(table.rows):
            name = name_in(cells[place])
            if name is None:
                left_out.append(table.malformed.get(row, f"row {row} from 0: no usable name"))
            else:
                rows[name] = (*rows.get(name, ()), row)
        return Chosen(rows, tuple(left_out))


@dataclass(frozen=True, slots=True)
class ByNumber:
    """All rows, each named by its number from 0: rows may only be appended to the file."""

    @property
    def text(self) -> str:
        return "rows_may_only_be_appended = true"

    @property
    def orderless(self) -> bool:
        return False

    def choose(self, table: Table) -> Chosen:
        certain = _certain(table)
        rows = {str(row): (row,) for row in range(certain)}
        if certain == len(table.rows):
            return Chosen(rows)
        return Chosen(rows, (f"rows {certain} to {len(table.rows) - 1} from 0{_uncertain(table)}",))


def binding(naming: str, schema: Schema) -> dict[str, str]:
    """Return the texts that a folder's ledger is bound to, by name.

    `naming` says how members are named (see `Naming.text`).
    """
    return {"members": naming, "schema": f"{schema.name} {schema.digest.hex()}"}


def name_in(cell: object) -> str | None:
    """Return the name in a cell; None where there is none that a ledger can keep."""
    if is_missing(cell) or isinstance(cell, bool) or not isinstance(cell, str | int):
        return None
    name = str(cell)
    if "\0" in name or not is_utf_8(name) or len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return None
    return name


def _certain(table: Table) -> int:
    return len(table.rows) if table.numbered is None else table.numbered


def _uncertain(table: Table) -> str:
    return "" if table.numbered is None else ": a quote before them does not close"
