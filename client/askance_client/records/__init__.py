"""Users' records in files: CSV or JSON, and schemas in TOML.

Rules of the package:

- A device and a simulation read the same file by this code, so that a record is on the same grid
  for both.
- A number is kept as it was written, as text or as an exact fraction, never as a float.
- A value that is missing or unreadable is no error: a query over it answers its public default. A
  malformed row is a record without any value (`Table.malformed`): a device's owner is warned, a
  simulation refuses the file (`Table.checked`). A file that is none is one `InvalidRecord`. Errors
  and warnings name the line and repeat no value.
- The package imports the standard library, `queries` and `errors`.

Theory of operation: `read_table` gives a `Table`, rows of raw cells under the columns' names; what
a field's name cannot hold is "_" in it. `Table.encoder` puts rows on a schema's grid one by one;
`Table.column` gives a field's values, for all rows.
"""

from askance_client.records.schema_files import (
    schema_from_table,
    schema_from_toml,
    table_from_schema,
)
from askance_client.records.tables import (
    MAX_CELL_CHARACTERS,
    MAX_DIGITS,
    NOTHING,
    Table,
    field_name,
    is_missing,
    is_utf_8,
    read_csv,
    read_json,
    read_table,
)

__all__ = [
    "MAX_CELL_CHARACTERS",
    "MAX_DIGITS",
    "NOTHING",
    "Table",
    "field_name",
    "is_missing",
    "is_utf_8",
    "read_csv",
    "read_json",
    "read_table",
    "schema_from_table",
    "schema_from_toml",
    "table_from_schema",
]
