"""Bytes to values and back, by way of protobuf (only `service` knows it too, for its envelopes).

Its rules: everything that arrives is bounded in size before it is parsed and in depth before it is
walked; a message with a field this version does not know is refused, since the field may change
what is asked; every failure is a `RemoteProtocolError`, `InvalidQuery` or `InvalidParameter` of one
line. Digests are taken of bytes as received, never of a message serialised again.
"""

from askance_client.codec.exchange import (
    decode_report,
    decode_request,
    encode_report,
    encode_request,
    study_of,
)
from askance_client.codec.parsing import MAX_MESSAGE_BYTES, digest_of, parse
from askance_client.codec.queries import (
    decode_query,
    encode_query,
    query_from_bytes,
    query_to_bytes,
)
from askance_client.codec.randomizers import decode_randomizer, encode_randomizer
from askance_client.codec.schemas import decode_schema, encode_schema
from askance_client.codec.studies import decode_study, encode_study, sign_study, verify_study

__all__ = [
    "MAX_MESSAGE_BYTES",
    "decode_query",
    "decode_randomizer",
    "decode_report",
    "decode_request",
    "decode_schema",
    "decode_study",
    "digest_of",
    "encode_query",
    "encode_randomizer",
    "encode_report",
    "encode_request",
    "encode_schema",
    "encode_study",
    "parse",
    "query_from_bytes",
    "query_to_bytes",
    "sign_study",
    "study_of",
    "verify_study",
]
