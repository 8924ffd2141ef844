"""Rows of raw cells under named columns, from a CSV or a JSON file."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, cast

from askance_client.errors import InvalidRecord
from askance_client.queries import Bit, Bits, Category, EncodedRecord, Field, Schema
from askance_client.queries.exact import exact_ratio
from askance_client.queries.fields import MISSING_TEXTS

NOTHING = "(missing)"  # the label of those who have none, where a schema has such a label
TEXT_BYTES = 32  # of a text, at its beginning
HASH_BITS = 26
TEXT_WIDTH = 288  # of a field of bits that has texts: 6 + HASH_BITS + 8 * TEXT_BYTES
_TRUTHS = {"yes": 1, "no": 0, "true": 1, "false": 0, "y": 1, "n": 0}  # as bits
_MAX_NAME = 64
_DIGEST = 8  # characters of a digest in a name
_SHOWN = 20  # column names in an error
MAX_CELL_CHARACTERS = 1 << 17  # of one cell or JSON text, as Python's csv module has it
MAX_DIGITS = 640  # of a whole number in JSON: Python converts this many under every setting
_NO_LIMIT = (1 << 31) - 1  # the largest that csv takes on every platform
_LIMIT = Lock()  # held while the limit is raised: two readers at once would leave it so
_NOT_UTF_8 = "surrogateescape"  # other bytes become surrogates, which `is_utf_8` refuses
_UNREAD = object()  # in place of a number in JSON that is too long


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Records of a file, one per row.

    A malformed row keeps its number, and is a record without any value.

    Args:
      path: where they were read: a file, or the name of another source.
      written: the columns' names as the file has them.
      names: the same as fields' names, distinct.
      rows: a cell a column: text in a CSV file, any value in a JSON file, None where it has none. A
        malformed row whose cells cannot be assigned to columns has None in all of them.
      malformed: problem by the row's number from 0, with the row's place in the file and without a
        value: "line 7: expected 2 cells, got 3".
      numbered: rows 0 .. numbered - 1 have the number that they would have in a file without
        errors; that of a later row is not certain, since a quote before it does not close. None:
        all rows.
    """

    path: Path | str
    written: tuple[str, ...]
    names: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    malformed: Mapping[int, str] = field(default_factory=dict)
    numbered: int | None = None

    def checked(self) -> Table:
        """Return this table if no row is malformed."""
        for problem in self.malformed.values():
            raise InvalidRecord(f"{self.path}: {problem}")
        return self

    def choose(self, rows: Sequence[int]) -> Table:
        """Return the table of these rows, by their numbers from 0, in this order."""
        kept = {
            place: self.malformed[row] for place, row in enumerate(rows) if row in self.malformed
        }
        return replace(self, rows=[self.rows[row] for row in rows], malformed=kept, numbered=None)

    def column_index(self, name: str) -> int:
        """Return the index of a column, by its name as written or as a field's."""
        for names in (self.written, self.names):
            if name in names:
                return names.index(name)
        raise InvalidRecord(
            f"{self.path}: expected a column {name!r}, got {', '.join(self.written[:_SHOWN])}"
        )

    def column(self, name: str, kind: Field) -> list[object]:
        """Return the values of a field, one per row."""
        place = self.column_index(name)
        return [field_value(row[place], kind) for row in self._values()]

    def encoder(
        self, schema: Schema, columns: Mapping[str, str] | None = None
    ) -> Callable[[int], EncodedRecord]:
        """Return a function that puts a row, by its number from 0, on the schema's grid.

        Columns that the schema does not have are left out.

        `columns` gives, by a field's name, the column of a field whose column has another name.

        Raises:
          InvalidRecord: the file has no column of one of the schema's fields.
        """
        named = columns or {}
        places = [
            (name, self.column_index(named.get(name, name)), kind)
            for name, kind in schema.fields.items()
        ]

        def record(row: int) -> EncodedRecord:
            cells = self._nothing() if row in self.malformed else self.rows[row]
            return schema.encode(
                {name: field_value(cells[place], kind) for name, place, kind in places}
            )

        return record

    def unfit(self, schema: Schema, columns: Mapping[str, str] | None = None) -> dict[str, int]:
        """Count the rows whose value fits nothing in a field, by the field's name.

        Such a value is answered by a query's public default, as a missing one is; in a required
        field a missing one is counted too.
        """
        named = columns or {}
        counts = {
            name: sum(
                (field.required or value is not None) and field.encode(value) is None
                for value in self.column(named.get(name, name), field)
            )
            for name, field in schema.fields.items()
        }
        return {name: count for name, count in counts.items() if count}

    def _values(self) -> Iterator[Sequence[object]]:
        nothing = self._nothing()
        for number, row in enumerate(self.rows):
            yield nothing if number in self.malformed else row

    def _nothing(self) -> Sequence[object]:
        return (None,) * len(self.names)


