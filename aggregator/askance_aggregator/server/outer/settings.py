"""Settings of the outer process, as it is sent them over its pipe."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from ipaddress import ip_network

from askance_aggregator.server.outer.addresses import Network, read_ip

MEMORY_BYTES = 512 << 20  # the longest answer (some 112 MB) takes 380 while it is copied


@dataclass(frozen=True, slots=True)
class OuterSettings:
    """Settings of the outer process.

    Args:
      certificate: the server's and those between it and the root (PEM).
      key: its key (PEM).
      trusted: networks of proxies: exempt from limits per address, and believed in what they say
        of a caller's address.
      header_senders: networks of proxies whose connections begin with a header of the PROXY
        protocol.
      connect: whether devices check in by Connect.
      origins: of pages that may.
      devices: whether devices without a certificate are passed on as well.
      connections: at one time; a further one is closed.
      connections_per_address: of these, per IPv4 address or IPv6 network of 64 bits.
      handshake_s: seconds for the handshake of TLS, and again for a request's head and body.
      idle_s: seconds after which a connection without a call is closed.
      age_s: seconds after which a connection takes no new calls.
      memory_bytes: of data that the process may have (RLIMIT_DATA); read at its start only.
    """

    certificate: str
    key: str = field(repr=False)
    trusted: tuple[str, ...] = ()
    header_senders: tuple[str, ...] = ()
    connect: bool = False
    origins: tuple[str, ...] = ()
    devices: bool = False
    connections: int = 512
    connections_per_address: int = 64
    handshake_s: float = 10.0
    idle_s: float = 600.0
    age_s: float = 86_400.0
    memory_bytes: int = MEMORY_BYTES

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks of proxies."""
        return tuple(ip_network(text) for text in self.trusted)

    def sends_header(self, peer: str) -> bool:
        """Return whether a connection from an address begins with a header of a proxy."""
        found = read_ip(peer)
        networks = map(ip_network, self.header_senders)
        return found is not None and any(found in network for network in networks)

    def to_line(self) -> bytes:
        """Return one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> OuterSettings:
        """Read what `to_line` has written."""
        given = json.loads(line)
        lists = {name: tuple(given[name]) for name in ("trusted", "header_senders", "origins")}
        return cls(**{**given, **lists})
