"""Honest devices beside hostile connections: latency, refusals, and the aggregator's memory.

The aggregator, the honest devices and the hostile peers are a process each. Hostile peers write
HTTP/2 by hand over plain sockets, bound to 127.0.0.2 and above, a fifth of the connections each:

    silent    streams without credentials, opened and left
    unknown   streams of device ids that are not enrolled, each another
    flood     check-ins of 1 MB without credentials, as far as flow control lets them
    unread    health checks whose answers are never read
    halfopen  connections that are made and then say nothing

Honest devices check in and hold streams. Phases of three sorts take turns, so that a busy machine
disturbs all alike: without hostile peers, with hostile calls spread over time, and with bursts, in
which every hostile connection calls at the same moment. The 99th percentile is that of all calls of
a sort's phases. Everything is on loopback and bounded in count and time.

    python benchmarks/hostile_peers.py [--connections 200] [--calls-per-s 400] [--seconds 10]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvloop
from grpc import aio
from service_load import metadata, token

from askance_aggregator.server.devices import (
    AggregatorServer,
    ServerParts,
    ServiceFleet,
)
from askance_aggregator.server.process.health import Health
from askance_aggregator.server.services.analysts import AnalystsServicer
from askance_aggregator.server.studies import StudyManager
from askance_aggregator.store import SqliteStore
from askance_client.garbage_collection import rare_collections
from askance_client.service import (
    SERVICE,
    CheckIn,
    channel_options,
    encode_check_in,
    token_digest,
)

DEVICES = 100  # honest ones; a fifth of them hold a stream
EVERY_S = 0.5  # between two check-ins of one device
KINDS = ("silent", "unknown", "flood", "unread", "halfopen")
ADDRESSES = 50  # of hostile peers
SORTS = ("without", "spread", "bursts")  # of phases
TIMES = 5  # phases of each sort

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _GOAWAY, _WINDOW = 0, 1, 4, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_FRAME = struct.Struct(">BHBBI")  # length in three bytes, type, flags, stream
_PIECE = 16_384
_MESSAGE = b"\0" + (1 << 20).to_bytes(4, "big") + bytes(1 << 20)
_ENDED_STREAMS = 1 << 20  # stream ids of a connection before it is made anew


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame of HTTP/2."""
    size = len(payload)
    return _FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def headers(path: str, *credentials: tuple[str, bytes]) -> bytes:
    """Return a header block of literals, without Huffman codes or the table."""
    given = [
        (":method", b"POST"),
        (":scheme", b"http"),
        (":path", path.encode()),
        (":authority", b"localhost"),
        ("content-type", b"application/grpc"),
        ("te", b"trailers"),
        *credentials,
    ]
    return b"".join(
        b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value) for name, value in given
    )


def unknown() -> tuple[tuple[str, bytes], ...]:
    """Return the credentials of a device that is not enrolled."""
    values = {"askance-device-bin": os.urandom(16), "askance-token-bin": os.urandom(32)}
    return (
        ("askance-protocol", b"1"),
        *((key, base64.b64encode(value).rstrip(b"=")) for key, value in values.items()),
    )