class RowCollector(Protocol):
    """Rows that are collected, as by a list."""

    def append(self, row: Sequence[object], /) -> None:
        """Add a row."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: Any, /) -> Any: ...


def read_csv(path: Path, delimiter: str = ",", rows: RowCollector | None = None) -> Table:
    """Read the records of a CSV file with a header line; spaces around a cell are no part of it.

    A row is malformed if it has fewer or more cells than the header, a cell of more than
    `MAX_CELL_CHARACTERS`, bytes that are not UTF-8, or a quote that does not close at the end of
    its cell; after such a quote, reading continues at the next line.

    Args:
      path: the file.
      delimiter: the character between two cells.
      rows: collects the table's rows; None: a list.

    Raises:
      InvalidRecord: no file, no header in UTF-8, no row, or two columns of one name.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors=_NOT_UTF_8) as file:
            lines = file.readlines()
    except OSError as error:
        raise InvalidRecord(f"{path}: cannot be read: {error.strerror}") from None
    rows = [] if rows is None else rows
    malformed: dict[int, str] = {}
    numbered: int | None = None
    header: tuple[str, ...] | None = None
    for record in _records(lines, delimiter):
        width = None if header is None else len(header)
        problem = _problem(record.cells, width)
        if width is None:
            header = _header(path, record.cells, problem)
        elif problem is None:
            rows.append([*map(str.strip, record.cells or ())])
        elif record.cells != []:  # no empty line
            malformed[len(rows)] = f"line {record.line}: {problem}"
            whole = record.cells is not None and len(record.cells) == width
            rows.append([*map(str.strip, record.cells or ())] if whole else (None,) * width)
        if record.open and numbered is None:
            numbered = len(rows)
    if header is None:
        raise InvalidRecord(f"{path}: expected a header line, got none")
    return _table(path, header, rows, malformed, numbered)


def _header(path: Path, cells: list[str] | None, problem: str | None) -> tuple[str, ...]:
    if cells == []:
        raise InvalidRecord(f"{path}: expected a header line, got none")
    if cells is None or problem is not None:
        raise InvalidRecord(f"{path}: expected a CSV file in UTF-8, got a header with {problem}")
    return tuple(map(str.strip, cells))


def read_json(path: Path) -> Table:
    """Read a JSON file of records: a list of objects, or one object; a key is a column.

    An item is malformed if it is not an object, has a text of more than `MAX_CELL_CHARACTERS`, or
    a number that is not read: a whole number of more than `MAX_DIGITS` digits, or another of more
    than 128 characters. A syntax error is an error of the whole file.
    """
    return json_table(path, _bytes(path))


def json_table(path: Path | str, data: bytes) -> Table:
    """Read the bytes of a JSON text as `read_json` does."""
    content = _json(path, data)
    return table_of_items(path, content if isinstance(content, list) else [content])


