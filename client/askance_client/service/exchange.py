"""Exchange between a device and its aggregator, as values and as bytes.

The same messages serve both calls (`CheckIn` and `Participate`). The aggregator shares the values
and the limits; only the device's half of the bytes is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from askance_client.codec import MAX_MESSAGE_BYTES, parse
from askance_client.codec.exchange import DIGEST_BYTES
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, SignedStudy
from askance_client.randomizers import MAX_LEVELS, MAX_SYMBOLS
from askance_protos.v1 import exchange_pb2 as pb

PROTOCOL = 1
"""Version of the exchange.

A field, status or message kind that this version does not have needs a higher one: neither side
sends what the other's version lacks, and each refuses what it does not know.
"""
SERVICE = pb.DESCRIPTOR.services_by_name["Devices"].full_name

MAX_REPORTS = 64  # reports in one message
MAX_REQUESTS = 64  # requests in one message
# Entries of tables in one message, which take long to examine: 0.35 s for a table of 720 x 720.
# Twice as many as one such table has, so that a message takes less than a second.
MAX_ENTRIES = 1 << 20
MAX_STUDIES = 64
MAX_ENROLMENTS = 4096  # devices in one message
MAX_ENROLMENT_TOKEN_BYTES = 1024
MAX_KNOWN_STUDIES = 256
MAX_REQUEST_MESSAGE_BYTES = 1024 * 1024
# Of a device's or a gateway's message: an aggregator accounts for bytes once a message is whole.
MAX_CHECK_IN_BYTES = 128 * 1024
# Of reports in it, unless one alone has more. An aggregator takes 64 KiB from a connection whose
# caller it does not know yet: a handshake, tokens, digests of studies, and these.
BATCH_BYTES = MAX_CHECK_IN_BYTES // 4
# Calls of a client over one connection; a process with more opens more connections. An aggregator
# accepts twice as many: each may hold a header list of 1.4 MB, and gRPC lets more wait in silence.
STREAMS_PER_CONNECTION = 8
# Room for the longest request or study and all that may stand beside it.
MAX_RESPONSE_BYTES = 4 * MAX_MESSAGE_BYTES


class ExchangeTooLarge(RemoteProtocolError):
    """More bytes or items in one message than an exchange may have."""


@dataclass(frozen=True, slots=True)
class CheckIn:
    """Reports of a device, and the studies that it knows (in its first message)."""

    reports: tuple[bytes, ...] = ()
    known_studies: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """Response of an aggregator: acknowledgements, new studies, new requests.

    `acknowledged_sequence` is the highest sequence number in the device's reports that the
    aggregator has made durable; 0: none.
    """

    acks: tuple[tuple[bytes, AckStatus], ...] = ()
    studies: tuple[SignedStudy, ...] = ()
    requests: tuple[bytes, ...] = ()
    retry_after_ms: int = 0
    acknowledged_sequence: int = 0


@dataclass(frozen=True, slots=True)
class Enrol:
    """Devices to be made known, each as its id and the SHA-256 of its token.

    `gateway` is the gateway that they are members of, None for none.
    """

    devices: tuple[tuple[bytes, bytes], ...]
    gateway: tuple[bytes, bytes] | None = None


def encode_check_in(message: CheckIn) -> bytes:
    """The bytes of what a device says."""
    return pb.CheckInRequest(
        reports=message.reports, known_studies=message.known_studies
    ).SerializeToString(deterministic=True)


def encode_enrol(message: Enrol) -> bytes:
    """The bytes of an enrolment."""
    return pb.EnrolRequest(
        devices=[
            pb.Enrolment(device_id=device_id, token_digest=digest)
            for device_id, digest in message.devices
        ],
        gateway=(
            None
            if message.gateway is None
            else pb.Enrolment(device_id=message.gateway[0], token_digest=message.gateway[1])
        ),
    ).SerializeToString(deterministic=True)


def decode_enrolled(data: bytes) -> tuple[int, int]:
    """Decode the numbers of new devices and of devices that were enrolled already."""
    message = parse(pb.EnrolResponse, data)
    return message.enrolled, message.known


def decode_response(data: bytes) -> Response:
    """Decode an aggregator's response."""
    check_size("CheckInResponse", data, MAX_RESPONSE_BYTES)
    message = parse(pb.CheckInResponse, data, limit=MAX_RESPONSE_BYTES)
    check_count("acks", len(message.acks), MAX_REPORTS)
    check_count("studies", len(message.studies), MAX_STUDIES)
    check_count("requests", len(message.requests), MAX_REQUESTS)
    check_count("entries of tables", entries_of(message.requests), MAX_ENTRIES)
    return Response(
        tuple(decode_ack(ack) for ack in message.acks),
        tuple(SignedStudy(s.study, s.public_key, s.signature) for s in message.studies),
        tuple(message.requests),
        message.retry_after_ms,
        message.acknowledged_sequence,
    )


def entries_of(requests: Iterable[bytes]) -> int:
    """Count entries without laying a table out; bytes that are no request have none."""
    total = 0
    for payload in requests:
        message = pb.Request()
        with suppress(DecodeError):
            message.ParseFromString(payload)
        table = message.randomizer.table
        total += min(table.levels * table.symbols, MAX_LEVELS * MAX_SYMBOLS)
    return total


def decode_ack(ack: pb.Ack | pb.MembersAck) -> tuple[bytes, AckStatus]:
    """Decode an acknowledgement's request digest and status."""
    check_digest("an acknowledged request", ack.request_digest)
    try:
        return ack.request_digest, AckStatus(ack.status)
    except ValueError:
        raise RemoteProtocolError(
            f"exchange: expected a known status, found number {ack.status}"
        ) from None


def check_size(name: str, data: bytes, limit: int) -> None:
    """Raise ExchangeTooLarge if a message has more bytes than its limit."""
    if len(data) > limit:
        raise ExchangeTooLarge(f"{name}: expected at most {limit} bytes, found {len(data)}")


def check_count(what: str, count: int, limit: int) -> None:
    """Raise ExchangeTooLarge if a message has more items than its limit."""
    if count > limit:
        raise ExchangeTooLarge(f"exchange: expected at most {limit} {what}, found {count}")


def check_digest(what: str, digest: bytes) -> None:
    """Raise RemoteProtocolError unless this has a digest's length."""
    if len(digest) != DIGEST_BYTES:
        raise RemoteProtocolError(
            f"exchange: expected a digest of {DIGEST_BYTES} bytes for {what}, found {len(digest)}"
        )
