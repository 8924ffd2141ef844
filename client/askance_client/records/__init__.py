"""Users' records: tables in files, sources that are read for each question, and schemas in TOML.

Rules of the package:

- A device and a simulation read the same file by this code, so that a record is on the same grid
  for both.
- A number in a file is kept as it was written, as text or as an exact fraction, never as a float. A
  float that a database or a function returns is exactly the number that it is.
- A value that is missing or unreadable is no error: a query over it answers its public default. A
  malformed row is a record without any value (`Table.malformed`): a device's owner is warned, a
  simulation refuses the file (`Table.checked`). A file that is none is one `InvalidRecord`. Errors
  and warnings name the line and repeat no value.
- A source (`RecordSource`) is read for every new question, after all is decided about it. Whatever
  it raises leaves the answer to the public default.
- The package imports the standard library, `queries`, `addresses`, `printable` and
  `errors`; pyarrow and duckdb where a configuration names such a file.

Theory of operation: `read_csv` and its like give a `Table`, rows of raw cells under the columns'
names; what a field's name cannot hold is "_" in it. `Table.encoder` puts rows on a schema's grid
one by one; `Table.column` gives a field's values, for all rows. A `Naming` gives the rows of each
member. `KINDS` lists the kinds of sources; `LiveRecord` is what a device is given of one.
"""

from askance_client.records.histories import KeptHistory
from askance_client.records.naming import (
    ALONE,
    AllRows,
    ByColumn,
    ByNumber,
    Naming,
    OneRow,
    binding,
)
from askance_client.records.origins import KINDS, Origin, SourceSettings, kind_of_path, open_source
from askance_client.records.processes import an_endpoint
from askance_client.records.schema_files import schema_from_table, schema_from_toml
from askance_client.records.sources import (
    LiveRecord,
    Members,
    ReadLimits,
    RecordSource,
    Several,
    SourceFailed,
)
from askance_client.records.table_sources import CallableSource
from askance_client.records.tables import NOTHING, Table, field_name, is_missing, read_csv

__all__ = [
    "ALONE",
    "KINDS",
    "NOTHING",
    "AllRows",
    "ByColumn",
    "ByNumber",
    "CallableSource",
    "KeptHistory",
    "LiveRecord",
    "Members",
    "Naming",
    "OneRow",
    "Origin",
    "ReadLimits",
    "RecordSource",
    "Several",
    "SourceFailed",
    "SourceSettings",
    "Table",
    "an_endpoint",
    "binding",
    "field_name",
    "is_missing",
    "kind_of_path",
    "open_source",
    "read_csv",
    "schema_from_table",
    "schema_from_toml",
]
