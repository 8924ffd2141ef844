"""Inference of a schema from a table, and the reasons why a column is no field or no number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from askance_aggregator.names import Suits, unknown_column
from askance_aggregator.reports.texts import counted
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Bit, Bits, Category, Field, Integer, Label, Real, Schema
from askance_client.queries.exact import exact_ratio
from askance_client.queries.fields import MISSING_TEXTS
from askance_client.queries.limits import MAX_FRAC, MAX_LABEL_BYTES, MAX_LABELS, MAX_SPREAD
from askance_client.records import NOTHING
from askance_client.records.tables import TEXT_WIDTH
from askance_simulation.populations.cells import ColumnCells, NumberEnds, TextCells, UnreadCells

_MAX_LABELS = 1024
_FRAC_BITS = 16  # the grid of a number, unless its range asks for a finer or a coarser one
_MIN_STEPS = 1 << 16  # of the grid between a number's bounds
_IDENTIFIER = "nearly all of its values differ, as of an identifier"
_OWN = (
    "has {} different values in {:,} rows, most of them of one user each: no such share can be"
    " told from 0; ask about groups of values (a column made from it), or leave it out"
)
_EMPTY = "leave a cell empty where there is none"
_OF_LISTS = (
    "has lists of {} different values with {!r} between them: for the share of each value, make a"
    " column of yes and no of it"
)
_OF_DATES = (
    "has {} different dates: most shares are too small to be told from 0; ask about years, months"
    " or weekdays (a column made from it)"
)
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?!\d).*|\d\d?([./-])\d\d?\1(?:\d\d|\d{4})(?!\d).*")
_MANY_DATES = 100  # a mean share of at most 1 %
_LIST_MARKS = (";", "|", ",")
_MOST_ITEMS = 64  # values that are listed; a text may have marks of its own
LIKE_VALUES = (
    "looks like values, and was read as the columns' names: write a line of names above it"
)
_YEARS = range(1900, 2101)  # whole numbers that name a column of other numbers
_ITEMS = 3  # rising whole numbers from which names are taken for those of a survey's items
_TOTALS = {"total", "totals", "sum", "sums", "grand total", "subtotal", "overall"}
_ID_ROWS = 50  # of fewer values most differ in any column
_ID_TEXTS = Fraction(95, 100)  # share of distinct values from which a text identifies a user
_ID_NUMBERS = Fraction(99, 100)  # the same of whole numbers that lie evenly
_FEW_VALUES = Fraction(1, 20)  # share of distinct values up to which a new row's is known
_OWN_VALUES = Fraction(3, 4)  # share from which two in three of the values have one row each
_MAX_CODES = 64  # whole numbers that a question may take for labels
_MOST_CHOSEN = 6  # columns of a question of which another field is tried
_CODES = Fraction(1, 100)  # share of rows with a leading zero from which numbers are texts
_LEADING_ZERO = re.compile(r"0[0-9]+")
_YES_NO = ({"yes", "no"}, {"true", "false"}, {"y", "n"})
_MOSTLY = Fraction(9, 10)  # share of numbers from which the other texts look like mistakes
_MAX_NAME = 128  # characters of a schema's name
_SHOWN = 5  # reasons in an error

_FORMS = (  # of texts that a reader takes for numbers, and what to write instead
    (
        re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
        "commas between thousands",
        "write 1234 for 1,234",
    ),
    (re.compile(r"[+-]?\d*,\d+"), "decimal commas", "write 2.5 for 2,5"),
    (re.compile(r"[+-]?[\d.,]+ ?[%€$£]|[€$£] ?[+-]?[\d.,]+"), "a unit", "write the number alone"),
    (
        re.compile(r"[+-]?[\d.,]*\d ?(?!(?:st|nd|rd|th)\Z)([^\W\d_]+)"),  # a group: one unit
        "a unit",
        "write the number alone",
    ),
)


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """A schema inferred from a table.

    Args:
      left_out: by column, why it is no field of the schema.
      doubts: by column, why it is read as texts though nearly all of its values look like numbers.
      chosen: by column that the question asks about, as what it is read in place of what it is
        without that question.
      tell_nothing: by field, why shares of its values tell little: most have one row each, are
        lists of other values, or dates.
      missing: by field, the number of rows by text that was read as no value.
      column_types: by column of the table, what it is, or why it is left out.
      odd_lines: why lines of the file are taken for what they are not read as.
    """

    schema: Schema
    left_out: Mapping[str, str]
    doubts: Mapping[str, str]
    chosen: Mapping[str, str]
    tell_nothing: Mapping[str, str]
    missing: Mapping[str, Mapping[str, int]]
    column_types: Mapping[str, str]
    odd_lines: Sequence[str]


class Summarized(Protocol):
    """Columns of a source that a schema is inferred from (see `tables.Records`)."""

    @property
    def path(self) -> Path | str:
        """Path of the file, or name of another source."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns as those of fields, distinct."""
        ...

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the columns as the source has them."""
        ...

    @property
    def declared(self) -> Mapping[str, tuple[str, ...]]:
        """Labels by the names of columns for which the source declares them."""
        ...

    @property
    def has_header_line(self) -> bool:
        """True if the names are the first line of a text file, which may lack them."""
        ...

    @property
    def empty_rows(self) -> int:
        """Number of rows of a text file of several columns whose cells are all empty."""
        ...

    def cells(self, counted: Collection[str]) -> Mapping[str, ColumnCells]:
        """Summarize every column; of these columns all values are counted."""
        ...


def infer(
    people: Summarized,
    label: str | None,
    keep: Collection[str],
    categories: Collection[str] = (),
    suits: Suits | None = None,
) -> InferredSchema:
    """Infer a schema; see `tables.records_of` for the rules.

    Raises:
      InvalidRecord: no column of that name, or no column that can be asked about.
    """
    stem, header = Path(people.path).stem, people.names
    name = "".join(letter if letter.isprintable() else "_" for letter in stem)[:_MAX_NAME]
    labels = set() if label is None else {label}
    _check_names(people, {"label": labels, "categories": categories})
    keep = {*keep, *categories}
    columns = people.cells({*labels, *categories})
    read = _read_columns(columns, people.declared, label, keep, categories)
    fields, left_out = read.fields, read.left_out
    if not fields:
        raise _nothing_left(people.path, left_out)
    missing = {column: cells.missing_texts for column, cells in columns.items() if column in fields}
    in_order = {column: fields[column] for column in header if column in fields}
    column_types = {column: left_out.get(column) or read.types[column] for column in header}
    open_ones = [
        column
        for column in in_order
        if column in keep and column not in (*labels, *categories, *people.declared)
    ]
    others = {
        column: other
        for column in open_ones
        if (other := _other_reading(in_order[column], columns[column])) is not None
    }
    readings = [*_some_of(others), _alike({column: in_order[column] for column in open_ones})]
    schema, chosen = _suiting(Schema.of(name, 1, in_order), readings, suits)
    return InferredSchema(
        schema,
        left_out,
        read.doubts,
        {column: reading.why for column, reading in chosen.items()},
        tell_nothing={
            column: why
            for column, cells in columns.items()
            if isinstance(schema.fields.get(column), Category | Bits)
            and (why := _tells_nothing(cells))
        },
        missing=missing,
        column_types=column_types,
        odd_lines=_odd_lines(people, columns),
    )


def with_header_doubt(problem: str, people: Summarized) -> str:
    """Return a problem with columns' names, and why these are taken for values, where they are."""
    if not people.has_header_line:  # no row is read for it
        return problem
    return "; ".join(filter(None, (problem, _header_doubt(people, people.cells(())))))