class Hostile:
    """Hostile connection; made again when the aggregator closes it."""

    def __init__(self, kind: str, number: int, port: int, counts: Counter[str]) -> None:
        self._kind = kind
        self._source = f"127.0.0.{2 + number % ADDRESSES}"
        self._port = port
        self._counts = counts

    async def run(self, start_s: float, pause_s: float) -> None:
        """Make calls from a time on, with a pause after each, until cancelled."""
        await asyncio.sleep(start_s)
        while True:
            try:
                await self._connection(pause_s)
            except OSError:
                self._counts[f"{self._kind} closed"] += 1
            await asyncio.sleep(pause_s)

    async def _connection(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        peer = socket.socket()
        peer.setblocking(False)
        reading: asyncio.Task[None] | None = None
        try:
            peer.bind((self._source, 0))
            await loop.sock_connect(peer, ("127.0.0.1", self._port))
            self._counts["connections"] += 1
            if self._kind == "halfopen":
                while await loop.sock_recv(peer, 1 << 10):
                    pass
                raise ConnectionResetError
            await loop.sock_sendall(peer, _PREFACE + frame(_SETTINGS, 0, 0))
            self._window = 65_535
            if self._kind != "unread":
                reading = asyncio.ensure_future(self._read(peer))
            for stream in range(1, _ENDED_STREAMS, 2):
                if reading is not None and reading.done():
                    raise ConnectionResetError
                await self._call(peer, stream)
                self._counts[self._kind] += 1
                await asyncio.sleep(pause_s)
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            peer.close()

    async def _call(self, peer: socket.socket, stream: int) -> None:
        loop = asyncio.get_running_loop()
        path = f"/{SERVICE}/Participate"
        credentials: tuple[tuple[str, bytes], ...] = ()
        if self._kind == "unknown":
            credentials = unknown()
        elif self._kind == "flood":
            path = f"/{SERVICE}/CheckIn"
        elif self._kind == "unread":
            path = "/grpc.health.v1.Health/Check"
        block = headers(path, *credentials)
        await loop.sock_sendall(peer, frame(_HEADERS, _END_HEADERS, stream, block))
        if self._kind == "unread":
            await loop.sock_sendall(peer, frame(_DATA, _END_STREAM, stream, bytes(5)))
        elif self._kind == "flood":
            left = min(65_535, self._window)  # what one stream may send, and the connection
            self._window -= left
            for start in range(0, left, _PIECE):
                piece = _MESSAGE[start : min(start + _PIECE, left)]
                await loop.sock_sendall(peer, frame(_DATA, 0, stream, piece))

    async def _read(self, peer: socket.socket) -> None:
        """Read frames: acknowledge settings, and count what the connection may send."""
        loop, waiting = asyncio.get_running_loop(), b""
        while data := await loop.sock_recv(peer, 1 << 16):
            waiting += data
            while len(waiting) >= _FRAME.size:
                high, low, kind, flags, stream = _FRAME.unpack_from(waiting)
                end = _FRAME.size + (high << 16 | low)
                if len(waiting) < end:
                    break
                payload, waiting = waiting[_FRAME.size : end], waiting[end:]
                if kind == _SETTINGS and not flags & _ACK:
                    await loop.sock_sendall(peer, frame(_SETTINGS, _ACK, 0))
                elif kind == _WINDOW and stream == 0:
                    self._window += int.from_bytes(payload, "big")
                elif kind == _GOAWAY:
                    return


async def attack(options: argparse.Namespace) -> dict[str, int]:
    """Hold hostile connections for some seconds; return what they did, by kind."""
    counts: Counter[str] = Counter()
    connections, seconds = options.connections, options.seconds
    pause_s = connections / options.calls_per_s
    between_s = 0.0 if options.bursts else pause_s / connections
    peers = [
        asyncio.ensure_future(
            Hostile(KINDS[n % len(KINDS)], n, options.port, counts).run(n * between_s, pause_s)
        )
        for n in range(connections)
    ]
    await asyncio.sleep(seconds)
    for peer in peers:
        peer.cancel()
    await asyncio.gather(*peers, return_exceptions=True)
    return dict(counts)


async def behave(port: int, seconds: float) -> dict[str, Any]:
    """Let honest devices check in, some beside a stream; return latencies and refusals."""
    channels = [
        aio.insecure_channel(f"127.0.0.1:{port}", options=channel_options(own_connection=True))
        for _ in range(DEVICES // 5)
    ]
    latencies: list[float] = []
    refused: Counter[str] = Counter()
    message, until = encode_check_in(CheckIn()), time.perf_counter() + seconds

    async def device(ordinal: int) -> None:
        channel = channels[ordinal % len(channels)]
        mine = metadata(ordinal)
        call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
        stream: Any = None
        if ordinal % 5 == 0:
            stream = channel.stream_stream(f"/{SERVICE}/Participate")(metadata=mine)
            await stream.initial_metadata()
            await stream.write(message)
        await asyncio.sleep(EVERY_S * ordinal / DEVICES)
        while time.perf_counter() < until:
            began = time.perf_counter()
            try:
                await call(message, metadata=mine, timeout=30)
                latencies.append(time.perf_counter() - began)
            except aio.AioRpcError as error:
                refused[error.code().name] += 1
            await asyncio.sleep(EVERY_S)
        if stream is not None:
            if stream.done():
                refused[(await stream.code()).name] += 1
            stream.cancel()

    await asyncio.gather(*(device(ordinal) for ordinal in range(DEVICES)))
    for channel in channels:
        await channel.close()
    return {"latencies": latencies, "refused": dict(refused)}


def percentiles(latencies: Sequence[float]) -> dict[str, float]:
    """Return the number of calls, their median and their 99th percentile."""
    ordered = sorted(latencies)
    return {
        "calls": len(ordered),
        "p50_ms": round(1000 * ordered[len(ordered) // 2], 2),
        "p99_ms": round(1000 * ordered[len(ordered) * 99 // 100], 2),
    }


def serve() -> None:
    """Serve devices, analysts and the health service until standard input ends."""
    health = Health()
    with (
        rare_collections(),
        tempfile.TemporaryDirectory(prefix="askance-") as folder,
        ThreadPoolExecutor(4) as executor,
    ):
        store = SqliteStore.create(Path(folder) / "store.sqlite")
        store.enrol((b"load %d" % n, token_digest(token(n))) for n in range(DEVICES))

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            manager = StudyManager(store, fleet, analysts=frozenset())
            analysts = AnalystsServicer(manager, executor=executor)
            server.add_generic_rpc_handlers((analysts.handler(),))
            health.add_to(server)

        parts = ServerParts(services=(add,))
        with AggregatorServer.start(store, parts=parts) as server:
            print(json.dumps({"port": int(server.address.rpartition(":")[2])}), flush=True)
            sys.stdin.read()
        store.close()


def started(*words: object) -> subprocess.Popen[str]:
    """Start this program as another process, in another role."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def next_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next line of a process, as JSON."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def memory_mb(process: int, line: str) -> float:
    """Return a process's memory in MB: VmRSS, resident now, or VmHWM, at its peak."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (kilobytes,) = [words.split()[1] for words in lines if words.startswith(f"{line}:")]
    return round(int(kilobytes) * 1024 / 1e6, 1)


def phase(sort: str, subject: Sequence[object], options: argparse.Namespace) -> dict[str, Any]:
    """Let honest devices check in beside hostile peers of this sort; return what both saw."""
    attacking = None
    if sort != "without":
        pace = ("--calls-per-s", options.calls_per_s, "--seconds", options.seconds + 2)
        bursts = ("--bursts",) if sort == "bursts" else ()
        attacking = started("--role", "hostile", *subject, *pace, *bursts)
        time.sleep(1.5)  # their connections are there
    behaving = started("--role", "honest", *subject, "--seconds", options.seconds)
    seen = next_line(behaving)
    behaving.wait()
    if attacking is not None:
        seen["hostile"] = next_line(attacking)
        attacking.wait()
    return seen


def measure(options: argparse.Namespace) -> None:
    """Run phases of each sort in turn and print a line of JSON for each, then one for all."""
    server = started("--role", "server")
    latencies: dict[str, list[float]] = {sort: [] for sort in SORTS}
    refused: Counter[str] = Counter()
    try:
        port = next_line(server)["port"]
        subject = ("--port", port, "--connections", options.connections)
        behaving = started("--role", "honest", *subject, "--seconds", 2)
        next_line(behaving)
        behaving.wait()  # a warm service
        before = memory_mb(server.pid, "VmRSS")
        for sort in SORTS * TIMES:
            seen = phase(sort, subject, options)
            latencies[sort] += seen["latencies"]
            refused.update(seen["refused"])
            figures = percentiles(seen.pop("latencies"))
            resident_mb = memory_mb(server.pid, "VmRSS")
            print(json.dumps({"peers": sort, **figures, **seen, "resident_mb": resident_mb}))
        most = memory_mb(server.pid, "VmHWM")
    finally:
        server.communicate()
    all_calls = {sort: percentiles(latencies[sort]) for sort in SORTS}
    ratios = {
        sort: round(all_calls[sort]["p99_ms"] / all_calls["without"]["p99_ms"], 2)
        for sort in SORTS[1:]
    }
    growth = {"honest_refused": dict(refused), "memory_growth_mb": round(most - before, 1)}
    print(json.dumps({**all_calls, "p99_ratio": ratios, **growth}))


def main(argv: Sequence[str]) -> int:
    """Run one role, or all of them."""
    parser = argparse.ArgumentParser(description="Honest devices beside hostile connections.")
    parser.add_argument("--role", choices=("all", "server", "honest", "hostile"), default="all")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--calls-per-s", type=float, default=400.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--bursts", action="store_true", help="hostile calls at the same moments")
    options = parser.parse_args(argv)
    if options.role == "server":
        serve()
    elif options.role == "all":
        measure(options)
    else:
        work: Any
        if options.role == "hostile":
            work = attack(options)
        else:
            work = behave(options.port, options.seconds)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(work)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
