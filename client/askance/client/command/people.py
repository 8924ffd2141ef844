"""Whom a device stands for: the people of a records file, their names and their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from askance.client.command.configuration import Configuration
from askance.client.errors import InvalidParameter, InvalidRecord
from askance.client.queries import EncodedRecord, Schema
from askance.client.records import Table, is_missing, read_table, schema_from_toml

ALONE = ""  # the name of the one person of a single device


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The people of a configuration, in the file's order.

    Args:
      schema: what a record is.
      names: of the members; for a single device `ALONE`.
      record: the record of the member at a place in `names`.
      unfit: how many of them have a value that fits nothing in the schema, by field.
    """

    schema: Schema
    names: tuple[str, ...]
    record: Callable[[int], EncodedRecord]
    unfit: Mapping[str, int]


def read_people(configuration: Configuration) -> People:
    """Reads the files that a configuration names.

    Raises:
      InvalidRecord: a bad file, a row that is not there, a name that is none or that two rows have.
      InvalidParameter: the policy names a field that the schema does not have.
    """
    source = configuration.records
    schema = schema_from_toml(source.schema)
    unknown = sorted((configuration.policy.fields or frozenset()) - schema.fields.keys())
    if unknown:
        raise InvalidParameter(
            f"{configuration.path}: policy.fields: expected fields of the schema,"
            f" found {unknown[0]!r}"
        )
    table = read_table(source.data)
    encode = table.encoder(schema)
    if source.row is None:
        return People(schema, _names(table, source.key), encode, table.unfit(schema))
    row = source.row
    if row >= len(table.rows):
        raise InvalidRecord(
            f"{configuration.path}: records.row: expected one of {len(table.rows)} rows from 0,"
            f" found {row}"
        )
    alone = Table(table.path, table.written, table.names, (table.rows[row],))
    return People(schema, (ALONE,), alone.encoder(schema), alone.unfit(schema))


def _names(table: Table, key: str | None) -> tuple[str, ...]:
    if key is None:
        return tuple(str(row) for row in range(len(table.rows)))
    place = table.place(key)
    names: dict[str, int] = {}
    for row, cells in enumerate(table.rows):
        name = _name(table, row, cells[place])
        if name in names:
            raise InvalidRecord(
                f"{table.path}: expected a name once in column {key!r}, found it in rows"
                f" {names[name]} and {row}"
            )
        names[name] = row
    return tuple(names)


def _name(table: Table, row: int, cell: object) -> str:
    if is_missing(cell) or isinstance(cell, bool) or not isinstance(cell, str | int):
        raise InvalidRecord(f"{table.path}: expected a name in row {row}, found none")
    return str(cell)