def read_json_lines(path: Path) -> Table:
    """Read a file of one JSON object per line; an empty line is none.

    A line that is no JSON is a malformed row, as an item is in `read_json`.
    """
    items: list[object] = []
    for line in _bytes(path).splitlines():
        if line.strip():
            try:
                items.append(_json(path, line))
            except InvalidRecord:
                items.append(_UNREAD)
    return table_of_items(path, items)


def table_of_items(path: Path | str, items: Sequence[object]) -> Table:
    """Return the table of mappings, one per row; a key is a column.

    An item that is no mapping is a malformed row.

    Raises:
      InvalidRecord: no record, or two keys that are one field.
    """
    header = tuple(
        dict.fromkeys(str(name) for item in items if isinstance(item, Mapping) for name in item)
    )
    if items and not header:
        raise InvalidRecord(f"{path}: expected objects with keys, got none")
    rows: list[Sequence[object]] = []
    malformed: dict[int, str] = {}
    for number, item in enumerate(items):
        problem = _problem_of_item(item)
        if problem is not None:
            malformed[number] = f"item {number + 1}: {problem}"
        cells = item if isinstance(item, Mapping) else {}
        rows.append([_bare(cells.get(name)) for name in header])
    return _table(path, header, rows, malformed, None)


class _CsvRecord(NamedTuple):
    """Record of a CSV file.

    Args:
      line: number of its first line, from 1.
      cells: None if a quote does not close at the end of its cell.
      open: the end of the record is not certain: its first line has an odd number of quotes.
    """

    line: int
    cells: list[str] | None
    open: bool = False


def _records(lines: Sequence[str], delimiter: str) -> Iterator[_CsvRecord]:
    """Split lines into records; after a malformed record, continue at the line after its first."""
    with _LIMIT:  # csv has one limit per process; a row's own is checked by `_problem`
        usual = csv.field_size_limit(_NO_LIMIT)
        try:
            yield from _split(lines, delimiter)
        finally:
            csv.field_size_limit(usual)


