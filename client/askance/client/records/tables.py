"""Rows of raw cells under named columns, from a CSV or a JSON file."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from askance.client.errors import InvalidRecord
from askance.client.queries import Category, EncodedRecord, Field, Schema
from askance.client.queries.exact import exact_ratio

NOTHING = "(missing)"  # the label of those who have none, where a schema has such a label
_MISSING = frozenset(("", "?", "NA", "NaN", "nan"))
_MAX_NAME = 64
_SHOWN = 20  # column names in an error


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The people in a file, one a row.

    Args:
      path: where they were read.
      written: the columns' names as the file has them.
      names: the same as fields' names, distinct.
      rows: a cell a column: text in a CSV file, any value in a JSON file, None where it has none.
    """

    path: Path
    written: tuple[str, ...]
    names: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def place(self, name: str) -> int:
        """Which column this is, by its name as written or as a field's.

        Raises:
          InvalidRecord: there is none.
        """
        for names in (self.written, self.names):
            if name in names:
                return names.index(name)
        raise InvalidRecord(
            f"{self.path}: expected a column {name!r}, found {', '.join(self.written[:_SHOWN])}"
        )

    def column(self, name: str, kind: Field) -> list[object]:
        """A field's values, as `Schema.encode_columns` takes them."""
        place = self.place(name)
        return [_value(row[place], kind) for row in self.rows]

    def encoder(self, schema: Schema) -> Callable[[int], EncodedRecord]:
        """What puts a row, by its number from 0, on the schema's grid.

        Columns that the schema does not have are left out.

        Raises:
          InvalidRecord: the file has no column of the name of one of the schema's fields.
        """
        places = [(name, self.place(name), kind) for name, kind in schema.fields.items()]

        def record(row: int) -> EncodedRecord:
            cells = self.rows[row]
            return schema.encode({name: _value(cells[place], kind) for name, place, kind in places})

        return record

    def unfit(self, schema: Schema) -> dict[str, int]:
        """How many rows have a value in a field that fits nothing there, by the field's name; such
        a value is answered by a query's public default, as a missing one is.

        Raises:
          InvalidRecord: as `encoder` does.
        """
        columns = {name: self.column(name, kind) for name, kind in schema.fields.items()}
        present = schema.encode_columns(columns).present
        counts = {
            name: sum(
                value is not None and not fits
                for value, fits in zip(column, present[name].tolist(), strict=True)
            )
            for name, column in columns.items()
        }
        return {name: count for name, count in counts.items() if count}


def read_table(path: Path) -> Table:
    """The people in a file: .json for a list of objects (or one object), else CSV.

    Raises:
      InvalidRecord: see `read_csv` and `read_json`.
    """
    return read_json(path) if path.suffix.lower() == ".json" else read_csv(path)


def read_csv(path: Path) -> Table:
    """The people in a CSV file with a header line; spaces around a cell are no part of it.

    Raises:
      InvalidRecord: no file, no header, no row, a short or long row, or two columns of one name.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file, skipinitialspace=True))
    except OSError as error:
        raise InvalidRecord(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidRecord(f"{path}: expected a CSV file, found another: {error}") from None
    if not lines or not lines[0]:
        raise InvalidRecord(f"{path}: expected a header line, found none")
    header = tuple(name.strip() for name in lines[0])
    rows = [[cell.strip() for cell in line] for line in lines[1:] if line]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InvalidRecord(
                f"{path}: expected {len(header)} values at row {number}, found {len(row)}"
            )
    return _table(path, header, rows)


def read_json(path: Path) -> Table:
    """The people in a JSON file: a list of objects, or one object; a key is a column.

    Raises:
      InvalidRecord: no file, not JSON, an item that is no object, nobody, or two keys that are one
        field.
    """
    try:
        content = json.loads(
            path.read_text(encoding="utf-8-sig"), parse_float=_exact, parse_constant=lambda _: None
        )
    except OSError as error:
        raise InvalidRecord(f"{path}: cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise InvalidRecord(
            f"{path}: expected JSON, found something else at line {error.lineno}"
        ) from None
    except (ValueError, RecursionError):  # not UTF-8; a number of a thousand digits; a thousand [
        raise InvalidRecord(f"{path}: expected JSON in UTF-8, found something else") from None
    items: list[Any] = content if isinstance(content, list) else [content]
    for number, item in enumerate(items, start=1):
        if not isinstance(item, Mapping):
            raise InvalidRecord(
                f"{path}: expected an object at item {number}, found a {type(item).__name__}"
            )
    header = tuple(dict.fromkeys(name for item in items for name in item))
    return _table(path, header, [[_bare(item.get(name)) for name in header] for item in items])


def is_missing(cell: object) -> bool:
    """Whether a cell stands for no value: empty, "?", "NA", "NaN" or "nan"."""
    return cell is None or (isinstance(cell, str) and cell.strip() in _MISSING)


def field_name(name: str) -> str:
    """A column's name as a field's."""
    kept = re.sub(r"\W", "_", name, flags=re.ASCII)[:_MAX_NAME]
    return kept if kept and not kept[0].isdigit() else f"_{kept}"[:_MAX_NAME]


def _table(path: Path, header: tuple[str, ...], rows: Sequence[Sequence[object]]) -> Table:
    if not rows:
        raise InvalidRecord(f"{path}: expected at least one row, found none")
    names = tuple(field_name(name) for name in header)
    if len(set(names)) != len(names):
        raise InvalidRecord(f"{path}: expected distinct column names, found one twice")
    return Table(path, header, names, rows)


def _value(cell: object, kind: Field) -> object:
    """What a field encodes; a missing value is a label of its own where the field has one."""
    if not is_missing(cell):
        return cell
    return NOTHING if isinstance(kind, Category) and NOTHING in kind.labels else None


def _exact(text: str) -> Fraction | None:
    ratio = exact_ratio(text)
    return None if ratio is None else Fraction(*ratio)


def _bare(cell: object) -> object:
    return cell.strip() if isinstance(cell, str) else cell
