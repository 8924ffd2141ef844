"""Enrolment as bytes, on the aggregator's side; limits and values are those of the exchange."""

from __future__ import annotations

from askance_client.codec import parse
from askance_client.errors import RemoteProtocolError
from askance_client.service.exchange import (
    MAX_ENROLMENTS,
    MAX_REQUEST_MESSAGE_BYTES,
    Enrol,
    check_count,
    check_digest,
    check_size,
)
from askance_client.service.identity import MAX_ID_BYTES
from askance_protos.v1 import exchange_pb2 as pb


def decode_enrol(data: bytes) -> Enrol:
    """Decode an enrolment request.

    Raises:
      ExchangeTooLarge: more than an exchange may have. RemoteProtocolError: not an enrolment.
    """
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
