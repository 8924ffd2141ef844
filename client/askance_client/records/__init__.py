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

from askance_client.records.histories import KeptHistory as KeptHistory
from askance_client.records.naming import ALONE as ALONE
from askance_client.records.naming import AllRows as AllRows
from askance_client.records.naming import ByColumn as ByColumn
from askance_client.records.naming import ByNumber as ByNumber
from askance_client.records.naming import Naming as Naming
from askance_client.records.naming import OneRow as OneRow
from askance_client.records.naming import binding as binding
from askance_client.records.origins import KINDS as KINDS
from askance_client.records.origins import Origin as Origin
from askance_client.records.origins import SourceSettings as SourceSettings
from askance_client.records.origins import kind_of_path as kind_of_path
from askance_client.records.origins import open_source as open_source
from askance_client.records.processes import an_endpoint as an_endpoint
from askance_client.records.schema_files import schema_from_table as schema_from_table
from askance_client.records.schema_files import schema_from_toml as schema_from_toml
from askance_client.records.sources import LiveRecord as LiveRecord
from askance_client.records.sources import Members as Members
from askance_client.records.sources import ReadLimits as ReadLimits
from askance_client.records.sources import RecordSource as RecordSource
from askance_client.records.sources import Several as Several
from askance_client.records.sources import SourceFailed as SourceFailed
from askance_client.records.table_sources import CallableSource as CallableSource
from askance_client.records.tables import NOTHING as NOTHING
from askance_client.records.tables import Table as Table
from askance_client.records.tables import field_name as field_name
from askance_client.records.tables import field_names as field_names
from askance_client.records.tables import is_missing as is_missing
from askance_client.records.tables import read_csv as read_csv
