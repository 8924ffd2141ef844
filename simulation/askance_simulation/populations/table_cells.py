"""Records of a table in memory, as of a CSV file: counted by cell, and encoded on the grid."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns
from askance_aggregator.queries.columns import ColumnValue, encode_column, rows_of
from askance_client.queries import Schema
from askance_client.records import Table, is_missing
from askance_simulation.populations.cells import ColumnCells, TextCells
from askance_simulation.populations.columns import narrowed
from askance_simulation.populations.outside_values import Outside


class RecordsOfTable:
    """Records of a table (see `tables.Records`), in which repeated texts are encoded once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.path = table.path
        self.written = table.written
        self.names = table.names

    def __len__(self) -> int:
        return len(self._table.rows)

    def cells(self, label: str | None) -> dict[str, ColumnCells]:
        """Count every column's cells."""
        columns = zip(*self._table.rows, strict=True)
        return {
            name: TextCells.of(column) for name, column in zip(self.names, columns, strict=True)
        }

    def outside(self, schema: Schema) -> dict[str, Outside]:
        """Count the values of each field that a schema does not know or clamps."""
        found = {}
        for name, kind in schema.fields.items():
            place = self._table.column_index(name)
            cells = Counter(row[place] for row in self._table.rows)
            given = {cell: count for cell, count in cells.items() if not is_missing(cell)}
            found[name] = Outside.of(kind, given)
        return found

    def encoded(self, schema: Schema) -> EncodedColumns:
        """Return all rows on the grid."""
        values: dict[str, ColumnValue] = {}
        present: dict[str, NDArray[np.bool_]] = {}
        for name, kind in schema.fields.items():
            column = self._table.column(name, kind)
            places = {cell: place for place, cell in enumerate(dict.fromkeys(column))}
            chosen = np.fromiter(map(places.__getitem__, column), np.int64, len(column))
            found, known = encode_column(name, kind, list(places))
            present[name] = known[chosen]
            values[name] = rows_of(found, chosen)
        return narrowed(schema, EncodedColumns(values, present, len(self)))
