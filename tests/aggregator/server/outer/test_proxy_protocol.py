"""PROXY protocol, version 2: the caller's address, from configured proxies alone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from askance_aggregator.server.outer.addresses import NoProxyHeader, read_proxy_header
from askance_aggregator.server.process.certificates import Certified
from tests.aggregator.server.outer.conftest import Outer, running, until

MAGIC = bytes.fromhex("0d0a0d0a000d0a515549540a")
V4 = bytes.fromhex("c6336407 0a000001 d431 1d13")  # 198.51.100.7:54321 to 10.0.0.1:7443
V6 = bytes.fromhex("20010db8000000000000000000000007" + "00" * 16 + "d4311d13")
MAPPED = bytes.fromhex("00000000000000000000ffffc6336408" + "00" * 16 + "d4311d13")
TLV = bytes.fromhex("030004deadbeef")  # a checksum, which is not read

HEADERS = {
    "IPv4": (MAGIC + b"\x21\x11\x00\x0c" + V4, "198.51.100.7"),
    "IPv6": (MAGIC + b"\x21\x21\x00\x24" + V6, "2001:db8::7"),
    "further fields": (MAGIC + b"\x21\x11\x00\x13" + V4 + TLV, "198.51.100.7"),
    "a check of the proxy's own": (MAGIC + b"\x20\x00\x00\x00", None),
    "a check with an address": (MAGIC + b"\x20\x11\x00\x0c" + V4, None),
    "a Unix socket": (MAGIC + b"\x21\x31\x00\xd8" + bytes(216), None),
    "UDP": (MAGIC + b"\x21\x12\x00\x0c" + V4, None),
}
BAD = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "version 1": b"PROXY TCP4 198.51.100.7 10.0.0.1 54321 7443\r\n",
    "another version": MAGIC + b"\x11\x11\x00\x0c" + V4,
    "another command": MAGIC + b"\x22\x11\x00\x0c" + V4,
    "an end within": MAGIC + b"\x21\x11\x00\x0c" + V4[:5],
    "too few addresses": MAGIC + b"\x21\x11\x00\x0b" + V4[:11],
    "IPv6 of the length of IPv4": MAGIC + b"\x21\x21\x00\x0c" + V4,
    "too long": MAGIC + b"\x21\x11\x08\x01" + bytes(0x801),
    "nothing": b"",
}


def read(data: bytes, at_once: int) -> tuple[str | None, bytes]:
    """Return the address in a header, and what is left to be read."""
    parts: Iterator[int] = iter(data)

    async def receive(size: int) -> bytes:
        return bytes(byte for _, byte in zip(range(min(size, at_once)), parts, strict=False))

    found = asyncio.run(read_proxy_header(receive))
    return found, bytes(parts)


@pytest.mark.parametrize("at_once", [1, 4096])
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_read_and_nothing_after_it(name: str, at_once: int) -> None:
    header, address = HEADERS[name]
    assert read(header + b"\x16TLS", at_once)[0] == address


@pytest.mark.parametrize("name", BAD)
def test_other_bytes_are_refused(name: str) -> None:
    with pytest.raises(NoProxyHeader):
        read(BAD[name], 4096)


POST = b"POST /askance.v1.Devices/Enrol HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
FORWARDED = POST.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n")
PROXY = "127.0.0.2"


def is_closed(outer: Outer, source: str, header: bytes = b"") -> bool:
    """Return whether a connection is closed before its handshake."""
    try:
        with outer.connected(source=source, header=header):
            return False
    except (ssl.SSLError, OSError):
        return True


def test_a_caller_behind_a_proxy_has_its_own_address_and_limit(
    certified: tuple[Certified, Certified],
) -> None:
    """Only the proxy may say for whom it connects, and it must."""
    settings: dict[str, Any] = {
        "header_senders": (PROXY,),
        "connections_per_address": 2,
        "handshake_s": 30.0,
    }
    with running(certified, **settings) as outer, ExitStack() as held:
        v4, v6, own = (HEADERS[name][0] for name in ("IPv4", "IPv6", "a check of the proxy's own"))
        mapped = MAGIC + b"\x21\x21\x00\x24" + MAPPED
        assert outer.sent(FORWARDED, source=PROXY, header=v4).startswith(b"HTTP/1.1 200")
        for header in (v6, own, mapped):
            assert outer.sent(POST, source=PROXY, header=header).startswith(b"HTTP/1.1 200")
        assert outer.sent(POST, source="127.0.0.3").startswith(b"HTTP/1.1 200")
        addresses = [metadata["x-forwarded-for"] for _, metadata, _ in outer.inner.calls]
        assert addresses == ["198.51.100.7", "2001:db8::7", PROXY, "198.51.100.8", "127.0.0.3"]
        assert is_closed(outer, PROXY)  # without a header
        assert is_closed(outer, "127.0.0.3", v4)  # of another address
        for _ in range(2):
            held.enter_context(outer.connected(source=PROXY, header=v4))
        assert is_closed(outer, PROXY, v4)
        assert not is_closed(outer, PROXY, v6)
        held.close()
        until(lambda: not is_closed(outer, PROXY, v4))
