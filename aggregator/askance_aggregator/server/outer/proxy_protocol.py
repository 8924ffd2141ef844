"""Address of a caller that a proxy sends before the caller's bytes: PROXY protocol, version 2.

Source: https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt, section 2.2: a signature of 12
bytes; version and command; family; the length of the rest, big-endian; addresses; further fields,
which are not read. A proxy that passes TLS through tells in no other way for whom it connects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from askance_aggregator.server.outer.addresses import read_ip

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

    Raises:
      NoProxyHeader: the connection begins with something else, or ends.
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
