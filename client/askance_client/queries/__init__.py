"""Schemas, expressions and queries: a query is data, not code.

Rules of the package:

- It knows neither gRPC nor protobuf, and imports only the standard library and the errors.
- A value is an integer over a power of two. Arithmetic is exact; only `round_to` (half up) and
  `sigmoid` (a stated integer table) round. No float decides anything.
- Every expression is made by `expressions.build`, which infers its kind, grid and bounds and
  refuses one that is ill-typed, too large, or could reach 2^62. A program that was received goes
  the same way (`rebuild`), against this device's own schema.
- A value that is missing or unreadable is no error: the query answers its public default.

Theory of operation: `Schema` turns a record into integers (`fields`). Operators on its fields build
an `Expression` (`expressions`; typing rules in `inference`). `Query` adds its kind, bounds and
default. `operators` and `rendering` are for those who write queries; a device that answers needs
neither. A `Program` is the expression as a canonical list of nodes, with bytes (`program`);
`evaluate` compiles it to steps over slots. Functions that build queries, and evaluation over
columns, are an aggregator's: `askance_aggregator.queries`.
"""

from askance_client.queries.expressions import Expression as Expression
from askance_client.queries.fields import Bit as Bit
from askance_client.queries.fields import Bits as Bits
from askance_client.queries.fields import Category as Category
from askance_client.queries.fields import Field as Field
from askance_client.queries.fields import Integer as Integer
from askance_client.queries.fields import Label as Label
from askance_client.queries.fields import Real as Real
from askance_client.queries.kinds import Kind as Kind
from askance_client.queries.kinds import Op as Op
from askance_client.queries.limits import MAX_COMPONENTS as MAX_COMPONENTS
from askance_client.queries.limits import MAX_NODES as MAX_NODES
from askance_client.queries.operators import constant as constant
from askance_client.queries.program import flatten as flatten
from askance_client.queries.query import Query as Query
from askance_client.queries.query import QueryKind as QueryKind
from askance_client.queries.schema import EncodedRecord as EncodedRecord
from askance_client.queries.schema import Schema as Schema
from askance_client.queries.sigmoid import sigmoid_table as sigmoid_table
