"""Exchange with devices and gateways as bytes, enrolment included, on the aggregator's side.

Values and limits are those of the client, which decodes what is encoded here.
"""

from __future__ import annotations

from collections.abc import Iterable

from askance_client.codec import parse
from askance_client.errors import RemoteProtocolError
from askance_client.service import exchange, gateway_exchange
from askance_client.service.identity import MAX_ID_BYTES, MAX_TOKEN_BYTES
from askance_protos.v1 import exchange_pb2 as pb
from askance_protos.v1 import study_pb2

LEAST_PROTOCOL = 1
"""Lowest version of the exchange that an aggregator answers."""


def decode_check_in(data: bytes) -> exchange.CheckIn:
    """Decode a device's message."""
    exchange.check_size("CheckInRequest", data, exchange.MAX_REQUEST_MESSAGE_BYTES)
    message = parse(pb.CheckInRequest, data, limit=exchange.MAX_REQUEST_MESSAGE_BYTES)
    exchange.check_count("reports", len(message.reports), exchange.MAX_REPORTS)
    exchange.check_count("known studies", len(message.known_studies), exchange.MAX_KNOWN_STUDIES)
    for digest in message.known_studies:
        exchange.check_digest("a known study", digest)
    return exchange.CheckIn(tuple(message.reports), tuple(message.known_studies))


def encode_response(message: exchange.Response) -> bytes:
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


def decode_batch(data: bytes) -> gateway_exchange.GatewayBatch:
    """Decode a gateway's message."""
    exchange.check_size("GatewayBatch", data, exchange.MAX_REQUEST_MESSAGE_BYTES)
    message = parse(pb.GatewayBatch, data, limit=exchange.MAX_REQUEST_MESSAGE_BYTES)
    exchange.check_count("known studies", len(message.known_studies), exchange.MAX_KNOWN_STUDIES)
    exchange.check_count("joins", len(message.joins), gateway_exchange.MAX_JOINS)
    exchange.check_count(
        "members with reports", len(message.reports), gateway_exchange.MAX_BATCH_MEMBERS
    )
    exchange.check_count("settled responses", message.settled, gateway_exchange.MAX_UNSETTLED)
    for digest in message.known_studies:
        exchange.check_digest("a known study", digest)
    reports = tuple(
        gateway_exchange.MemberReports(one.member, _token(one.token), _reports(one.reports))
        for one in message.reports
    )
    if len({one.member for one in reports}) < len(reports):
        raise RemoteProtocolError("exchange: expected each member once in a batch, got one twice")
    return gateway_exchange.GatewayBatch(
        tuple(message.known_studies),
        tuple(_join(one) for one in message.joins),
        reports,
        message.settled,
    )


def encode_gateway_response(response: gateway_exchange.GatewayResponse) -> bytes:
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


def _join(join: pb.Join) -> gateway_exchange.Join:
    if not 1 <= len(join.device_id) <= MAX_ID_BYTES:
        raise RemoteProtocolError(
            f"exchange: expected a device id of 1 to {MAX_ID_BYTES} bytes,"
            f" got {len(join.device_id)}"
        )
    return gateway_exchange.Join(join.member, join.device_id, _token(join.token))


def _token(token: bytes) -> bytes:
    if len(token) > MAX_TOKEN_BYTES:
        raise RemoteProtocolError(
            f"exchange: expected a token of at most {MAX_TOKEN_BYTES} bytes, got {len(token)}"
        )
    return token


def _reports(reports: Iterable[bytes]) -> tuple[bytes, ...]:
    kept = tuple(reports)
    exchange.check_count("reports of a member", len(kept), exchange.MAX_REPORTS)
    return kept


def decode_enrol(data: bytes) -> exchange.Enrol:
    """Decode an enrolment request."""
    exchange.check_size("EnrolRequest", data, exchange.MAX_REQUEST_MESSAGE_BYTES)
    message = parse(pb.EnrolRequest, data, limit=exchange.MAX_REQUEST_MESSAGE_BYTES)
    exchange.check_count("devices", len(message.devices), exchange.MAX_ENROLMENTS)
    gateway = message.gateway if message.HasField("gateway") else None
    for device in (*message.devices, *([] if gateway is None else [gateway])):
        exchange.check_digest("a device's token", device.token_digest)
        if not 1 <= len(device.device_id) <= MAX_ID_BYTES:
            raise RemoteProtocolError(
                f"exchange: expected a device id of 1 to {MAX_ID_BYTES} bytes,"
                f" found {len(device.device_id)}"
            )
    if len({device.device_id for device in message.devices}) < len(message.devices):
        raise RemoteProtocolError("exchange: expected each device once, found one twice")
    return exchange.Enrol(
        tuple((device.device_id, device.token_digest) for device in message.devices),
        None if gateway is None else (gateway.device_id, gateway.token_digest),
    )


def encode_enrolled(new: int, known: int) -> bytes:
    """Encode the outcome of an enrolment: numbers of devices that are new, and that were known."""
    return pb.EnrolResponse(enrolled=new, known=known).SerializeToString(deterministic=True)
