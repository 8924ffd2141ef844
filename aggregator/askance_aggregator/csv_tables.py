"""Tables as CSV for spreadsheets, which take a text as a formula by its first character.

A text that begins with `=`, `+`, `-`, `@`, one of these in full width, a tab or an end of line gets
an apostrophe before it: a title or a label may come from a person who means harm, and a formula can
send the other cells away. So does a text in which only apostrophes and then only blanks, which some
readers skip, stand before such a character. A reader that takes away one
apostrophe where that pattern is has each text as it was. Numbers are left alone, also as texts.

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

_FORMULA = re.compile(r"'*([\t\r\n]|\s*[=+\-@＝＋－＠])")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

_QUOTED = "\r\n"  # a cell with an end of line is quoted if the line's own has that character


def csv_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), *, line_end: str = "\n"
) -> str:
    """Return rows as CSV, with a line of heads.

    Args:
      rows: values by column; None and a column that is left out are empty cells.
      columns: in their order; default: those of the first row, and no row has others.
      line_end: behind each line.
    """
    names: list[Any] = list(columns or (rows[0] if rows else ()))
    more = () if columns else sorted({name for row in rows for name in row} - {*names})
    if more:
        raise ValueError(f"rows: expected the columns of the first row, got {', '.join(more)} too")
    lines, text = list[str](), io.StringIO()
    writer = csv.writer(text, lineterminator=_QUOTED)
    for values in (names, *([row.get(name) for name in names] for row in rows)):
        writer.writerow(map(_cell, values))
        lines.append(text.getvalue().removesuffix(_QUOTED) + line_end)
        text.seek(0)
        text.truncate()
    return "".join(lines)


def _cell(value: Any) -> Any:
    """Return a value that no spreadsheet takes as a formula."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"
