"""Bytes to values and reports to bytes, by protobuf (`service` knows it too, for its envelopes).

Its rules: everything that arrives is bounded in size before it is parsed and in depth before it is
walked; a message with a field this version does not know is refused, since the field may change
what is asked; every failure is a `RemoteProtocolError`, `InvalidQuery` or `InvalidParameter` of one
line. Digests are taken of bytes as received, never of a message serialised again. Requests and
studies are encoded by `askance_aggregator.encoding`.
"""

from askance_client.codec.exchange import decode_report, decode_request, encode_report, study_of
from askance_client.codec.parsing import MAX_MESSAGE_BYTES, digest_of, parse
from askance_client.codec.queries import decode_query
from askance_client.codec.randomizers import decode_randomizer
from askance_client.codec.studies import decode_study, verify_study

__all__ = [
    "MAX_MESSAGE_BYTES",
    "decode_query",
    "decode_randomizer",
    "decode_report",
    "decode_request",
    "decode_study",
    "digest_of",
    "encode_report",
    "parse",
    "study_of",
    "verify_study",
]
