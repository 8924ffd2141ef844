"""Listener at the public address: TLS, limits on connections, and the choice by protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path

from askance_aggregator.server.outer import http_calls
from askance_aggregator.server.outer.addresses import (
    NoProxyHeader,
    caller_address,
    group_of,
    read_ip,
    read_proxy_header,
)
from askance_aggregator.server.outer.connect_calls import (
    BODY_S,
    ConnectCalls,
    KnownCredentials,
    RefusedAddresses,
    is_connect,
)
from askance_aggregator.server.outer.held import Held
from askance_aggregator.server.outer.pass_through import (
    CERTIFY,
    ENROL,
    PassThrough,
    end_without_memory,
)
from askance_aggregator.server.outer.settings import OuterSettings

_HTTP1, _HTTP2 = "http/1.1", "h2"
_CHUNK = 64 * 1024
_PREFACE_BYTES = 24  # of HTTP/2, and of the head of a frame: RFC 9113, sections 3.4, 4.1 and 6.5
_FRAME_HEAD_BYTES = 9
_FRAME_BYTES = 16_384
_SETTINGS, _ACK = 4, 1
_HELD_BYTES = 96 * 1024  # a first window of a message, and its call
_LINGER_S = 1.0  # in which the rest of a refused request is read, so that its answer arrives
_ADDRESS_S = 60.0
_RETRY_KEY = "askance-retry-after-ms"
_LOG = logging.getLogger(__name__)


class OuterListener:
    """Accepts connections until cancelled.

    Args:
      grpc_socket: path of the Unix socket of this process's gRPC server.
      settings: limits and the certificate.
    """

    def __init__(
        self, listening: socket.socket, grpc_socket: Path, settings: OuterSettings
    ) -> None:
        self._listening = listening
        self._grpc_socket = grpc_socket
        self._settings = settings
        self._tls = tls_context(settings)
        self._connections: Held[str] = Held()  # by the name under which an address is limited
        self._addresses: dict[str, str] = {}  # of the callers behind connections to gRPC
        self._numbers = iter(range(1 << 62))
        self._refused = RefusedAddresses(time.monotonic)
        self._known = KnownCredentials(secrets.token_bytes(32))
        self._missed_header = False  # it is logged once
        self._tasks: set[asyncio.Task[None]] = set()

    def change(self, settings: OuterSettings) -> None:
        """Show another certificate and keep other limits, for connections from now on."""
        self._tls = tls_context(settings)
        self._settings = settings
        self._missed_header = False

    def caller(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the address of a call's caller, by gRPC's name of its connection."""
        address = self._addresses.get(peer.rpartition("/")[2], "")
        return caller_address(address, forwarded, self._settings.networks)

    async def accept(self, passing: PassThrough) -> None:
        """Accept connections for ever."""
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        while True:
            try:
                connection, where = await loop.sock_accept(self._listening)
            except OSError as error:  # no descriptors, or the caller has gone
                _LOG.warning("a connection was not accepted: %s", error.strerror)
                await asyncio.sleep(0.1)
                continue
            peer = str(where[0])
            proxied = self._settings.sends_header(peer)
            group = self._group_of("" if proxied else peer)
            if self._connections.total >= self._settings.connections or self._is_full(group):
                connection.close()
                continue
            self._connections.take(group)
            task = loop.create_task(self._serve(connection, peer, group, proxied, passing))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _group_of(self, address: str) -> str:
        """Return the name under which an address is limited; empty: it is not."""
        found = read_ip(address)
        return "" if found is None else group_of(found, self._settings.networks)

    def _is_full(self, group: str) -> bool:
        """Return whether as many connections of an address are open as there may be."""
        return bool(group) and self._connections.of(group) >= self._settings.connections_per_address

    async def _serve(
        self,
        connection: socket.socket,
        address: str,
        group: str,
        proxied: bool,
        passing: PassThrough,
    ) -> None:
        try:
            if proxied:
                address = await self._read_caller(connection, address)
                found = self._group_of(address)
                if self._is_full(found):
                    connection.close()
                    return
                self._connections.give_back(group)
                group = found
                self._connections.take(group)
            await self._speak(connection, address, passing)
        except MemoryError:
            end_without_memory()
        except NoProxyHeader as error:
            if not self._missed_header:
                _LOG.warning("a connection from %s in proxy_protocol: %s", address, error)
            self._missed_header = True
        except (OSError, TimeoutError, EOFError):  # the caller's, and nothing to be said
            pass
        finally:
            self._connections.give_back(group)

    async def _read_caller(self, connection: socket.socket, proxy: str) -> str:
        """Return the address for which a proxy connects; its own where it connects for itself."""
        receive = partial(asyncio.get_running_loop().sock_recv, connection)
        connection.setblocking(False)
        try:
            async with asyncio.timeout(self._settings.handshake_s):
                return await read_proxy_header(receive) or proxy
        except BaseException:
            connection.close()
            raise

    async def _speak(self, connection: socket.socket, address: str, passing: PassThrough) -> None:
        loop, wait_s = asyncio.get_running_loop(), self._settings.handshake_s
        reader = asyncio.StreamReader(limit=http_calls.MAX_HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=wait_s
            )
        except BaseException:
            connection.close()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            if writer.get_extra_info("ssl_object").selected_alpn_protocol() == _HTTP2:
                await self._pipe(reader, writer, address)
            else:
                await self._answer(reader, writer, address, passing)
        finally:
            writer.transport.abort()

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        address: str,
        passing: PassThrough,
    ) -> None:
        """Answer one request."""
        wait_s = self._settings.handshake_s
        served = True
        try:
            async with asyncio.timeout(wait_s) as patience:
                head = await http_calls.read_head(reader)
                caller = caller_address(address, head.forwarded, self._settings.networks)
                if self._settings.connect and is_connect(head):
                    patience.reschedule(None)  # its body has a time of its own
                    answered = await self._connect(passing).answer(head, reader, caller)
                    served, reply = answered.whole, answered.data
                else:
                    call = await http_calls.read_http_call(head, reader, (ENROL, CERTIFY))
                    patience.reschedule(None)
                    reply = await _passed_on(call, caller, passing)
        except http_calls.HttpRefusal as refused:
            served, reply = False, http_calls.refusal(refused.status, refused.code, str(refused))
        except TimeoutError:
            served, text = False, f"request: expected it whole within {wait_s:g} s"
            reply = http_calls.refusal(HTTPStatus.REQUEST_TIMEOUT, "DEADLINE_EXCEEDED", text)
        async with asyncio.timeout(wait_s):
            writer.write(reply)
            await writer.drain()
            if not served:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LINGER_S):
                        while await reader.read(_CHUNK):
                            pass
            writer.close()
            await writer.wait_closed()

    def _connect(self, passing: PassThrough) -> ConnectCalls:
        found = self._settings
        body_s = min(BODY_S, found.handshake_s)
        origins, networks = found.origins, found.networks
        return ConnectCalls(passing, origins, networks, self._refused, self._known, body_s)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        """Pass bytes between a caller and the gRPC server of this process, until one ends."""
        name = f"caller-{next(self._numbers)}"
        bound = self._grpc_socket.with_name(name)
        self._addresses[name] = address
        try:
            there, back = await self._connected(bound)
            await self._copy_both(reader, writer, there, back)
        finally:
            # Calls on the connection may notice its end later than this process does.
            asyncio.get_running_loop().call_later(_ADDRESS_S, self._addresses.pop, name, None)

    async def _copy_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        copies = [
            asyncio.ensure_future(_copy_settled(reader, back, self._settings.handshake_s)),
            asyncio.ensure_future(_copy(there, writer)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            back.transport.abort()
            await asyncio.wait(copies)
        for copy in copies:
            if not copy.cancelled():
                copy.result()
        async with asyncio.timeout(_LINGER_S):
            writer.close()
            await writer.wait_closed()

    async def _connected(self, bound: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the gRPC server, which shows the name that is bound as a call's peer."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            connection.bind(str(bound))
            await asyncio.get_running_loop().sock_connect(connection, str(self._grpc_socket))
            return await asyncio.open_connection(sock=connection)
        except BaseException:
            connection.close()
            raise
        finally:
            bound.unlink(missing_ok=True)


async def _passed_on(call: http_calls.HttpCall, caller: str, passing: PassThrough) -> bytes:
    """Return the answer to a call that the aggregator decides."""
    code, details, data, trailing = await passing.call(call.path, call.body, call.metadata, caller)
    if code == "OK":
        return http_calls.answer(HTTPStatus.OK, data)
    status = http_calls.STATUSES.get(code, HTTPStatus.INTERNAL_SERVER_ERROR)
    more = [(key, str(value)) for key, value in trailing if key == _RETRY_KEY]
    return http_calls.refusal(status, code, details, more)


async def _copy_settled(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, within_s: float
) -> None:
    """Pass on a caller's bytes; until it has acknowledged gRPC's settings, its settings alone."""
    # gRPC's limit on header lists binds a caller that has acknowledged it. From any other it takes
    # 16 MiB per list, and keeps 115 bytes per byte that was sent.
    held = b""
    with suppress(OSError, EOFError, TimeoutError):
        async with asyncio.timeout(within_s):
            target.write(await source.readexactly(_PREFACE_BYTES))
            while len(held) <= _HELD_BYTES:
                head = await source.readexactly(_FRAME_HEAD_BYTES)
                size, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
                if size > _FRAME_BYTES:
                    return
                frame = head + await source.readexactly(size)
                if kind != _SETTINGS:
                    held += frame
                    continue
                target.write(frame)
                if flags & _ACK:
                    break
            else:
                return
        target.write(held)
        await target.drain()
        await _copy(source, target)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()


def tls_context(settings: OuterSettings) -> ssl.SSLContext:
    """Return the server's half of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # The first that a caller offers too: browsers offer both, gRPC the former alone.
    protocols = [_HTTP2, _HTTP1]
    context.set_alpn_protocols(protocols[::-1] if settings.connect else protocols)
    with _as_file(settings.certificate) as certificate, _as_file(settings.key) as key:
        context.load_cert_chain(certificate, key, password=lambda: "")
    return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give a text the name of a file, which Python's TLS reads; in memory where the system can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        yield file.name
