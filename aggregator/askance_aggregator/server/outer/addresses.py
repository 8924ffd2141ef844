"""Addresses of callers: parsed from gRPC's names, grouped for limits, passed on in metadata."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote

IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FORWARDED_KEY = "x-forwarded-for"
"""Metadata and header with the caller's address, set by a proxy."""

CONNECT_KEY = "x-connect"
"""Metadata of a call that came in the form of Connect, whose caller is to wait for longer."""

_IPV6_PREFIX = 64  # one customer's network: its holder can use every address in it


def read_ip(text: str) -> IpAddress | None:
    """Parse an IP address; an IPv4-mapped one as IPv4, one with a zone without it; else None."""
    try:
        address = ip_address(text.strip().strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def address_of(peer: str) -> IpAddress | None:
    """Parse the address in gRPC's name of a peer ("ipv4:192.0.2.1:4711", "ipv6:%5B::1%5D:4711").

    Returns:
      The address, an IPv4-mapped one as IPv4; None if the name has none (a Unix socket).
    """
    family, _, rest = peer.partition(":")
    if family not in ("ipv4", "ipv6"):
        return None
    return read_ip(unquote(rest).rpartition(":")[0])


def peer_name(address: str) -> str:
    """Return an address as gRPC names a peer, with port 0; other text as it is."""
    found = read_ip(address)
    if found is None:
        return address
    return f"ipv4:{found}:0" if isinstance(found, IPv4Address) else f"ipv6:%5B{found}%5D:0"


def group_of(address: IpAddress, trusted: Iterable[Network]) -> str:
    """Return the name under which an address is limited; "" if it is a trusted proxy's."""
    if any(address in network for network in trusted):
        return ""
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((address, _IPV6_PREFIX), strict=False))


def caller_address(peer: str, forwarded: Iterable[str], trusted: Iterable[Network]) -> str:
    """Return the address of a caller, which a trusted proxy may stand for.

    Args:
      peer: address of the connection's other end.
      forwarded: values of `FORWARDED_KEY` that came with the call, in their order.
      trusted: networks of proxies.
    """
    found = read_ip(peer)
    if found is None or not any(found in network for network in trusted):
        return peer
    named = [part for value in forwarded for part in value.split(",")]
    last = read_ip(named[-1]) if named else None  # the one that the proxy itself has added
    return peer if last is None else str(last)
