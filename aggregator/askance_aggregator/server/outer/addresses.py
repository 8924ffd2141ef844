"""Addresses of callers: parsed from gRPC's names, grouped for limits, passed on in metadata.

A proxy that passes TLS through tells a caller's address before the caller's bytes, by the PROXY
protocol, version 2. Source: https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt, section
2.2: a signature of 12 bytes; version and command; family; the length of the rest, big-endian;
addresses; further fields, which are not read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
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
    """Return the address of a caller, which a trusted proxy may stand for."""
    found = read_ip(peer)
    if found is None or not any(found in network for network in trusted):
        return peer
    named = [part for value in forwarded for part in value.split(",")]
    last = read_ip(named[-1]) if named else None  # the one that the proxy itself has added
    return peer if last is None else str(last)


SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_REST_BYTES = 4  # of the head, after the signature
_MAX_BYTES = 2_048  # addresses and further fields; longer ones are of no proxy that is configured
_LOCAL, _PROXY = 0x20, 0x21  # version 2, and the command
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}  # of the caller, by family: TCP over IPv4 or IPv6


class NoProxyHeader(OSError):
    """Connection of a proxy that does not begin with a header."""


async def read_proxy_header(receive: Callable[[int], Awaitable[bytes]]) -> str | None:
    """Read the header of a connection, and no byte after it.

    Args:
      receive: returns at most so many bytes; none at the end of the connection.

    Returns:
      The caller's address; None: the proxy calls for itself, or for no address of IP.
    """
    if await _exactly(receive, len(SIGNATURE)) != SIGNATURE:
        raise NoProxyHeader("expected a header of the PROXY protocol, version 2, got other bytes")
    command, family, *length = await _exactly(receive, _REST_BYTES)
    size = int.from_bytes(length)
    if command not in (_LOCAL, _PROXY) or size > _MAX_BYTES:
        raise NoProxyHeader(
            f"expected version 2, a known command and at most {_MAX_BYTES} bytes, got"
            f" {command:#04x} and {size:,} bytes"
        )
    rest = await _exactly(receive, size)
    width = _ADDRESS_BYTES.get(family)
    if command == _LOCAL or width is None:
        return None
    if size < 2 * width + _REST_BYTES:  # two addresses and two ports
        raise NoProxyHeader(f"expected {2 * width + _REST_BYTES} bytes of addresses, got {size}")
    return str(read_ip(str(ip_address(rest[:width]))))


async def _exactly(receive: Callable[[int], Awaitable[bytes]], size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = await receive(size - len(found))
        if not part:
            raise NoProxyHeader("expected a header, got the end of the connection")
        found += part
    return found
