"""An authority's file that is replaced is trusted from the next connection on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.process.certificates import self_made
from askance_client.errors import InvalidParameter
from askance_client.service import (
    CertificateFile,
    Metadata,
    OpenSide,
    open_channel,
    read_authority,
    system_now_s,
)
from askance_client.service.authority import DeviceCertificate, RenewedChannel
from askance_client.service.streams import describe
from askance_protos.v1 import exchange_pb2 as pb

METHOD = "/service/Method"
NOT_THERE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@asynccontextmanager
async def serving(key: bytes, certificate: bytes, port: int = 0) -> AsyncIterator[int]:
    """A server with a certificate, on a port of its own or on a given one."""

    async def answer(data: bytes, _: object) -> bytes:
        return data

    server = aio.server()
    handlers: dict[str, Any] = {"Method": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("service", handlers),))
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    port = server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def until_answered(channel: aio.Channel) -> None:
    """Call until an answer comes."""
    for _ in range(200):
        try:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            assert await call(b"x") == b"x"
            return
        except aio.AioRpcError:
            await asyncio.sleep(0.05)
    raise AssertionError("expected an answer, got none")


@pytest.mark.parametrize(
    ("begins_s", "explained"),
    [
        (2 * 3_600, "expected a certificate that is valid by this clock, got a later one"),
        (-900 * 86_400, "expected a certificate that is valid by this clock, got one that ended"),
    ],
)
def test_a_call_says_that_a_certificate_is_not_valid_by_this_clock(
    begins_s: int, explained: str
) -> None:
    """A server's certificate lasts 825 days, and begins an hour before it is made."""
    ca, server = self_made([], system_now_s() + begins_s)

    async def failure() -> str:
        async with serving(server.key, server.certificate) as port:
            channel = open_channel(f"127.0.0.1:{port}", lambda: ca.certificate, longest_wait_ms=100)
            async with channel:
                call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
                try:
                    await call(b"x")
                except aio.AioRpcError as error:
                    return describe(error)
        return ""

    assert asyncio.run(failure()).startswith(f"UNAVAILABLE: {explained}: ")


def test_a_replaced_authority_is_trusted_at_the_next_connection(tmp_path: Path) -> None:
    """The server comes back with another authority's certificate; the channel is the same one."""
    (first, old), (second, new) = (self_made([], system_now_s()) for _ in range(2))
    file = tmp_path / "ca.pem"
    file.write_bytes(first.certificate)

    async def scenario() -> None:
        async with serving(old.key, old.certificate) as port:
            channel = open_channel(
                f"127.0.0.1:{port}", partial(read_authority, file), longest_wait_ms=100
            )
            await until_answered(channel)
            file.write_bytes(second.certificate)
            await until_answered(channel)  # by the connection that stands
        async with channel, serving(new.key, new.certificate, port):
            await until_answered(channel)

    asyncio.run(scenario())


async def refused(channel: aio.Channel) -> bool:
    """Call five times and return whether every call failed."""
    for _ in range(5):
        call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        try:
            await call(b"x")
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(0.1)
        else:
            return False
    return True


@dataclass(frozen=True)
class Answering:
    """An aggregator at 127.0.0.1:7443 that gives one answer."""

    answer: pb.CertifyResponse
    address: str = "127.0.0.1:7443"

    async def call(self, method: str, _: bytes, metadata: Metadata) -> bytes:
        assert method == "Certify"
        assert ("askance-takes-address", "1") in metadata
        return self.answer.SerializeToString()


def answered(folder: Path, answer: pb.CertifyResponse) -> CertificateFile:
    side = cast("OpenSide", Answering(answer))
    return CertificateFile(folder / "certificate.json", system_now_s, side)


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ({"port": 7445}, "127.0.0.1:7445"),
        ({"port": 443, "address": "devices.example.org:443"}, "devices.example.org:443"),
        ({"address": "[2001:db8::1]:443"}, "[2001:db8::1]:443"),
        ({"address": "devices.example.org"}, None),
        ({"address": ":443"}, None),
        ({"address": "x:65536"}, None),
        ({"address": "x HTTP/1.1\r\nX: y:443"}, None),  # a line for the proxy on the way
    ],
)
def test_a_device_calls_where_the_answer_says(
    tmp_path: Path, told: dict[str, Any], address: str | None
) -> None:
    _, server = self_made([], system_now_s())
    kept = answered(tmp_path, pb.CertifyResponse(chain=server.certificate, **told))
    if address is None:
        with pytest.raises(InvalidParameter, match="expected HOST:PORT"):
            asyncio.run(kept.obtain(()))
        assert kept.read() is None
    else:
        asyncio.run(kept.obtain(()))
        held = kept.read()
        assert held is not None
        assert held.address == address


