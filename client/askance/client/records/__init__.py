"""People's records as files hold them: CSV or JSON, and schemas in TOML.

Rules of the room:

- A device and a simulation read the same file by this code, so that a record is on the same grid
  whoever reads it.
- A number is kept as it was written, as text or as an exact fraction, never as a float.
- A value that is missing or unreadable is no error: a query over it answers its public default. A
  file that is none, or a row of another shape, is one `InvalidRecord` that names the line; no error
  repeats a value.
- The room knows the standard library, `queries` and `errors`.

Theory of operation: `read_table` gives a `Table`, rows of raw cells under the columns' names; what
a field's name cannot hold is "_" in it. `Table.encoder` puts rows on a schema's grid one by one;
`Table.column` gives a column's values for `Schema.encode_columns`, which is the same for all rows.
"""

from askance.client.records.schema_files import (
    schema_from_table,
    schema_from_toml,
    table_from_schema,
)
from askance.client.records.tables import (
    NOTHING,
    Table,
    field_name,
    is_missing,
    read_csv,
    read_json,
    read_table,
)

__all__ = [
    "NOTHING",
    "Table",
    "field_name",
    "is_missing",
    "read_csv",
    "read_json",
    "read_table",
    "schema_from_table",
    "schema_from_toml",
    "table_from_schema",
]
