"""Settings of a device's channel."""

from __future__ import annotations

import grpc
from grpc import aio

from askance_client.addresses import Address
from askance_client.service.authority import (
    Authority,
    DeviceCertificate,
    OwnCertificate,
    RenewedChannel,
)
from askance_client.service.exchange import MAX_REQUEST_MESSAGE_BYTES, MAX_RESPONSE_BYTES

# A ping a minute keeps an idle stream alive through NATs; a server calls more often abuse.
_KEEPALIVE_MS = 60_000
_KEEPALIVE_TIMEOUT_MS = 20_000
_FIRST_WAIT_MS = 500
# gRPC would send what is for this very machine to a proxy that the environment names, in the clear.
NO_PROXY = ("grpc.enable_http_proxy", 0)


def channel_options(*, own_connection: bool = False) -> list[tuple[str, int]]:
    """Options for `grpc.aio.insecure_channel` and `secure_channel`.

    Args:
      own_connection: do not share a connection with other channels of this process to the same
        address (a process that stands for thousands of devices spreads them over several).
    """
    return [
        ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
        ("grpc.max_send_message_length", MAX_REQUEST_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1 if own_connection else 0),
    ]


def open_channel(
    address: str,
    authority: Authority | None,
    *,
    longest_wait_ms: int,
    own: OwnCertificate = lambda: None,
) -> aio.Channel:
    """A connection of its own to an aggregator, made again when it is lost.

    TLS goes through the proxy that the environment names (grpc_proxy, https_proxy, no_grpc_proxy,
    no_proxy), as a tunnel that the proxy cannot read.

    Args:
      address: HOST:PORT.
      authority: reads the certificates (PEM) that the aggregator's must be signed by, for every
        new connection; None for plain text, which goes through no proxy.
      longest_wait_ms: between two tries to connect.
      own: reads the device's own certificate, which is shown at the address that it names; while
        there is none, or it has ended, HOST:PORT is called without one.

    Raises:
      InvalidParameter: the authority cannot be read.
    """
    options = [
        *channel_options(own_connection=True),
        ("grpc.initial_reconnect_backoff_ms", min(_FIRST_WAIT_MS, longest_wait_ms)),
        ("grpc.max_reconnect_backoff_ms", longest_wait_ms),
    ]
    if authority is None:
        return aio.insecure_channel(address, options=[*options, NO_PROXY])

    def trusting(ca: bytes, held: DeviceCertificate | None) -> aio.Channel:
        there, pair = Address.of(address), list[bytes]()
        if held is not None and held.address:
            there, pair = Address.of(held.address), [held.key.encode(), held.chain.encode()]
        return aio.secure_channel(
            str(there), grpc.ssl_channel_credentials(ca, *pair), options=options
        )

    return RenewedChannel(authority, trusting, own)
