"""Members that a device stands for: their names and records, from a records file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from askance_client.cli.configuration import DeviceConfiguration
from askance_client.cli.naming import binding
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import EncodedRecord, Schema
from askance_client.records import read_table, schema_from_toml


@dataclass(frozen=True, slots=True, eq=False)
class MemberRoster:
    """Members of a configuration, in the file's order.

    Args:
      schema: what a record is.
      names: of the members; for a single device `naming.ALONE`.
      record: the record of the member at a place in `names`.
      unfit: how many of them have a value that fits nothing in the schema, by field.
      binding: what the folder's ledger must be bound to (see `naming.binding`).
      warnings: malformed rows and rows that are left out, by place in the file, without a value.
    """

    schema: Schema
    names: tuple[str, ...]
    record: Callable[[int], EncodedRecord]
    unfit: Mapping[str, int]
    binding: Mapping[str, str]
    warnings: tuple[str, ...]


def read_people(configuration: DeviceConfiguration) -> MemberRoster:
    """Read the files that a configuration names.

    Raises:
      InvalidRecord: a bad file, a row that is not there, a name that two rows have, or no name.
      InvalidParameter: the policy names a field that the schema does not have.
    """
    source = configuration.records
    schema = read_schema(configuration)
    table = read_table(source.data)
    chosen = source.naming.choose(table)
    if not chosen.rows:
        raise InvalidRecord(f"{table.path}: expected a row with a usable name, got none")
    theirs = table.choose(tuple(chosen.rows.values()))
    warnings = [f"{problem}; values count as missing" for problem in theirs.malformed.values()]
    warnings += [f"{problem}; left out, for want of a certain name" for problem in chosen.left_out]
    return MemberRoster(
        schema,
        tuple(chosen.rows),
        theirs.encoder(schema),
        theirs.unfit(schema),
        binding(source.naming, schema),
        tuple(f"{table.path}: {warning}" for warning in warnings),
    )


def read_schema(configuration: DeviceConfiguration) -> Schema:
    """Read the schema that a configuration names.

    Raises:
      InvalidRecord: not a schema.
      InvalidParameter: the policy names a field that the schema does not have.
    """
    schema = schema_from_toml(configuration.records.schema)
    unknown = sorted((configuration.policy.fields or frozenset()) - schema.fields.keys())
    if unknown:
        raise InvalidParameter(
            f"{configuration.path}: policy.fields: expected fields of the schema,"
            f" found {unknown[0]!r}"
        )
    return schema
