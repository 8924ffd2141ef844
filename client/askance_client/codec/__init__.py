"""Bytes to values and reports to bytes, by protobuf (`service` knows it too, for its envelopes).

Its rules: everything that arrives is bounded in size before it is parsed and in depth before it is
walked; a message with a field this version does not know is refused, since the field may change
what is asked; every failure is a `RemoteProtocolError`, `InvalidQuery` or `InvalidParameter` of one
line. Digests are taken of bytes as received, never of a message serialised again. Requests and
studies are encoded by `askance_aggregator.encoding`.
"""

from askance_client.codec.exchange import decode_report as decode_report
from askance_client.codec.exchange import decode_request as decode_request
from askance_client.codec.exchange import encode_report as encode_report
from askance_client.codec.exchange import study_of as study_of
from askance_client.codec.parsing import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES
from askance_client.codec.parsing import digest_of as digest_of
from askance_client.codec.parsing import parse as parse
from askance_client.codec.queries import decode_query as decode_query
from askance_client.codec.randomizers import decode_randomizer as decode_randomizer
from askance_client.codec.studies import decode_study as decode_study
from askance_client.codec.studies import verify_study as verify_study
