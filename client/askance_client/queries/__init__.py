"""Schemas, expressions and queries: a query is data, not code.

Rules of this package:

- It knows neither gRPC nor protobuf, and imports only the standard library, numpy and the errors.
- A value is an integer over a power of two. Arithmetic is exact; only `round_to` (half up) and
  `sigmoid` (a stated integer table) round. No float decides anything: floats appear in `columns`
  alone, as data on its way to the grid.
- Every expression is made by `expressions.build`, which infers its kind, grid and bounds and
  refuses what is ill-typed, too large, or could reach 2^62. An untrusted program goes the
  same way (`rebuild`), against this device's own schema.
- A record and a column of millions are evaluated by the same steps, to the same integers.
- A value that is missing or unreadable is no error: the query answers its public default.

Theory of operation: `Schema` turns a record into integers (`fields`, `columns`). Operators on its
fields build an `Expression` (`expressions`, `functions`; typing rules in `inference`). `Query`
adds what is asked of the value. A `Program` is the expression as a canonical list of nodes, with
bytes (`program`); `evaluate` compiles it to steps over slots.
"""

from askance_client.queries.comparison import within_a_step
from askance_client.queries.exact import Exact
from askance_client.queries.expressions import Expression, constant
from askance_client.queries.fields import (
    Bit,
    Bits,
    Category,
    Field,
    Integer,
    Label,
    Real,
    ValueType,
)
from askance_client.queries.functions import (
    absolute,
    bucketize,
    clip,
    cross,
    dot,
    each_component,
    first,
    hadamard,
    index_of,
    maximum,
    minimum,
    parity,
    round_to,
    sigmoid,
    where,
)
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import MAX_COMPONENTS, MAX_NODES
from askance_client.queries.program import Node, Program, flatten, rebuild
from askance_client.queries.query import (
    Query,
    QueryKind,
    as_query,
    block_of,
    category,
    merge_disjoint,
    predicate,
    real,
    signed,
    vector,
)
from askance_client.queries.schema import (
    Encoded,
    EncodedColumns,
    EncodedRecord,
    Schema,
    UnknownField,
)
from askance_client.queries.sigmoid import SIGMOID_FRAC, sigmoid_table

__all__ = [
    "MAX_COMPONENTS",
    "MAX_NODES",
    "SIGMOID_FRAC",
    "Bit",
    "Bits",
    "Category",
    "Encoded",
    "EncodedColumns",
    "EncodedRecord",
    "Exact",
    "Expression",
    "Field",
    "Integer",
    "Kind",
    "Label",
    "Node",
    "Op",
    "Program",
    "Query",
    "QueryKind",
    "Real",
    "Schema",
    "UnknownField",
    "ValueType",
    "absolute",
    "as_query",
    "block_of",
    "bucketize",
    "category",
    "clip",
    "constant",
    "cross",
    "dot",
    "each_component",
    "first",
    "flatten",
    "hadamard",
    "index_of",
    "maximum",
    "merge_disjoint",
    "minimum",
    "parity",
    "predicate",
    "real",
    "rebuild",
    "round_to",
    "sigmoid",
    "sigmoid_table",
    "signed",
    "vector",
    "where",
    "within_a_step",
]
