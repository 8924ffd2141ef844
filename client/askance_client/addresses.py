"""Addresses to listen on, as an operator writes them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

_MAX_PORT = (1 << 16) - 1
_LOCALHOST = "localhost"


@dataclass(frozen=True, slots=True)
class Address:
    """A host's name or address, without brackets, and a port; port 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Read HOST:PORT, or [ADDRESS]:PORT for version 6; anything else is an InvalidParameter."""
        host, separator, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else -1
        sound = separator and host and text.isprintable() and bracketed == (":" in host)
        if not sound or not 0 <= number <= _MAX_PORT:
            raise InvalidParameter(f"expected HOST:PORT, got {value_text(text)}")
        return cls(host, number)

    def __str__(self) -> str:
        return f"{self.bare_host}:{self.port}"

    @property
    def bare_host(self) -> str:
        """The host as it stands before a colon and a port."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the address."""
        found = _as_ip(self.host)
        return self.host == _LOCALHOST if found is None else found.is_loopback

    @property
    def is_wildcard(self) -> bool:
        """True if the address stands for every address of this machine."""
        found = _as_ip(self.host)
        return found is not None and found.is_unspecified

    @property
    def from_here(self) -> Address:
        """Return the address by which a process on the same machine finds it."""
        if not self.is_wildcard:
            return self
        return Address("::1" if ":" in self.host else "127.0.0.1", self.port)

    def at_port(self, port: int) -> Address:
        """The same host at another port."""
        return Address(self.host, port)


def _as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
