"""Queries as an analyst builds them, and their evaluation over columns of records.

Rules of the package:

- A device needs nothing of it: expressions, their types and their evaluation on one record are in
  `askance_client.queries`, and every expression made here is made by its `build`.
- Columns give the integers that a device gives, record by record.

Theory of operation: operators on a schema's fields and the functions of `functions` build an
`Expression`; `building` makes it a `Query`. `encode_columns` puts records on the grid,
`evaluate_columns`, `evaluate_vectors` and `holds` evaluate a query on them. `within_a_step`
compares the queries of a replayed learner with those on record.
"""

from askance_aggregator.queries.building import (
    as_query,
    block_of,
    category,
    merge_disjoint,
    predicate,
    real,
    signed,
    vector,
)
from askance_aggregator.queries.columns import (
    DeferredColumns,
    EncodedColumns,
    encode_columns,
    joined_rows,
)
from askance_aggregator.queries.evaluation import (
    evaluate_columns,
    evaluate_vectors,
    everywhere,
    holds,
    values_of,
    within_a_step,
)
from askance_aggregator.queries.functions import (
    absolute,
    bucketize,
    clip,
    cross,
    dot,
    each_component,
    first,
    index_of,
    maximum,
    minimum,
    parity,
    round_to,
    sigmoid,
    where,
)
from askance_aggregator.queries.presence import (
    among,
    among_present,
    fits_missing_level,
    has_all,
    has_missing_level,
    is_required,
    number_in,
    number_of_complete,
    of_complete,
    presence,
)

__all__ = [
    "DeferredColumns",
    "EncodedColumns",
    "absolute",
    "among",
    "among_present",
    "as_query",
    "block_of",
    "bucketize",
    "category",
    "clip",
    "cross",
    "dot",
    "each_component",
    "encode_columns",
    "evaluate_columns",
    "evaluate_vectors",
    "everywhere",
    "first",
    "fits_missing_level",
    "has_all",
    "has_missing_level",
    "holds",
    "index_of",
    "is_required",
    "joined_rows",
    "maximum",
    "merge_disjoint",
    "minimum",
    "number_in",
    "number_of_complete",
    "of_complete",
    "parity",
    "predicate",
    "presence",
    "real",
    "round_to",
    "sigmoid",
    "signed",
    "values_of",
    "vector",
    "where",
    "within_a_step",
]
