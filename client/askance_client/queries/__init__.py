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

from askance_client.queries.expressions import Expression
from askance_client.queries.fields import Bit, Bits, Category, Field, Integer, Label, Real
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import MAX_COMPONENTS, MAX_NODES
from askance_client.queries.operators import constant
from askance_client.queries.program import flatten
from askance_client.queries.query import Query, QueryKind
from askance_client.queries.schema import EncodedRecord, Schema
from askance_client.queries.sigmoid import sigmoid_table

__all__ = [
    "MAX_COMPONENTS",
    "MAX_NODES",
    "Bit",
    "Bits",
    "Category",
    "EncodedRecord",
    "Expression",
    "Field",
    "Integer",
    "Kind",
    "Label",
    "Op",
    "Query",
    "QueryKind",
    "Real",
    "Schema",
    "constant",
    "flatten",
    "sigmoid_table",
]