def _odd_lines(people: Summarized, columns: Mapping[str, ColumnCells]) -> list[str]:
    """Return why lines are taken for others: the first for values, the last for totals."""
    name, empty = Path(people.path).name, people.empty_rows
    lines = [_header_doubt(people, columns)]
    if any(map(_ends_with_total, columns.values())):
        lines.append(f"the last row of {name} looks like totals, and counts as a user: delete it")
    if empty:
        told = "has no value and counts as a user: delete it, unless it is a user's"
        if empty > 1:
            told = "have no value and count as users: delete those that are no user's"
        lines.append(f"{counted(empty, 'row')} of {name} {told}")
    return [line for line in lines if line]


def _ends_with_total(cells: ColumnCells) -> bool:
    if not isinstance(cells, TextCells):
        return False
    found = [text for text in cells.counts if text.casefold().rstrip(":") in _TOTALS]
    return [cells.counts[text] for text in found] == [1] and cells.first(found) == cells.rows


def _header_doubt(people: Summarized, columns: Mapping[str, ColumnCells]) -> str:
    """Return why the names of columns are taken for values; empty: they are not."""
    # Over a column of numbers each name is one, most of them between its ends, and they are neither
    # years nor a count of the columns; without such a column each name is a value of its column. A
    # name is a text that no row has, where few rows have a text of their own, and one among
    # numbers: of files that were joined with their lines of names.
    numbers: list[tuple[Fraction, NumberEnds]] = []
    values = []
    if not people.has_header_line:
        return ""
    for name, cells in zip(people.written, columns.values(), strict=True):
        ends, ratio = cells.ends(), exact_ratio(name)
        if not cells.total or name in MISSING_TEXTS:
            continue
        if ends is None:
            values.append(name in cells.texts())
            is_new = not values[-1] and cells.share <= _FEW_VALUES
            if is_new or (ratio is None and _not_numbers(cells) is not None):
                return ""
        elif ratio is None:
            return ""
        else:
            numbers.append((Fraction(*ratio), ends))
    within = sum(
        ends.low <= number <= ends.high and not _is_year(number, ends) for number, ends in numbers
    )
    if numbers:
        is_count = _is_count([number for number, _ in numbers])
        is_like = 2 * within > len(numbers) and not is_count
    else:
        is_like = bool(values) and all(values)
    return f"the first line of {Path(people.path).name} {LIKE_VALUES}" if is_like else ""