def _split(lines: Sequence[str], delimiter: str) -> Iterator[_CsvRecord]:
    start = 0
    while start < len(lines):
        begin = start
        rest = map(lines.__getitem__, range(start, len(lines)))
        reader = csv.reader(rest, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for cells in reader:
                yield _CsvRecord(begin + 1, cells)
                begin = start + reader.line_num
            return
        except csv.Error:
            yield _CsvRecord(begin + 1, None, open=lines[begin].count('"') % 2 == 1)
            start = begin + 1


def _problem(cells: Sequence[str] | None, width: int | None) -> str | None:
    """Describe the problem of a CSV record without a value; None if there is none."""
    # `width` is the number of cells expected; None for any number.
    if cells is None:
        return "expected quotes that close at the end of a cell, got others"
    if width is not None and len(cells) != width:
        return f"expected {width} cell{'s' * (width != 1)}, got {len(cells)}"
    whole = "".join(cells)
    if len(whole) > MAX_CELL_CHARACTERS and max(map(len, cells)) > MAX_CELL_CHARACTERS:
        return f"expected cells of at most {MAX_CELL_CHARACTERS} characters, got a longer one"
    if not is_utf_8(whole):
        return "expected UTF-8, got other bytes"
    return None


def _problem_of_item(item: object) -> str | None:
    """Describe the problem of a JSON item without a value; None if there is none."""
    if item is _UNREAD:
        return "expected JSON, got other text"
    if not isinstance(item, Mapping):
        return f"expected an object, got a {type(item).__name__}"
    for cell in item.values():
        for part in cell if isinstance(cell, list) else (cell,):
            if part is _UNREAD:
                return f"expected numbers of at most {MAX_DIGITS} digits, got a longer one"
            if isinstance(part, str) and len(part) > MAX_CELL_CHARACTERS:
                return (
                    f"expected texts of at most {MAX_CELL_CHARACTERS} characters, got a longer one"
                )
    return None


def is_utf_8(text: str) -> bool:
    """Return whether a text can be encoded in UTF-8, which surrogates cannot."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_missing(cell: object, kind: Field | None = None) -> bool:
    """Return whether a cell stands for no value: a missing text that is no label of its field."""
    if isinstance(cell, str) and cell.strip() in MISSING_TEXTS:
        return not isinstance(kind, Category) or cell not in kind.indices
    return cell is None


def field_name(name: str) -> str:
    """A column's name as a field's."""
    kept = re.sub(r"\W", "_", name, flags=re.ASCII)[:_MAX_NAME]
    return kept if kept and not kept[0].isdigit() else f"_{kept}"[:_MAX_NAME]


def field_names(path: Path | str, header: Sequence[str]) -> tuple[str, ...]:
    """Return the columns' names as fields', distinct and in any order of columns the same.

    Of columns whose names are the same as fields', those that are called otherwise get a digest.

    Raises:
      InvalidRecord: two columns of one name.
    """
    names = [*map(field_name, header)]
    times, fields = Counter(names), {}
    for own, name in zip(header, names, strict=True):
        if own in fields:
            raise InvalidRecord(f"{path}: expected distinct column names, got {own!r:.80} twice")
        digest = sha256(own.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        marked = f"{name[: _MAX_NAME - _DIGEST - 1]}_{digest}"
        fields[own] = name if own == name or times[name] == 1 else marked
    return tuple(fields.values())


def _table(
    path: Path | str,
    header: tuple[str, ...],
    rows: RowCollector,
    malformed: Mapping[int, str],
    numbered: int | None,
) -> Table:
    if not len(rows):
        raise InvalidRecord(f"{path}: expected at least one row, got none")
    kept = cast(Sequence[Sequence[object]], rows)
    return Table(path, header, field_names(path, header), kept, malformed, numbered)


def text_bits(text: str) -> str:
    """Return a text as the value of a field `Bits(TEXT_WIDTH)`.

    Six bits have `TEXT_BYTES` less the number of its UTF-8 bytes, or 0 for more bytes than those,
    and 26 are the first of its SHA-256; then come its first bytes, and zeros.
    """
    whole = text.encode("utf-8", "replace")
    kept = whole[:TEXT_BYTES]
    head = TEXT_BYTES - len(kept) << HASH_BITS | int.from_bytes(sha256(whole).digest()[:4]) >> 6
    return f"{head:032b}{int.from_bytes(kept.ljust(TEXT_BYTES, bytes(1))):0256b}"


def field_value(cell: object, kind: Field) -> object:
    """Return the value that a field encodes; a missing value may be a label of its own."""
    if is_missing(cell, kind):
        return NOTHING if isinstance(kind, Category) and NOTHING in kind.labels else None
    if isinstance(cell, str | int) and isinstance(kind, Bits) and kind.width == TEXT_WIDTH:
        return cell if kind.encode(cell) else text_bits(str(cell))
    word = isinstance(kind, Bit) and isinstance(cell, str)
    return _TRUTHS.get(str(cell).casefold(), cell) if word else cell


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRecord(f"{path}: cannot be read: {error.strerror}") from None


def _json(path: Path | str, data: bytes) -> Any:
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            parse_int=_whole,
            parse_float=_exact,
            parse_constant=lambda _: None,
        )
    except json.JSONDecodeError as error:
        raise InvalidRecord(
            f"{path}: expected JSON, got other text at line {error.lineno}"
        ) from None
    except (ValueError, RecursionError):  # not UTF-8; a thousand [
        raise InvalidRecord(f"{path}: expected JSON in UTF-8, got other bytes or nesting") from None


def _whole(text: str) -> object:
    return int(text) if len(text) <= MAX_DIGITS else _UNREAD


def _exact(text: str) -> object:
    ratio = exact_ratio(text)
    return _UNREAD if ratio is None else Fraction(*ratio)


def _bare(cell: object) -> object:
    return cell.strip() if isinstance(cell, str) else cell
