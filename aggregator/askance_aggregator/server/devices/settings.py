"""Limits of the service that an operator may set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from askance_aggregator.declarations import Key, KeyGroup
from askance_aggregator.server.devices.connection_guard import ConnectionLimits
from askance_aggregator.server.devices.peers import PeerLimits
from askance_aggregator.server.outer.pass_through import server_options
from askance_client.errors import InvalidParameter
from askance_client.service.exchange import (
    MAX_CHECK_IN_BYTES,
    MAX_REQUEST_MESSAGE_BYTES,
    STREAMS_PER_CONNECTION,
)

# gRPC resets streams at random as a connection nears its limit, and counts streams that have ended
# until their handlers have: what clients keep to is half of it.
_CONNECTION_STREAMS = 2 * STREAMS_PER_CONNECTION


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of a service.

    Args:
      max_pending: calls that gRPC has received and the service has not yet taken up. gRPC's own
        limit rejects calls silently above 1,000, which a fleet that connects at once passes.
      connection_streams: streams open at one time on one connection that is not guarded. Each may
        hold a header list, which gRPC keeps in 115 bytes per byte that was sent.
      guard: limits on the connections of devices with certificates; None: they are not guarded.
      check_in_every_ms: when an idle device is to check in again, give or take a half.
      stop_grace_s: how long calls at work may take to end when the service stops.
    """

    max_streams: Annotated[
        int,
        Key("open at one time; a gateway has one for all its devices", name="streams"),
    ] = 50_000
    max_members: Annotated[
        int,
        Key("devices connected at one time, those of gateways included", name="members"),
    ] = 1_000_000
    max_check_ins: Annotated[
        int,
        Key("check-ins at work at one time; as many again may wait", name="check_ins", fixed=True),
    ] = 1_000
    max_pending: int = 100_000
    max_connections: Annotated[
        int,
        Key(
            "at one time; fewer where the system has fewer descriptors or less memory",
            name="connections",
            fixed=True,
        ),
    ] = 60_000
    connection_streams: int = _CONNECTION_STREAMS
    unproven: Annotated[PeerLimits, KeyGroup()] = field(default_factory=PeerLimits)
    guard: ConnectionLimits | None = None
    handshake_s: Annotated[
        float, Key("for the TLS and HTTP/2 handshakes of a connection", fixed=True)
    ] = 10.0
    settled_s: Annotated[
        float,
        Key("for a device's connection to acknowledge HTTP/2 settings, one round trip", fixed=True),
    ] = 3.0
    first_message_s: Annotated[float, "for the first message of a call, after its credentials"] = (
        5.0
    )
    idle_s: Annotated[float, Key("a connection without a call is closed", fixed=True)] = 600.0
    age_s: Annotated[
        float, Key("a connection takes no new calls; open streams go on", fixed=True)
    ] = 86_400.0
    retry_ms: Annotated[
        int, "an overloaded aggregator asks for a wait of so long to twice as long"
    ] = 1_000
    check_in_every_ms: int = 2_000
    stop_grace_s: float = 1.0

    def __post_init__(self) -> None:
        least = min(
            self.max_streams,
            self.max_members,
            self.max_check_ins,
            self.max_pending,
            self.check_in_every_ms,
            self.max_connections,
            self.connection_streams,
            self.retry_ms,
        )
        if least < 1:
            raise InvalidParameter(f"settings: expected limits of 1 or more, found {least}")
        shortest = min(
            self.handshake_s, self.settled_s, self.first_message_s, self.idle_s, self.age_s
        )
        if shortest <= 0 or self.stop_grace_s < 0:
            raise InvalidParameter("settings: expected times above 0 s")

    def server_options(self) -> list[tuple[str, int]]:
        """The options of the gRPC server."""
        streams, message_bytes = self.connection_streams, MAX_REQUEST_MESSAGE_BYTES
        settled_s = self.handshake_s
        if self.guard is not None:
            streams, message_bytes = self.guard.streams, MAX_CHECK_IN_BYTES
            settled_s = self.settled_s
        return [
            *server_options(
                *(self.handshake_s, self.idle_s, self.age_s),
                settled_s=settled_s,
                streams=streams,
                request_bytes=message_bytes,
            ),
            ("grpc.server.max_pending_requests", self.max_pending),
            ("grpc.server.max_pending_requests_hard_limit", self.max_pending),
            ("grpc.max_allowed_incoming_connections", self.max_connections),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.so_reuseport", 0),  # a port in use is an error, not a second service on it
        ]