def _is_year(number: Fraction, ends: NumberEnds) -> bool:
    """Return whether a number is a year, and the column below it is not one of years."""
    are_years = _YEARS[0] <= ends.low <= ends.high <= _YEARS[-1]
    return number.denominator == 1 and int(number) in _YEARS and not are_years


def _is_count(numbers: Sequence[Fraction]) -> bool:
    """Return whether numbers count columns: by equal steps, or as items with some left out."""
    # Two of them do by 1, as pandas' own names. Of items at most every second is left out.
    steps = {after - before for before, after in pairwise(numbers)}
    if len(steps) == 1:
        return len(numbers) > 2 or steps <= {-1, 1}
    are_whole = all(number.denominator == 1 for number in numbers)
    is_long = len(numbers) >= _ITEMS and numbers[-1] - numbers[0] < 2 * len(numbers)
    return are_whole and is_long and min(steps) > 0


def _tells_nothing(cells: ColumnCells) -> str:
    """Return why shares of a column's values tell little; empty: they do not."""
    if cells.total >= _ID_ROWS and cells.share >= _OWN_VALUES:
        return _OWN.format(_distinct_text(cells), cells.total)
    if not isinstance(cells, TextCells):
        return ""
    if cells.distinct >= _MANY_DATES and all(map(_DATE.fullmatch, cells.counts)):
        return _OF_DATES.format(_distinct_text(cells))
    for mark in _LIST_MARKS:
        lists = [[part.strip() for part in text.split(mark)] for text in cells.counts]
        parts = {part for one in lists for part in one} - {""}
        lengths = {len(one) for one in lists}
        is_shorter = 2 < len(parts) <= min(_MOST_ITEMS, cells.distinct - 1)
        several = sum(mark in text and not _is_written_number(text) for text in cells.counts)
        if is_shorter and len(lengths) > 1 and 2 * several >= len(lists):
            return _OF_LISTS.format(len(parts), mark)
    return ""


def _is_written_number(text: str) -> bool:
    """Return whether a reader takes a text for one number, as 2,5 and 1,234."""
    return any(pattern.fullmatch(text) for pattern, *_ in _FORMS)


@dataclass(frozen=True, slots=True)
class _ReadColumns:
    """Columns as they are read, each by its name (see `InferredSchema`)."""

    fields: dict[str, Field] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)


