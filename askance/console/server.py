"""Server of a console: its address, its certificate, and bounds on connections."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from askance_client.addresses import Address
from askance_client.errors import InvalidParameter

HEAD_S = 10.0  # for the head of a request to arrive, between two requests, and for TLS to begin
MAX_CONNECTIONS = 256  # the one that has waited longest for a head gives way to a new one
MAX_HEAD_BYTES = 16 * 1024
_GRACE_S = 1  # for pages that are being made when the console ends; live ones have no end


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Address of a console, and its certificate.

    Args:
      listen: where it listens; port 0 takes a free one.
      certificate: PEM file of the chain; None: plain HTTP, on this machine only.
      certificate_key: PEM file of its key.
      names: hosts, without ports, by which browsers call it beside the address.

    Raises:
      InvalidParameter: an address that other machines reach, without a certificate; a certificate
        without its key; an address that stands for all, without a name.
    """

    listen: Address
    certificate: Path | None = None
    certificate_key: Path | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.certificate_key is None):
            raise InvalidParameter("console: expected a certificate and its key, got one of them")
        if self.certificate is None and not self.listen.is_loopback:
            raise InvalidParameter(
                f"--listen: expected an address of this machine (127.0.0.1:{self.listen.port}), or"
                f" --certificate and --certificate-key, got {self.listen} without TLS"
            )
        if self.listen.is_wildcard and not self.names:
            raise InvalidParameter(
                f"--listen: expected --name HOST, by which browsers call it, with {self.listen}"
            )

    def hosts(self, port: int) -> tuple[str, ...]:
        """Return the values that the header Host may have; the first one is in login links."""
        own = (*self.names, *(() if self.listen.is_wildcard else (self.listen.host,)))
        known = (*own, "localhost", "127.0.0.1", "::1") if self.listen.is_loopback else own
        hosts = [str(Address(host, port)).lower() for host in known]
        if port == (80 if self.certificate is None else 443):  # browsers leave out these
            hosts += [Address(host, port).bare_host.lower() for host in known]
        return tuple(dict.fromkeys(hosts))


class ConsoleServer:
    """A socket that listens, and the server behind it.

    Raises:
      InvalidParameter: the address cannot be listened on, or the certificate cannot be used.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        _check_certificate(settings)
        listen = settings.listen
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        try:
            self._socket = socket.create_server((listen.host, listen.port), family=family)
        except OSError as error:
            raise InvalidParameter(
                f"--listen: expected a free address, got {listen}: {error.strerror}"
            ) from None
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """See `ConsoleSettings.hosts`."""
        return self._settings.hosts(self.port)

    def run(self, application: ASGIApp, ready: Callable[[], None]) -> None:
        """Serve until SIGINT, SIGTERM or `stop`; `ready` is called once, when it is served."""
        settings = self._settings
        configuration = uvicorn.Config(
            application,
            http=_BoundedProtocol,
            loop="asyncio",  # uvloop's start_tls loses what came before it
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.certificate_key,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_no_end)
        self._server = _ReadyServer(configuration, ready)
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End the server; safe to call from another thread."""
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Close the socket, if it was never served."""
        self._socket.close()


def _check_certificate(settings: ConsoleSettings) -> None:
    """Refuse a certificate that cannot be served, before anything listens."""
    chain, key = settings.certificate, settings.certificate_key
    if chain is None or key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, lambda: b"")
    except OSError as error:  # those of TLS are among them
        told = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidParameter(
            f"--certificate: expected a chain in PEM, and its key in --certificate-key, without a"
            f" password; got {chain} and {key}: {told or 'not PEM'}"
        ) from None


def _is_no_end(record: logging.LogRecord) -> bool:
    """Leave out that pages were open at the end, which is how live pages end."""
    return "graceful shutdown" not in str(record.msg)


class _ReadyServer(uvicorn.Server):
    """Server that says when it is ready, and that counts connections from the first byte on."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()

        def speak_http() -> _BoundedProtocol:
            return _BoundedProtocol(self.config, self.server_state, self.lifespan.state, loop)

        def accept() -> asyncio.BaseProtocol:
            if self.config.ssl is None:
                return speak_http()
            return _BeforeTls(self.config.ssl, speak_http, self.server_state.connections)

        self.servers = [
            await loop.create_server(accept, sock=one, backlog=self.config.backlog)
            for one in sockets or ()
        ]
        self.started = True
        self._ready()


class _Waiting(Protocol):
    """Connection that may wait for what its peer is to send."""

    has_asked: bool
    since_s: float

    @property
    def is_waiting(self) -> bool:
        """True if the connection has nothing to answer."""
        ...

    def hang_up(self) -> None:
        """Close the connection at once, and leave the set of connections."""
        ...


def _make_room(connections: set[Any]) -> None:
    """Close the connection that has waited longest, if there are too many."""
    # Connections that have never asked anything go first. The newest one waits too, so that one is
    # found.
    if len(connections) > MAX_CONNECTIONS:
        waiting: Iterable[_Waiting] = (one for one in connections if one.is_waiting)
        min(waiting, key=lambda one: (one.has_asked, one.since_s)).hang_up()


class _BeforeTls(asyncio.Protocol):
    """Connection on which TLS has not begun to be spoken; it counts as one that waits."""

    has_asked = False
    is_waiting = True

    def __init__(
        self, context: ssl.SSLContext, speak: Callable[[], _BoundedProtocol], connections: set[Any]
    ) -> None:
        self._context = context
        self._speak = speak
        self._connections = connections
        self._early = b""
        self._is_gone = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        transport.pause_reading()  # what has come is read by TLS
        loop = asyncio.get_running_loop()
        self.since_s = loop.time()
        self._connections.add(self)
        _make_room(self._connections)
        self._beginning = loop.create_task(self._begin(loop))

    def data_received(self, data: bytes) -> None:
        self._early += data  # it came with the end of the handshake

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._is_gone = True

    def hang_up(self) -> None:
        self._connections.discard(self)
        self._transport.abort()

    shutdown = hang_up  # called by uvicorn at its end

    async def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            secure = await loop.start_tls(
                self._transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HEAD_S,
            )
        except (OSError, RuntimeError):  # no TLS, or none in time; or the peer has gone
            self.hang_up()
            return
        if secure is None or self._is_gone:
            return
        self._connections.discard(self)
        protocol = self._speak()
        secure.set_protocol(protocol)
        protocol.connection_made(secure)
        if self._early:
            protocol.data_received(self._early)


class _BoundedProtocol(H11Protocol):
    """Protocol that closes a connection on which no request's head arrives in time."""

    has_asked = False
    _deadline: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def hang_up(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()
        _make_room(self.connections)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.has_asked = True
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self.since_s = self.loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(HEAD_S, self._close_idle)

    def _close_idle(self) -> None:
        if self.is_waiting:
            self.transport.abort()
