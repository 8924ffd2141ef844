"""Queries on the wire."""

from __future__ import annotations

from askance_client.errors import InvalidQuery
from askance_client.queries import MAX_NODES, Query, Schema
from askance_protos.v1 import query_pb2 as pb


def decode_query(message: pb.Query, schema: Schema) -> Query:
    """The query in `message`, its types and bounds inferred anew from `schema`.

    Raises:
      InvalidQuery: an operation, kind or node that this version does not know or allow.
    """
    if len(message.nodes) > MAX_NODES:  # before anything costs time
        raise InvalidQuery(f"query: expected 1..{MAX_NODES} nodes, found {len(message.nodes)}")
    return Query.rebuilt(
        message.kind,
        message.nodes,  # read where they are: a thousand values between would take as long again
        schema,
        low=message.low,
        high=message.high,
        default=message.default,
    )