def _read_columns(
    columns: Mapping[str, ColumnCells],
    declared: Mapping[str, tuple[str, ...]],
    label: str | None,
    keep: Collection[str],
    categories: Collection[str],
) -> _ReadColumns:
    """Infer the field of each column, or why it is none; identifiers come last."""
    found = _ReadColumns()
    identifiers: dict[str, Field | None] = {}
    for column, cells in columns.items():
        if column in categories and column != label:
            kind: Field | None = _as_labels(column, cells)
        else:
            frequent = column in keep and not _identifies(cells) and _not_numbers(cells) is None
            labels = declared.get(column, ())
            kind = _infer_column(cells, labels, is_label=column == label, named=frequent)
        doubt = _not_numbers(cells) if kind is None or isinstance(kind, Category) else None
        if column != label and column not in keep and _identifies(cells):
            if doubt is None:
                identifiers[column] = kind
            else:
                found.left_out[column] = doubt
        elif kind is None:
            found.left_out[column] = "; ".join(filter(None, (doubt, _why_not(cells))))
        else:
            found.fields[column] = kind
            if doubt is not None:
                found.doubts[column] = doubt
        if kind is not None:
            found.types[column] = doubt or _described(kind, cells)
    no_other = set(found.fields) <= {label}
    for column, kind in identifiers.items():
        if kind is None:
            found.left_out[column] = _IDENTIFIER
        elif no_other:
            found.fields[column] = kind
        else:
            found.left_out[column] = f"{_IDENTIFIER}; a setting that names the column keeps it"
    return found


def _check_names(people: Summarized, named: Mapping[str, Collection[str]]) -> None:
    """Refuse a setting that names a column that there is not."""
    for setting, columns in named.items():
        for column in columns:
            if column not in people.names:
                told = f"{setting}: {unknown_column(column, people.written)}"
                raise InvalidRecord(with_header_doubt(told, people))


def _nothing_left(path: Path | str, left_out: Mapping[str, str]) -> InvalidRecord:
    shown = [f"{column}: {why}" for column, why in list(left_out.items())[:_SHOWN]]
    more = f"; and {len(left_out) - _SHOWN:,} more" if len(left_out) > _SHOWN else ""
    if any("different texts" in why for why in left_out.values()):
        more += "; keep=[COLUMN] reads one without a list"
    return InvalidRecord(
        f"{path}: expected a column of numbers, or of 2 to {_MAX_LABELS:,} different"
        f" texts, got none: {'; '.join(shown)}{more}"
    )


class _Reading(NamedTuple):
    """Another field of a column, and the note on it: how the column is read, and why."""

    kind: Field
    why: str


_Readings = Mapping[str, _Reading]


def _suiting(
    schema: Schema, readings: Sequence[_Readings], suits: Suits | None
) -> tuple[Schema, _Readings]:
    """Return a schema that suits a question, by the first reading that does, and that reading."""
    if suits is None or suits(schema):
        return schema, {}
    for some in filter(None, readings):
        kinds = {column: reading.kind for column, reading in some.items()}
        other = Schema.of(schema.name, schema.version, {**schema.fields, **kinds})
        if suits(other):
            return other, some
    return schema, {}


def _some_of(others: _Readings) -> Iterator[_Readings]:
    """Generate other readings of one column, of two and so on, and at last of all columns."""
    columns = list(others)[:_MOST_CHOSEN]
    for count in range(1, len(columns) + 1):
        for some in combinations(columns, count):
            yield {column: others[column] for column in some}
    if len(others) > len(columns):
        yield others


def _other_reading(kind: Field, cells: ColumnCells) -> _Reading | None:
    """Return the other reading of a column: codes as labels, yes and no as 1 and 0; None: none."""
    # Other labels that are texts are texts without a list.
    if isinstance(kind, Integer | Bit) and cells.distinct <= _MAX_CODES:
        labels = _with_missing(Category(_in_order(cells.texts())), cells)
        needed = "because the question needs a category"
        return _Reading(labels, f"{len(labels.labels):,} labels, {needed}")
    if isinstance(kind, Category) and {*map(str.casefold, kind.labels)} - {NOTHING} in _YES_NO:
        return _Reading(Bit(), "1 for yes and 0 for no, because the question needs a number")
    if isinstance(kind, Category) and isinstance(cells, TextCells):
        why = "texts without a list, because the question names values that no row has"
        return _Reading(Bits(TEXT_WIDTH), why)
    return None


