"""Rows as tables: Arrow's, pandas' where it is installed, and files: JSON lines, CSV, Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from askance_aggregator.csv_tables import csv_table
from askance_aggregator.extras import not_installed
from askance_client.errors import InvalidParameter
from askance_simulation.output_files import replaced, write_whole


def flat(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with the same names in the same order; `settings` becomes `settings.NAME`.

    Text that is a number in every row that has it becomes one.
    """
    opened = [_opened(row) for row in rows]
    names = dict.fromkeys(name for row in opened for name in row)
    columns = {name: [row.get(name) for row in opened] for name in names}
    columns |= {
        name: _numbers(values) for name, values in columns.items() if name.startswith("settings.")
    }
    return [{name: columns[name][place] for name in columns} for place in range(len(opened))]


def to_arrow(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a `pyarrow.Table`, one column per name; a column of several kinds becomes text."""
    _installed("pyarrow", "to_arrow")
    import pyarrow

    whole = flat(rows)
    names = list(whole[0]) if whole else []
    return pyarrow.table({name: _of_one_kind([row[name] for row in whole]) for name in names})


def to_pandas(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a `pandas.DataFrame`, one column per name."""
    _installed("pandas", "to_pandas")
    return to_arrow(rows).to_pandas()


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows to a .jsonl or .parquet file, whole or not at all."""
    if path.suffix not in (".jsonl", ".parquet"):
        raise InvalidParameter(f"expected a file named *.jsonl or *.parquet, got {path}")
    if path.suffix == ".jsonl":
        write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return
    import pyarrow
    from pyarrow import parquet

    with replaced(path) as partial:
        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), partial)


def write_table(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a table, a .csv or .parquet file with one column per name, whole or not at all.

    Text is UTF-8, lines end as RFC 4180 has it, and a value that is absent is an empty cell; a CSV
    has no formulas (see `csv_tables`).
    """
    if path.suffix == ".csv":
        whole = [{name: _cell(value) for name, value in row.items()} for row in flat(rows)]
        write_whole(path, csv_table(whole, line_end="\r\n").encode())
    elif path.suffix == ".parquet":
        table = to_arrow(rows)
        from pyarrow import parquet

        with replaced(path) as partial:
            parquet.write_table(table, partial)
    else:
        raise InvalidParameter(f"expected a file named *.csv or *.parquet, got {path}")


def _cell(value: Any) -> Any:
    """Return a value of a CSV's cell: a list as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple) else value


def _installed(package: str, for_what: str) -> None:
    if find_spec(package) is None:
        raise not_installed(for_what, package, "frames")


def _opened(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": item for inner, item in value.items()}
        else:
            found[name] = value
    return found


def _numbers(values: list[Any]) -> list[Any]:
    readers: tuple[Callable[[str], int | float], ...] = (int, float)
    for read in readers:
        try:
            return [None if value is None else read(value) for value in values]
        except ValueError:
            continue
    return values


def _of_one_kind(values: list[Any]) -> list[Any]:
    """Return a column of a table has one type; whole numbers are among the others."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]
