"""Limits on callers that have not proved an identity, in all and per address.

gRPC for Python reports the address of a call's peer, and no connection. Limits on connections and
handshakes per address are a proxy's work (docs/deployment.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote

from askance_client.errors import AskanceError, InvalidParameter

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_IPV6_PREFIX = 64  # one customer's network: its holder can use every address in it


class Overloaded(AskanceError):
    """The service has more to do than its limits allow; the caller may call again later."""


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Limits on calls whose caller has not proved an identity.

    Args:
      calls: at one time, in all.
      calls_per_address: at one time, per IPv4 address or IPv6 network of 64 bits.
      trusted: networks of proxies, which stand for many callers and are exempt from the limit per
        address.
    """

    calls: int
    calls_per_address: int
    trusted: frozenset[Network] = frozenset()

    def __post_init__(self) -> None:
        for name, number in (("calls", self.calls), ("calls_per_address", self.calls_per_address)):
            if number < 1:
                raise InvalidParameter(f"{name}: expected 1 or more, got {number}")


class Peers:
    """Counter of the calls that are at work for callers without a proven identity.

    Used in one event loop. It keeps nothing about an address that has no call at work.
    """

    def __init__(self, limits: PeerLimits) -> None:
        self._limits = limits
        self._calls = 0
        self._by_address: Counter[str] = Counter()

    def change(self, limits: PeerLimits) -> None:
        """Keep other limits from now on; calls at work go on."""
        self._limits = limits

    @property
    def calls(self) -> int:
        """Number of calls at work."""
        return self._calls

    @contextmanager
    def unproven(self, peer: str) -> Iterator[None]:
        """Count a call for the length of a block.

        Args:
          peer: the caller, as `grpc.ServicerContext.peer` names it.

        Raises:
          Overloaded: a limit is reached; the call is not counted.
        """
        if self._calls >= self._limits.calls:
            raise Overloaded("calls: expected fewer callers without a proven identity")
        group = self._group(peer)
        if self._by_address[group] >= self._limits.calls_per_address:
            raise Overloaded("calls: expected fewer calls from this address")
        self._calls += 1
        if group:
            self._by_address[group] += 1
        try:
            yield
        finally:
            self._calls -= 1
            if group:
                self._by_address[group] -= 1
                if not self._by_address[group]:
                    del self._by_address[group]

    def _group(self, peer: str) -> str:
        """Return the name under which a peer's calls are counted; "" if they are not limited."""
        address = address_of(peer)
        if address is None:
            return peer.partition(":")[0]
        if any(address in network for network in self._limits.trusted):
            return ""
        if isinstance(address, IPv4Address):
            return str(address)
        return str(ip_network((address, _IPV6_PREFIX), strict=False))


def address_of(peer: str) -> Address | None:
    """Parse the address in gRPC's name of a peer ("ipv4:192.0.2.1:4711", "ipv6:%5B::1%5D:4711").

    Returns:
      The address, an IPv4-mapped one as IPv4; None if the name has none (a Unix socket).
    """
    family, _, rest = peer.partition(":")
    if family not in ("ipv4", "ipv6"):
        return None
    host = unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