def _alike(fields: Mapping[str, Field]) -> _Readings:
    """Read columns with the bounds, or the labels, of all of them; empty: none changes."""
    kinds = [*fields.values()]
    if len({*kinds}) < 2:
        return {}
    numbers = [kind for kind in kinds if isinstance(kind, Integer | Real)]
    labels = {label for kind in kinds if isinstance(kind, Category) for label in kind.labels}
    try:
        if len(numbers) == len(kinds):
            low, high = min(kind.low for kind in numbers), max(kind.high for kind in numbers)
            is_whole = all(isinstance(kind, Integer) for kind in numbers)
            kind = _number(NumberEnds(Fraction(low), Fraction(high), is_whole))
            why = f"numbers from {float(low):g} to {float(high):g}, as the question needs one range"
        elif all(isinstance(kind, Category) for kind in kinds):
            nothing = (NOTHING,) if NOTHING in labels else ()
            kind = Category((*nothing, *_in_order(sorted(labels - {NOTHING}))))
            why = "categories with the labels of all columns of the question"
        else:
            return {}
    except InvalidParameter:  # too wide a range, too many labels
        return {}
    return {column: _Reading(kind, why) for column, own in fields.items() if own != kind}


def _as_labels(column: str, cells: ColumnCells) -> Category:
    """Return the category of a column that is to be one."""
    if not 1 <= cells.distinct <= _MAX_LABELS:
        raise InvalidRecord(
            f"categories: expected columns of 1 to {_MAX_LABELS:,} different values, got"
            f" {cells.distinct:,} in {column}"
        )
    return _with_missing(Category(_in_order(cells.texts())), cells)


def _in_order(texts: Sequence[str]) -> tuple[str, ...]:
    """Return labels in order: numbers by their value, before texts."""
    ratios = {text: exact_ratio(text) for text in texts}
    numbers = {text: Fraction(*ratio) for text, ratio in ratios.items() if ratio is not None}
    ordered = sorted(numbers, key=lambda text: (numbers[text], text))
    return (*ordered, *(text for text in texts if text not in numbers))


def _with_missing(kind: Category, cells: ColumnCells) -> Category:
    """Return the category with a label for those who have none, where there are such."""
    if cells.some_missing and NOTHING not in kind.labels:
        return type(kind)((NOTHING, *kind.labels))
    return kind


def _infer_column(
    cells: ColumnCells, declared: tuple[str, ...], *, is_label: bool, named: bool
) -> Field | None:
    """Infer a column's field; None if there is nothing to ask about."""
    # A column of many texts is a field if a setting names it: their list, or texts without a list.
    if is_label:  # no record is predicted to have no label
        return Label(declared or tuple(cells.texts()))
    if cells.distinct < 2 and not declared:
        return None
    if cells.truths and not declared:
        return Bit()
    kind = _infer_field(cells, declared, MAX_LABELS - 1 if named else _MAX_LABELS)
    is_text = isinstance(cells, TextCells) and (cells.ends() is None or _are_codes(cells))
    if kind is None and named and is_text:
        return Bits(TEXT_WIDTH)
    return _with_missing(kind, cells) if isinstance(kind, Category) else kind


def _described(kind: Field, cells: ColumnCells) -> str:
    """Describe a column as it is read."""
    match kind:
        case Category() if _are_codes(cells):
            return f"{len(kind.labels):,} different codes with leading zeros, no numbers"
        case Label():
            return "the label to be predicted"
        case Category():
            return _texts_described(kind, cells)
        case Bit():
            return "truth values"
    return "numbers; --categories makes them labels, or a schema (--schema FILE.toml)"


def _texts_described(kind: Category, cells: ColumnCells) -> str:
    """Describe a column of labels: their number, and what those are that are no numbers."""
    texts = {text for text in kind.labels if exact_ratio(text) is None} - {NOTHING}
    labels = len({*kind.labels} - {NOTHING})  # of a frame's declared ones, no row may have some
    if not texts:
        return f"{labels:,} different numbers, read as labels"
    if len(texts) == labels or not isinstance(cells, TextCells):
        return f"{labels:,} different texts, no numbers"
    told = f"{labels:,} different texts, {len(texts):,} of them no numbers"
    if 2 * len(texts) >= labels or not texts & cells.counts.keys():
        return told
    return f"{told}, the first in row {cells.first(texts):,}: {_EMPTY}"


def _why_not(cells: ColumnCells) -> str:
    """Return the reason for which there is nothing to ask about a column."""
    if isinstance(cells, UnreadCells):
        return cells.why
    if not cells.total:
        return "no value in any row"
    if cells.distinct == 1:
        return "the same value in all rows"
    if not isinstance(cells, TextCells) or (cells.ends() is not None and not _are_codes(cells)):
        return "numbers that are too large: write them in a larger unit"
    if cells.distinct > _MAX_LABELS:
        return f"{_distinct_text(cells)} different texts, at most {_MAX_LABELS:,}"
    long = {text for text in cells.counts if len(text.encode()) > MAX_LABEL_BYTES}
    if long:
        return f"a text of more than {MAX_LABEL_BYTES:,} bytes in row {cells.first(long):,}"
    return "values that are neither numbers in range nor labels"


