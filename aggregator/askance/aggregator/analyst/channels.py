"""How an analyst reaches an aggregator: by TLS, or in plain text where nobody is in between."""

from __future__ import annotations

from pathlib import Path

import grpc

from askance.aggregator.analyst.wire import MAX_ANSWER_BYTES, MAX_SUBMISSION_BYTES
from askance.client.addresses import Address
from askance.client.errors import InvalidParameter
from askance.client.service import NO_PROXY

_KEEPALIVE_MS = 60_000
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", 2 * MAX_SUBMISSION_BYTES),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.max_reconnect_backoff_ms", 2_000),  # a person waits
]


def open_channel(address: str, ca: Path | None, *, plaintext: bool) -> grpc.Channel:
    """A channel to HOST:PORT.

    TLS by the authority in `ca`, or by those that the system trusts; plain text if that is asked
    for, and to this machine if no authority is given.

    Raises:
      InvalidParameter: no address, an authority that cannot be read, or both ways asked for.
    """
    where = Address.of(address)
    if ca is not None:
        if plaintext:
            raise InvalidParameter("connect: expected an authority or plain text, found both")
        try:
            credentials = grpc.ssl_channel_credentials(ca.read_bytes())
        except OSError as error:
            raise InvalidParameter(f"ca {ca}: cannot be read: {error.strerror}") from None
        return grpc.secure_channel(str(where), credentials, _OPTIONS)
    if plaintext or where.is_loopback:
        return grpc.insecure_channel(str(where), [*_OPTIONS, NO_PROXY])
    return grpc.secure_channel(str(where), grpc.ssl_channel_credentials(), _OPTIONS)
