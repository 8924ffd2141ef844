"""Exchange between a gateway and its aggregator, as values and as bytes (Relay).

Only the gateway's half of the bytes is here; the aggregator shares the values and the limits.
Members are named by their numbers on a stream. Everything is bounded before it is looked at, and
has one form: a list of members is strictly ascending, so that no member is in it twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import TypeVar

from askance_client.codec import parse
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, SignedStudy
from askance_client.service import exchange
from askance_protos.v1 import exchange_pb2 as pb

V = TypeVar("V")

MAX_JOINS = 1024  # in one batch
# Members with reports in one batch, and members asked in one response: some 50 KB of usual reports,
# and little enough work that the reports of a response leave together soon.
MAX_BATCH_MEMBERS = 256
MAX_UNSETTLED = 16  # responses with requests on their way at one time
MAX_ACKS = 1024  # reports that one response acknowledges
MAX_MEMBERS = 1 << 20  # of one stream


def keep_studies(known: dict[bytes, V], fresh: Mapping[bytes, V]) -> None:
    """Add the studies of a response, by digest; forget those that were sent longest ago.

    Both sides of a stream keep to this, so that an aggregator knows which studies a gateway holds.
    """
    for digest, study in fresh.items():
        known.pop(digest, None)
        known[digest] = study
    while len(known) > exchange.MAX_KNOWN_STUDIES:
        del known[next(iter(known))]


class Absence(IntEnum):
    """Reason why a member is not on a gateway's stream. The numbers are the wire's."""

    UNKNOWN = 1
    OTHER_GATEWAY = 2
    REPLACED = 3
    OVERLOADED = 4


@dataclass(frozen=True, slots=True)
class Join:
    """Member that joins a stream under a number, with the member's own id and token."""

    member: int
    device_id: bytes
    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MemberReports:
    """Reports of one member, with the member's token."""

    member: int
    token: bytes = field(repr=False)
    reports: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class GatewayBatch:
    """Message of a gateway."""

    known_studies: tuple[bytes, ...] = ()  # digests of those that it holds, in its first message
    joins: tuple[Join, ...] = ()
    reports: tuple[MemberReports, ...] = ()
    settled: int = 0  # responses that were dealt with since the message before


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """Message to a gateway; members are strictly ascending numbers.

    Args:
      studies: studies that the gateway does not hold.
      requests: payloads, each with the members that it is asked of.
      acks: request digests and statuses, each with the members whose report it acknowledges.
      absences: reasons, each with the members that are not on the stream.
      sequences: members, each with its highest acknowledged sequence number.
    """

    studies: tuple[SignedStudy, ...] = ()
    requests: tuple[tuple[bytes, tuple[int, ...]], ...] = ()
    acks: tuple[tuple[bytes, AckStatus, tuple[int, ...]], ...] = ()
    absences: tuple[tuple[Absence, tuple[int, ...]], ...] = ()
    sequences: tuple[tuple[int, int], ...] = ()


def encode_batch(batch: GatewayBatch) -> bytes:
    """Encode a gateway's message."""
    return pb.GatewayBatch(
        known_studies=batch.known_studies,
        joins=[
            pb.Join(member=one.member, device_id=one.device_id, token=one.token)
            for one in batch.joins
        ],
        reports=[
            pb.MemberReports(member=one.member, token=one.token, reports=one.reports)
            for one in batch.reports
        ],
        settled=batch.settled,
    ).SerializeToString(deterministic=True)


def decode_gateway_response(data: bytes, members: int) -> GatewayResponse:
    """Decode a message to a gateway.

    `members` is their number; a number that is not below it is no member's.
    """
    exchange.check_size("GatewayResponse", data, exchange.MAX_RESPONSE_BYTES)
    message = parse(pb.GatewayResponse, data, limit=exchange.MAX_RESPONSE_BYTES)
    exchange.check_count("studies", len(message.studies), exchange.MAX_STUDIES)
    exchange.check_count("requests", len(message.requests), exchange.MAX_REQUESTS)
    exchange.check_count(
        "absent members", sum(len(one.members) for one in message.absences), MAX_JOINS
    )
    exchange.check_count("sequence numbers", len(message.sequences), MAX_JOINS)
    exchange.check_count(
        "acknowledged reports", sum(len(one.members) for one in message.acks), MAX_ACKS
    )
    requests = tuple((r.request, _members(r.members, members)) for r in message.requests)
    asked = {member for _, numbers in requests for member in numbers}
    exchange.check_count("members asked", len(asked), MAX_BATCH_MEMBERS)
    exchange.check_count(
        "entries of tables",
        exchange.entries_of(payload for payload, _ in requests),
        exchange.MAX_ENTRIES,
    )
    sequences = _members([one.member for one in message.sequences], members)
    return GatewayResponse(
        tuple(SignedStudy(s.study, s.public_key, s.signature) for s in message.studies),
        requests,
        tuple(_ack(ack, members) for ack in message.acks),
        tuple(_absence(absence, members) for absence in message.absences),
        tuple((n, one.sequence) for n, one in zip(sequences, message.sequences, strict=True)),
    )


def _members(numbers: Sequence[int], count: int) -> tuple[int, ...]:
    kept = tuple(numbers)
    if any(a >= b for a, b in pairwise(kept)):
        raise RemoteProtocolError("exchange: expected members in ascending order, each once")
    if kept and kept[-1] >= count:
        raise RemoteProtocolError(f"exchange: expected members below {count}, got {kept[-1]}")
    return kept


def _ack(ack: pb.MembersAck, count: int) -> tuple[bytes, AckStatus, tuple[int, ...]]:
    return *exchange.decode_ack(ack), _members(ack.members, count)


def _absence(absence: pb.MembersAbsence, count: int) -> tuple[Absence, tuple[int, ...]]:
    try:
        reason = Absence(absence.reason)
    except ValueError:
        raise RemoteProtocolError(
            f"exchange: expected a known absence, got number {absence.reason}"
        ) from None
    return reason, _members(absence.members, count)