def _distinct_text(cells: ColumnCells) -> str:
    """Format the number of different values, of which not all may be counted."""
    more = "more than " if isinstance(cells, TextCells) and cells.cut else ""
    return f"{more}{cells.distinct:,}"


def _not_numbers(cells: ColumnCells) -> str | None:
    """Return why a column that looks like numbers is none; None if it does not look so."""
    # Rows count from 1 below the header. No value is shown.
    if not isinstance(cells, TextCells):
        return None
    counts = cells.counts
    texts = {value for value in counts if exact_ratio(value) is None}

    def where(found: Collection[str]) -> str:
        wrong, total = sum(counts[text] for text in found), counts.total()
        return f"in {wrong:,} of {total:,} values, row {cells.first(found):,} the first"

    told = []
    for pattern, form, instead in _FORMS:
        found = [match for text in texts if (match := pattern.fullmatch(text))]
        written = {match.string for match in found}
        units = {match.groups() for match in found}
        few_others = sum(counts[text] for text in texts - written) <= (1 - _MOSTLY) * counts.total()
        is_form = units == {()} or (len(units) == 1 and few_others)
        if is_form and _mostly_numbers(counts, texts, written):
            told.append(f"numbers with {form} {where(written)}: {instead}")
            texts -= written
            break
    if texts and (told or sum(counts[text] for text in texts) <= (1 - _MOSTLY) * counts.total()):
        is_line = cells.first(texts) == sum(counts[text] for text in texts) == 1
        line = ", and delete the row if it is a second line of names" if is_line else ""
        told.append(f"no number {where(texts)}: {_EMPTY}{line}")
    return "; ".join(told) or None


def _mostly_numbers(counts: Counter[str], texts: Collection[str], written: Collection[str]) -> bool:
    """Return whether a column is mostly numbers, if texts of one form are."""
    # `counts` has the number of rows by value and `texts` the values that are no numbers. `written`
    # are those of the form: most of them if the column is of that form.
    of_form, all_texts = (sum(counts[text] for text in some) for some in (written, texts))
    others = all_texts - of_form
    return of_form > others and 2 * others < counts.total()


def _identifies(cells: ColumnCells) -> bool:
    """Return whether nearly all values of a column of texts or whole numbers differ."""
    share = cells.share
    if cells.total < _ID_ROWS or share < _ID_TEXTS:
        return False
    ends = cells.ends()
    if ends is None or _are_codes(cells):  # a text
        return True
    return ends.whole and share >= _ID_NUMBERS and cells.evenly


def _infer_field(cells: ColumnCells, declared: tuple[str, ...], most: int) -> Field | None:
    ends = cells.ends()
    try:
        if declared:
            return Category(declared)
        if ends is None or _are_codes(cells):
            few = cells.distinct <= most
            return Category(tuple(cells.texts())) if few else None
        return _number(ends)
    except InvalidParameter:  # labels too long, numbers too large
        return None


def _are_codes(cells: ColumnCells) -> bool:
    """Return whether whole numbers are texts: with leading zeros, as postal codes are."""
    # Such numbers are of equal length, or one in a hundred rows has such a zero.
    if not isinstance(cells, TextCells):
        return False
    zeros = sum(count for text, count in cells.counts.items() if _LEADING_ZERO.fullmatch(text))
    if not zeros or not all(text.isascii() and text.isdigit() for text in cells.counts):
        return False
    return len({*map(len, cells.counts)}) == 1 or zeros >= _CODES * cells.total


def _number(ends: NumberEnds) -> Field:
    """Return the field of numbers; a grid is fine enough for them and coarse enough to ask."""
    if ends.whole:
        return Integer(int(ends.low), int(ends.high))
    low, high = ends.low, ends.high
    frac = _FRAC_BITS
    while frac < MAX_FRAC and (high - low) * (1 << frac) < _MIN_STEPS:
        frac += 1
    while frac > 0 and (high - low) * (1 << frac) >= MAX_SPREAD // 2:
        frac -= 1
    return Real(low, high, frac)
