"""Formats that a file has in place of CSV in UTF-8, by its first bytes, and what helps."""

from __future__ import annotations

import re
from pathlib import Path

from askance_client.errors import InvalidRecord

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Characters between cells, and their names."""

_HEAD = 1 << 16  # bytes that are looked at: the header line, and more
_BOMS = (b"\xff\xfe", b"\xfe\xff")
_OTHERS = (
    (b"PAR1", "Parquet", "give it a name that ends in .parquet"),
    (b"PK\x03\x04", "a workbook or a zip archive", "save its table as CSV in UTF-8"),
    (b"\x1f\x8b", "gzip", "decompress it with gunzip"),
    (b"SQLite format 3\x00", "an SQLite database", "export its table as CSV"),
    (b"%PDF", "PDF", "save its table as CSV in UTF-8"),
)


def check_format(path: Path, delimiter: str) -> None:
    """Refuse a file whose first bytes are of another format; what is no regular file passes.

    Raises:
      InvalidRecord: the first bytes are of another format or encoding, or the header line has one
        column and another delimiter. The message says what helps.
    """
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return  # the reader of the records has the error
    for start, name, help_ in _OTHERS:
        if head.startswith(start):
            raise InvalidRecord(f"{path}: expected CSV, got a file that looks like {name}: {help_}")
    if head.startswith(_BOMS) or head[1:64:2].count(0) > len(head[:64]) // 4:
        raise InvalidRecord(
            f"{path}: expected text in UTF-8, got a file that looks like UTF-16: convert it by"
            f" iconv -f UTF-16 -t UTF-8 {path.name} > new.csv"
        )
    _check_header(path, head.removeprefix(b"\xef\xbb\xbf").splitlines()[:1], delimiter)


def _check_header(path: Path, lines: list[bytes], delimiter: str) -> None:
    """Refuse a header line that is not UTF-8, is JSON, or has another delimiter."""
    for line in lines:
        try:
            header = re.sub(r'"[^"]*"', "", line.decode())
        except UnicodeDecodeError:
            raise InvalidRecord(
                f"{path}: expected text in UTF-8, got other bytes in the header line{_CONVERT}"
            ) from None
        if header.lstrip().startswith(("{", "[{")) or header.strip() == "[":
            raise InvalidRecord(
                f"{path}: expected CSV with a header line, got a file that looks like JSON: convert"
                " it to CSV"
            )
        counts = {other: header.count(other) for other in DELIMITERS if other != delimiter}
        likely = max(counts, key=counts.__getitem__)
        if delimiter not in header and counts[likely]:
            shown = "tab" if likely == "\t" else f"'{likely}'"
            raise InvalidRecord(
                f"{path}: expected {DELIMITERS[delimiter]} between columns, got one column and"
                f" {counts[likely]:,} {DELIMITERS[likely]} in the header line: looks like"
                f" {DELIMITERS[likely]}, try --delimiter {shown}"
            )


_CONVERT = (
    ": convert it, from Windows-1252 for example by iconv -f WINDOWS-1252 -t UTF-8 FILE > new.csv"
)


def remedy(problem: str, delimiter: str) -> str:
    """Return what helps against a malformed row, by the problem that `Table.malformed` has."""
    remedies = {
        "UTF-8": _CONVERT,
        "quotes": ": inside a cell in quotes write each quote twice",
        "cells, got": f": write quotes around a cell that has {delimiter!r} in it, as a decimal"
        " comma or a list has",
    }
    return next((text for part, text in remedies.items() if part in problem), "")
