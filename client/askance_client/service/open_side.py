"""Calls at the aggregator's open side, by a device that has no certificate yet, or an old one.

Over TLS they are HTTP/1.1: one POST of a message per connection, its credentials in the head
(values under names that end in "-bin" in base64). In plain text, where an aggregator has one
address for all, they are gRPC. TLS goes through the proxy that the environment names, as a tunnel.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpc import aio

from askance_client.addresses import Address
from askance_client.errors import AskanceError
from askance_client.service.authority import Authority, DeviceCertificate
from askance_client.service.channels import open_channel
from askance_client.service.credentials import Metadata
from askance_client.service.exchange import SERVICE
from askance_client.service.observable import CALL_TIMEOUT_S

if TYPE_CHECKING:
    from http.client import HTTPSConnection

_MAX_ANSWER_BYTES = 64 * 1024
_MAX_REASON_BYTES = 1024
_HANDSHAKE_S = 10
NOT_REACHED = "UNAVAILABLE"
_HUNG_UP = (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)
_WRONG_PORT = " (is that the devices' port? the open address usually has port 7443)"
_MEANINGS = (  # of texts of OpenSSL and of gRPC's TLS
    ("has expired", "expected a certificate that is valid by this clock, got one that ended: {}"),
    ("not yet valid", "expected a certificate that is valid by this clock, got a later one: {}"),
    ("CERTIFICATE_VERIFY_FAILED", "expected a certificate that the ca signed, got another: {}"),
    ("WRONG_VERSION_NUMBER", "expected TLS, got plain text: {}"),
)
_PROXIES = ("grpc", "https", "http")  # variables NAME_proxy, in gRPC's order


class CallFailed(AskanceError):
    """A call that was refused, or did not reach the aggregator.

    Args:
      status: gRPC's name of the status; `NOT_REACHED`: the same call may succeed later.
    """

    def __init__(self, status: str, details: str) -> None:
        super().__init__(f"{status}: {details}")
        self.status = status


@dataclass(frozen=True, slots=True)
class OpenSide:
    """The address where devices are enrolled and get their certificates.

    Args:
      address: HOST:PORT.
      authority: reads the certificates (PEM) that the aggregator's must be signed by; None: plain
        text.
    """

    address: str
    authority: Authority | None

    async def call(self, method: str, message: bytes, metadata: Metadata) -> bytes:
        """Call a method with one message each way."""
        path = f"/{SERVICE}/{method}"
        if self.authority is not None:
            context = _trusting(self.authority(), "http/1.1")
            return await asyncio.to_thread(self._post, context, path, message, metadata)
        async with open_channel(self.address, None, longest_wait_ms=1000) as channel:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            try:
                return await call(message, timeout=CALL_TIMEOUT_S, metadata=metadata)
            except aio.AioRpcError as error:
                raise CallFailed(error.code().name, error.details() or "no details") from None

    async def refuses(self, held: DeviceCertificate) -> bool:
        """Return whether the port for devices is reached, and refuses a certificate."""
        with suppress(OSError):
            return await asyncio.to_thread(self.is_refused, held)
        return False

    def _post(
        self, context: ssl.SSLContext, path: str, message: bytes, metadata: Metadata
    ) -> bytes:
        from http.client import HTTPException  # here: a device at rest does not load it

        headers = {key: _header(value) for key, value in metadata}
        try:
            with closing(_connection(Address.of(self.address), context)) as connection:
                connection.request("POST", path, message, headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    return answer.read(_MAX_ANSWER_BYTES + 1)
                text = answer.read(_MAX_REASON_BYTES).decode("utf-8", "replace")
        except (OSError, HTTPException) as error:
            raise CallFailed(NOT_REACHED, _explained(error)) from None
        status, colon, details = text.partition(": ")
        if not colon or not status.replace("_", "").isalpha():
            raise CallFailed("UNKNOWN", f"expected an aggregator, got HTTP status {answer.status}")
        raise CallFailed(status, details)

    def is_refused(self, held: DeviceCertificate) -> bool:
        """Return whether the port for devices refuses a certificate.

        With TLS 1.3 a device believes that its handshake is done when it is not: it is told nothing
        and hung up on. An aggregator that accepts the certificate speaks first.

        Raises:
          OSError: the port is not reached, or is not the aggregator's.
          InvalidParameter: the authority cannot be read.
        """
        from http.client import HTTPException
        from tempfile import NamedTemporaryFile

        if self.authority is None:
            return False
        context = _trusting(self.authority(), "h2")
        with NamedTemporaryFile("w") as pair:  # Python's TLS reads files only; of mode 0600
            pair.write(held.key + held.chain)
            pair.flush()
            context.load_cert_chain(pair.name)
        there = Address.of(held.address)
        with closing(_connection(there, context, _HANDSHAKE_S)) as connection:
            try:
                connection.connect()
            except (OSError, HTTPException) as error:
                if "_ALERT_" in str(error):
                    return True
                raise OSError(0, str(error), held.address) from None
            try:
                return not connection.sock.recv(1)
            except (ssl.SSLError, ConnectionError):
                return True


def _trusting(authority: bytes, protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as gRPC does: any given one is a root
    context.load_verify_locations(cadata=authority.decode("ascii"))
    context.set_alpn_protocols([protocol])
    return context


def _connection(
    there: Address, context: ssl.SSLContext, timeout_s: float = CALL_TIMEOUT_S
) -> HTTPSConnection:
    """Return a connection that is not made yet, through the proxy that the environment names."""
    from http.client import HTTPSConnection
    from urllib.parse import urlsplit
    from urllib.request import (  # type: ignore[attr-defined]  # typeshed lacks the second
        getproxies,
        proxy_bypass_environment,
    )

    proxies = getproxies()
    proxy = next((proxies[name] for name in _PROXIES if name in proxies), None)
    excepted = {"no": proxies.get("no_grpc", proxies.get("no", ""))}
    if proxy is None or proxy_bypass_environment(there.host, excepted):
        return HTTPSConnection(there.host, there.port, timeout=timeout_s, context=context)
    through = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    made = HTTPSConnection(
        through.hostname or "", through.port or 80, timeout=timeout_s, context=context
    )
    made.set_tunnel(there.host, there.port)
    return made


def _explained(error: Exception) -> str:
    """Describe a connection that failed, with what may be set wrong."""
    text = str(error) or type(error).__name__
    if isinstance(error, _HUNG_UP) or "_ALERT_" in text:
        return text + _WRONG_PORT
    return explain_tls(text)


def explain_tls(text: str) -> str:
    """Put what is wrong with a certificate before the text of a failed connection."""
    meanings = (meaning for sign, meaning in _MEANINGS if sign in text)
    return next(meanings, "{}").format(text)


def _header(value: str | bytes) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
