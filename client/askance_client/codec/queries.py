"""Queries on the wire."""

from __future__ import annotations

from askance_client.codec.parsing import parse
from askance_client.errors import InvalidQuery
from askance_client.queries import MAX_NODES, Query, Schema
from askance_protos.v1 import query_pb2 as pb


def encode_query(query: Query) -> pb.Query:
    """The message for `query`: its canonical nodes, range and default."""
    return pb.Query(
        kind=pb.QueryKind.ValueType(query.kind),
        nodes=[
            pb.Node(
                op=node.op, args=node.args, name=node.name, constants=node.constants, frac=node.frac
            )
            for node in query.nodes
        ],
        low=query.low,
        high=query.high,
        default=query.default,
    )


def query_to_bytes(query: Query) -> bytes:
    """A query alone, as a transcript keeps it."""
    return encode_query(query).SerializeToString(deterministic=True)


def query_from_bytes(data: bytes, schema: Schema) -> Query:
    """The query in `data` (see `decode_query`).

    Raises:
      RemoteProtocolError: not a query's bytes.
    """
    return decode_query(parse(pb.Query, data), schema)


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
