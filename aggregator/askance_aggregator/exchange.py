"""Exchange with devices and gateways as bytes, enrolment included, on the aggregator's side.

Values and limits are those of the client, which decodes what is encoded here.
"""

from __future__ import annotations

from collections.abc import Iterable

from askance_client.codec import parse
from askance_client.errors import RemoteProtocolError
from askance_client.service.exchange import (
    MAX_ENROLMENTS,
    MAX_KNOWN_STUDIES,
    MAX_REPORTS,
    MAX_REQUEST_MESSAGE_BYTES,
    CheckIn,
    Enrol,
    Response,
    check_count,
    check_digest,
    check_size,
)
from askance_client.service.gateway_exchange import (
    MAX_BATCH_MEMBERS,
    MAX_JOINS,
    MAX_UNSETTLED,
    GatewayBatch,
    GatewayResponse,
    Join,
    MemberReports,
)
from askance_client.service.identity import MAX_ID_BYTES, MAX_TOKEN_BYTES
from askance_protos.v1 import exchange_pb2 as pb
from askance_protos.v1 import study_pb2

LEAST_PROTOCOL = 1
"""Lowest version of the exchange that an aggregator answers."""


def decode_check_in(data: bytes) -> CheckIn:
    """Decode a device's message."""
    check_size("CheckInRequest", data, MAX_REQUEST_MESSAGE_BYTES)
    message = parse(pb.CheckInRequest, data, limit=MAX_REQUEST_MESSAGE_BYTES)
    check_count("reports", len(message.reports), MAX_REPORTS)
    check_count("known studies", len(message.known_studies), MAX_KNOWN_STUDIES)
    for digest in message.known_studies:
        check_digest("a known study", digest)
    return CheckIn(tuple(message.reports), tuple(message.known_studies))


def encode_response(message: Response) -> bytes:
    """The bytes of what an aggregator says.

    Serialised messages can be joined: the parts of a response, serialised once, make every
    response they are parts of.
    """
    return pb.CheckInResponse(
        acks=[
            pb.Ack(request_digest=digest, status=pb.Status.ValueType(status))
            for digest, status in message.acks
        ],
        studies=[
            study_pb2.SignedStudy(study=s.study, public_key=s.public_key, signature=s.signature)
            for s in message.studies
        ],
        requests=message.requests,
        retry_after_ms=message.retry_after_ms,
        acknowledged_sequence=message.acknowledged_sequence,
    ).SerializeToString(deterministic=True)


def decode_batch(data: bytes) -> GatewayBatch:
    """Decode a gateway's message."""
    check_size("GatewayBatch", data, MAX_REQUEST_MESSAGE_BYTES)
    message = parse(pb.GatewayBatch, data, limit=MAX_REQUEST_MESSAGE_BYTES)
    check_count("known studies", len(message.known_studies), MAX_KNOWN_STUDIES)
    check_count("joins", len(message.joins), MAX_JOINS)
    check_count("members with reports", len(message.reports), MAX_BATCH_MEMBERS)
    check_count("settled responses", message.settled, MAX_UNSETTLED)
    for digest in message.known_studies:
        check_digest("a known study", digest)
    reports = tuple(
        MemberReports(one.member, _token(one.token), _reports(one.reports))
        for one in message.reports
    )
    if len({one.member for one in reports}) < len(reports):
        raise RemoteProtocolError("exchange: expected each member once in a batch, got one twice")
    return GatewayBatch(
        tuple(message.known_studies),
        tuple(_join(one) for one in message.joins),
        reports,
        message.settled,
    )


def encode_gateway_response(response: GatewayResponse) -> bytes:
    """Encode a message to a gateway."""
    return pb.GatewayResponse(
        studies=[
            study_pb2.SignedStudy(study=s.study, public_key=s.public_key, signature=s.signature)
            for s in response.studies
        ],
        requests=[
            pb.MembersRequest(request=payload, members=members)
            for payload, members in response.requests
        ],
        acks=[
            pb.MembersAck(
                request_digest=digest, status=pb.Status.ValueType(status), members=members
            )
            for digest, status, members in response.acks
        ],
        absences=[
            pb.MembersAbsence(reason=pb.Absence.ValueType(reason), members=members)
            for reason, members in response.absences
        ],
        sequences=[
            pb.MemberSequence(member=member, sequence=sequence)
            for member, sequence in response.sequences
        ],
    ).SerializeToString(deterministic=True)


def _join(join: pb.Join) -> Join:
    if not 1 <= len(join.device_id) <= MAX_ID_BYTES:
        raise RemoteProtocolError(
            f"exchange: expected a device id of 1 to {MAX_ID_BYTES} bytes,"
            f" got {len(join.device_id)}"
        )
    return Join(join.member, join.device_id, _token(join.token))


def _token(token: bytes) -> bytes:
    if len(token) > MAX_TOKEN_BYTES:
        raise RemoteProtocolError(
            f"exchange: expected a token of at most {MAX_TOKEN_BYTES} bytes, got {len(token)}"
        )
    return token


def _reports(reports: Iterable[bytes]) -> tuple[bytes, ...]:
    kept = tuple(reports)
    check_count("reports of a member", len(kept), MAX_REPORTS)
    return kept


def decode_enrol(data: bytes) -> Enrol:
    """Decode an enrolment request."""
    check_size("EnrolRequest", data, MAX_REQUEST_MESSAGE_BYTES)
    message = parse(pb.EnrolRequest, data, limit=MAX_REQUEST_MESSAGE_BYTES)
    check_count("devices", len(message.devices), MAX_ENROLMENTS)
    gateway = message.gateway if message.HasField("gateway") else None
    for device in (*message.devices, *([] if gateway is None else [gateway])):
        check_digest("a device's token", device.token_digest)
        if not 1 <= len(device.device_id) <= MAX_ID_BYTES:
            raise RemoteProtocolError(
                f"exchange: expected a device id of 1 to {MAX_ID_BYTES} bytes,"
                f" found {len(device.device_id)}"
            )
    if len({device.device_id for device in message.devices}) < len(message.devices):
        raise RemoteProtocolError("exchange: expected each device once, found one twice")
    return Enrol(
        tuple((device.device_id, device.token_digest) for device in message.devices),
        None if gateway is None else (gateway.device_id, gateway.token_digest),
    )


def encode_enrolled(new: int, known: int) -> bytes:
    """Encode the outcome of an enrolment: numbers of devices that are new, and that were known."""
    return pb.EnrolResponse(enrolled=new, known=known).SerializeToString(deterministic=True)