def test_an_authority_in_an_answer_is_not_trusted(tmp_path: Path) -> None:
    """The aggregator sends another authority with the device's certificate, then shows its own."""
    (ours, server), (theirs, other) = (self_made([], system_now_s()) for _ in range(2))

    answer = pb.CertifyResponse(chain=server.certificate, authority=theirs.certificate)
    kept = answered(tmp_path, answer)

    def held() -> DeviceCertificate:
        found = kept.read()
        assert found is not None
        return replace(found, address="")  # its key is not the server's: it is not shown

    async def scenario() -> None:
        await kept.obtain(())
        async with serving(other.key, other.certificate) as port:
            channel = open_channel(
                f"127.0.0.1:{port}", lambda: ours.certificate, longest_wait_ms=50, own=held
            )
            async with channel:
                assert await refused(channel)
        async with serving(server.key, server.certificate, port):
            channel = open_channel(
                f"127.0.0.1:{port}", lambda: ours.certificate, longest_wait_ms=50, own=held
            )
            async with channel:
                await until_answered(channel)

    asyncio.run(scenario())


class Inner:
    """A channel in a state, and what became of it."""

    def __init__(self, trusted: bytes) -> None:
        self.trusted = trusted
        self.state = grpc.ChannelConnectivity.IDLE
        self.closed = asyncio.Event()

    def get_state(self, _: bool = False) -> grpc.ChannelConnectivity:
        return self.state

    async def wait_for_state_change(self, _: grpc.ChannelConnectivity) -> None:
        await self.closed.wait()

    async def close(self, _: float | None = None) -> None:
        self.state = grpc.ChannelConnectivity.SHUTDOWN
        self.closed.set()

    def unary_unary(self, method: str) -> Callable[[bytes], tuple[bytes, str, bytes]]:
        return lambda data: (self.trusted, method, data)


def test_a_connection_that_stands_and_a_file_that_is_none_change_nothing() -> None:
    made: list[Inner] = []
    trusted: list[bytes | None] = [b"first"]

    def authority() -> bytes:
        if trusted[0] is None:
            raise InvalidParameter("ca: expected a certificate, got none")
        return trusted[0]

    def channel(ca: bytes, _: object) -> Inner:
        made.append(Inner(ca))
        return made[-1]

    async def scenario() -> None:
        renewed = RenewedChannel(authority, channel, lambda: None)  # type: ignore[arg-type]  # what is used of one
        call = renewed.unary_unary(METHOD)
        assert call(b"x") == (b"first", METHOD, b"x")
        trusted[0] = None
        assert call(b"x")[0] == b"first"  # half written
        trusted[0] = b"second"
        made[0].state = grpc.ChannelConnectivity.READY
        assert call(b"x")[0] == b"first"  # the connection stands
        made[0].state = grpc.ChannelConnectivity.TRANSIENT_FAILURE
        watching = asyncio.ensure_future(renewed.wait_for_state_change(made[0].state))
        await asyncio.sleep(0)
        assert call(b"x")[0] == b"second"
        await asyncio.wait_for(watching, 60)  # the old channel's watcher goes on with the new one
        assert renewed.get_state() is grpc.ChannelConnectivity.IDLE
        assert made[0].closed.is_set()
        await renewed.close()
        assert made[1].closed.is_set()

    asyncio.run(scenario())
    assert len(made) == 2


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff\xfe", NOT_THERE.encode()])
def test_a_file_without_a_certificate_is_refused_with_its_path(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(content)
    with pytest.raises(InvalidParameter, match=r"expected a certificate \(PEM\) in .*ca\.pem"):
        read_authority(file)
    with pytest.raises(InvalidParameter, match="cannot be read: No such file"):
        read_authority(tmp_path / "absent.pem")
