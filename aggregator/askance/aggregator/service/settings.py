"""What an operator may set."""

from __future__ import annotations

from dataclasses import dataclass

from askance.client.errors import InvalidParameter
from askance.client.service import MAX_REQUEST_MESSAGE_BYTES

# A device behind a NAT pings once a minute; twice as often is still no abuse.
_MIN_PING_MS = 30_000
# The hub keeps its own messages to devices far below; a result of 65,535 cells is some 7 MB.
_MAX_SEND_BYTES = 64 * 1024 * 1024
_KEEPALIVE_MS = 60_000
_KEEPALIVE_TIMEOUT_MS = 20_000


@dataclass(frozen=True, slots=True)
class Settings:
    """A service's limits.

    Args:
      max_streams: devices connected at one time; one more is told to come back later.
      max_check_ins: unary check-ins at work at one time; more wait, up to as many again.
      max_pending: calls that gRPC has received and the service has not yet taken up. gRPC's own
        limit rejects calls silently above 1,000, which a fleet that connects at once passes.
      first_message_s: how long an unknown peer may hold a stream without saying who it is.
      check_in_every_ms: when an idle device is to check in again, give or take a half.
      stop_grace_s: how long calls at work may take to end when the service stops.
    """

    max_streams: int = 50_000
    max_check_ins: int = 1_000
    max_pending: int = 100_000
    first_message_s: float = 20.0
    check_in_every_ms: int = 2_000
    stop_grace_s: float = 1.0

    def __post_init__(self) -> None:
        least = min(self.max_streams, self.max_check_ins, self.max_pending, self.check_in_every_ms)
        if least < 1:
            raise InvalidParameter(f"settings: expected limits of 1 or more, found {least}")
        if self.first_message_s <= 0 or self.stop_grace_s < 0:
            raise InvalidParameter("settings: expected times above 0 s")

    def server_options(self) -> list[tuple[str, int]]:
        """The options of the gRPC server."""
        return [
            ("grpc.server.max_pending_requests", self.max_pending),
            ("grpc.server.max_pending_requests_hard_limit", self.max_pending),
            ("grpc.max_receive_message_length", MAX_REQUEST_MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MAX_SEND_BYTES),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _MIN_PING_MS),
            ("grpc.so_reuseport", 0),  # a port in use is an error, not a second service on it
        ]
