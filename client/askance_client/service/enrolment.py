"""Making devices known to their aggregator."""

from __future__ import annotations

from collections.abc import Sequence

from askance_client.errors import RemoteProtocolError
from askance_client.service.certificates import CertificateFile
from askance_client.service.credentials import device_metadata, enrolment_metadata, gateway_metadata
from askance_client.service.exchange import Enrol, decode_enrolled, encode_enrol
from askance_client.service.identity import Identity, token_digest
from askance_client.service.observable import batches, ordered
from askance_client.service.open_side import OpenSide

_AT_ONCE = 512  # devices in one message: 54 kB with the longest ids, and a body has at most 64 kB


async def enrol(
    open_side: OpenSide,
    token: bytes,
    identities: Sequence[Identity],
    gateway: Identity | None = None,
    certificate: CertificateFile | None = None,
) -> tuple[int, int]:
    """Enrol devices under an operator's token, a message's worth at a time; again is no harm.

    A device's own token stays here: its SHA-256 is sent. The order of `identities` does not show:
    they are sent in the order of `observable`.

    Args:
      open_side: of the aggregator.
      token: the operator's.
      identities: of the devices.
      gateway: the identity of the gateway that they are members of; None: of none.
      certificate: where the certificate of the gateway, or of a single device, is kept; None: it
        is not asked for.

    Returns:
      How many were new, and how many the aggregator knew already.

    Raises:
      CallFailed: refused or not reached; those of messages before it are enrolled.
      RemoteProtocolError: the answer is none, or not to what was sent.
      StoreError: the certificate cannot be kept; the devices are enrolled.
    """
    metadata = enrolment_metadata(token)
    of = None if gateway is None else (gateway.device_id, token_digest(gateway.token))
    new = known = 0
    members = ordered(identities, lambda identity: identity)
    for batch in batches(members, _AT_ONCE):
        devices = tuple((one.device_id, token_digest(one.token)) for one in batch)
        message = encode_enrol(Enrol(devices, of))
        fresh, there = decode_enrolled(await open_side.call("Enrol", message, metadata))
        if fresh + there != len(batch):
            raise RemoteProtocolError(
                f"enrolment: expected {len(batch)} devices to be known, found {fresh + there}"
            )
        new, known = new + fresh, known + there
    if certificate is not None:
        mine = device_metadata(identities[0]) if gateway is None else gateway_metadata(gateway)
        await certificate.obtain(mine)
    return new, known
