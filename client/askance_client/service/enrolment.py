"""Making devices known to their aggregator."""

from __future__ import annotations

from collections.abc import Sequence

from grpc import aio

from askance_client.errors import RemoteProtocolError
from askance_client.service.certificates import CertificateFile
from askance_client.service.credentials import (
    ENROLMENT_KEY,
    device_metadata,
    enrolment_metadata,
    gateway_metadata,
)
from askance_client.service.exchange import (
    MAX_ENROLMENTS,
    SERVICE,
    Enrol,
    decode_enrolled,
    encode_enrol,
)
from askance_client.service.identity import Identity, token_digest
from askance_client.service.observable import CALL_TIMEOUT_S, batches, ordered


async def enrol(
    channel: aio.Channel,
    token: bytes,
    identities: Sequence[Identity],
    gateway: Identity | None = None,
    certificate: CertificateFile | None = None,
) -> tuple[int, int]:
    """Enrol devices under an operator's token, a message's worth at a time; again is no harm.

    A device's own token stays here: its SHA-256 is sent. The order of `identities` does not show:
    they are sent in the order of `observable`.

    Args:
      channel: to the aggregator.
      token: the operator's.
      identities: of the devices.
      gateway: the identity of the gateway that they are members of; None: of none.
      certificate: where the certificate of the gateway, or of a single device, is kept, if the
        aggregator issues any; None: it is not asked for.

    Returns:
      How many were new, and how many the aggregator knew already.

    Raises:
      aio.AioRpcError: refused or not reached; those of messages before it are enrolled.
      RemoteProtocolError: the answer is none, or not to what was sent.
      StoreError: the certificate cannot be kept; the devices are enrolled.
    """
    call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/Enrol")
    metadata = enrolment_metadata(token)
    of = None if gateway is None else (gateway.device_id, token_digest(gateway.token))
    new = known = 0
    members = ordered(identities, lambda identity: identity)
    for batch in batches(members, MAX_ENROLMENTS):
        devices = tuple((one.device_id, token_digest(one.token)) for one in batch)
        message = encode_enrol(Enrol(devices, of))
        data = await call(message, timeout=CALL_TIMEOUT_S, metadata=metadata)
        fresh, there = decode_enrolled(data)
        if fresh + there != len(batch):
            raise RemoteProtocolError(
                f"enrolment: expected {len(batch)} devices to be known, found {fresh + there}"
            )
        new, known = new + fresh, known + there
    if certificate is not None:
        mine = device_metadata(identities[0]) if gateway is None else gateway_metadata(gateway)
        await certificate.obtain(channel, (*mine, (ENROLMENT_KEY, token)))
    return new, known
