"""Honest devices beside peers that write HTTP/2 frames by hand: memory, latency, refused calls.

The aggregator is a served one, with TLS. Devices check in at their port, each by its certificate.
Attackers call the same port from other addresses: by the certificate and credentials of one more
enrolled device, or without one (`--by anyone`).

    fields        header lists of 12,000 one-byte indexed fields, a stream each; answers, which end
                  a stream, are not read, and settings not acknowledged
    enrolled      likewise, with the credentials of the enrolled device
    continuation  one header list that does not end
    proven        a good call of the enrolled device, then such a list
    reset         streams that are opened and reset
    pings, settings  frames that must be acknowledged, whose acknowledgements are not read
    watches       health watches, opened and reset
    bodies        check-ins of the enrolled device, which send 64 kB and no more
    churn         connections that send the preface of HTTP/2 and go away
    hello         connections that send a ClientHello and go away
    half-open     connections that say nothing

Each attack is measured after a control: as many connections by the certificate that make ordinary
calls without credentials, 50 per second each, and after a phase without other load. The processor
time of each process is printed, so that an attacker who takes more of the machine than the control
is seen.

    python benchmarks/frame_floods.py [--attacks fields,reset] [--connections 6] [--seconds 6]
        [--by anyone] [--proxy deploy/haproxy/haproxy.cfg]

With `--proxy` haproxy stands before the port, by that file, and is the aggregator's trusted proxy.

With `--outer` the outer process is attacked by `held`: connections by TLS and ALPN h2 without
credentials, each of which opens 16 calls of an analyst with 12,000 fields and sends no message. The
outage is of an analyst who makes a new connection for each call, beside the devices. With
`--room-mb` the limit of the process's data is what it has and so much, when the attack begins.

    python benchmarks/frame_floods.py --outer [--connections 24] [--seconds 8] [--room-mb 30]

Everything is on loopback, attackers on the addresses 127.0.0.2 to 127.0.0.9, bounded in count and
time.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import resource
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc
import hostile_peers
from certificates import processor_s
from grpc import aio
from hostile_peers import frame, headers, memory_mb, next_line, percentiles
from service_load import metadata, token

from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.analyst.keys import load_key
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import SqliteStore
from askance_client.addresses import Address
from askance_client.service import (
    SERVICE,
    CertificateFile,
    CheckIn,
    OpenSide,
    channel_options,
    encode_check_in,
    token_digest,
)

ADDRESSES = 8  # of attackers
DEVICES = 20  # honest ones, each with its certificate and a connection
DEVICE = DEVICES  # the enrolled device that attacks
FIELDS = 12_000
MB_PER_S = 2.0  # that a connection sends at most
CALLS_PER_S = 50.0  # of a connection of the control, at most
HALF_OPEN = 16_000  # connections, or as many as there are descriptors for
HELD_STREAMS = 16  # as many as a connection may have
OUTER_CALLS_PER_S = 5.0  # of a connection of the control, at most
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
BACK_S = 30.0  # in which an analyst's calls are looked at after the attack
_CONNECT_S = 2.0
_TRY_S = 2.0  # of an analyst's call, with its connection
_TRY_EVERY_S = 0.1
_PATIENCE_S = 0.5  # of a peer whose bytes are not taken
_SEND_BYTES = 1 << 16  # in the kernel: it would take 4 MB, at a cost that is not the aggregator's
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _CONTINUATION = 0, 1, 3, 4, 6, 7, 9
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_CANCEL = (8).to_bytes(4, "big")
_INDEXED = b"\x90"  # a field of the static table: accept-encoding: gzip, deflate
_PIECE = 16_000
_STREAMS = 1 << 24


class Closed(Exception):
    """The aggregator has closed the connection, or takes no more bytes."""


_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def careless_tls(shown: str) -> ssl.SSLContext:
    """Return TLS of a caller that checks nothing and speaks HTTP/2.

    Args:
      shown: file with its certificate and key; empty: it shows none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if shown:
        context.load_cert_chain(shown)
    return context


def client_hello() -> bytes:
    """Return the first message of a TLS handshake."""
    sent = ssl.MemoryBIO()
    tls = careless_tls("").wrap_bio(ssl.MemoryBIO(), sent)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


class Peer:
    """Connection that writes frames and reads what comes, or does not.

    Args:
      source: the address that it calls from.
      port: the aggregator's.
      counts: of what was done and what came.
      reads: whether it reads.
      tls: that it speaks; None: it writes what it is given.
    """

    def __init__(
        self,
        source: str,
        port: int,
        counts: Counter[str],
        reads: bool,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._counts = counts
        self._reads = reads
        self._waiting = b""
        self._socket = socket.socket()
        self._socket.bind((source, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        self._socket.settimeout(_CONNECT_S)
        try:
            self._socket.connect(("127.0.0.1", port))
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        # What is not read would wake it again and again.
        events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
        self._selector.register(self._socket, events)
        counts["connections"] += 1
        self.answered: set[int] = set()

    def send(self, data: bytes) -> None:
        """Write all of it, and read what has come.

        Raises:
          Closed: the aggregator takes no more.
        """
        view, given_up = memoryview(data), time.monotonic() + _PATIENCE_S
        while view:
            try:
                sent = self._socket.send(view)
                view, given_up = view[sent:], time.monotonic() + _PATIENCE_S
            except _WAITS:
                if time.monotonic() > given_up:
                    raise Closed from None
                self._selector.select(0.05)
            except OSError:
                raise Closed from None
            self.read()
        self._counts["bytes"] += len(data)

    def read(self) -> None:
        """Read what has come.

        Raises:
          Closed: the connection has ended.
        """
        if not self._reads:
            return
        try:
            data = self._socket.recv(1 << 16)
        except _WAITS:
            return
        except OSError:
            raise Closed from None
        if not data:
            raise Closed
        self._waiting += data
        while len(self._waiting) >= 9:
            size = int.from_bytes(self._waiting[:3], "big")
            if len(self._waiting) < 9 + size:
                return
            kind, flags = self._waiting[3], self._waiting[4]
            stream = int.from_bytes(self._waiting[5:9], "big")
            self._waiting = self._waiting[9 + size :]
            if kind == _SETTINGS and not flags & _ACK:
                self._socket.send(frame(_SETTINGS, _ACK, 0))
            elif kind == _PING and not flags & _ACK:
                self._counts["pinged"] += 1
            elif kind == _GOAWAY:
                self._counts["sent away"] += 1
                raise Closed
            elif kind == _RESET:
                self._counts["refused streams"] += 1
            if kind == _RESET or (kind == _HEADERS and flags & _END_STREAM):
                self.answered.add(stream)

    def close(self) -> None:
        """Close the connection."""
        self._selector.close()
        self._socket.close()


def credentials() -> tuple[tuple[str, bytes], ...]:
    """Return the fields that name an enrolled device."""
    return tuple(
        (
            key,
            base64.b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode(),
        )
        for key, value in metadata(DEVICE)
    )


def fields(peer: Peer, given: tuple[tuple[str, bytes], ...] = ()) -> Iterator[int]:
    """Open streams whose header lists have 12,000 fields."""
    block = headers(f"/{SERVICE}/Participate", *given) + _INDEXED * FIELDS
    for stream in range(1, _STREAMS, 2):
        peer.send(frame(_HEADERS, _END_HEADERS, stream, block))
        yield len(block)


def enrolled(peer: Peer) -> Iterator[int]:
    """Open such streams as an enrolled device."""
    return fields(peer, credentials())


def continuation(peer: Peer) -> Iterator[int]:
    """Send a header list that does not end."""
    peer.send(frame(_HEADERS, 0, 1, headers(f"/{SERVICE}/Participate")))
    while True:
        peer.send(frame(_CONTINUATION, 0, 1, _INDEXED * _PIECE))
        yield _PIECE


def proven(peer: Peer) -> Iterator[int]:
    """Make one good call of an enrolled device, and send a header list that does not end."""
    block = headers(f"/{SERVICE}/CheckIn", *credentials())
    opened = frame(_HEADERS, _END_HEADERS, 1, block)
    peer.send(opened + frame(_DATA, _END_STREAM, 1, bytes(5)))
    time.sleep(0.1)
    peer.send(frame(_HEADERS, 0, 3, block))
    while True:
        peer.send(frame(_CONTINUATION, 0, 3, _INDEXED * _PIECE))
        yield _PIECE


def reset(peer: Peer, path: str = f"/{SERVICE}/CheckIn") -> Iterator[int]:
    """Open streams and reset them."""
    block = headers(path)
    for stream in range(1, _STREAMS, 2):
        opened = frame(_HEADERS, _END_HEADERS, stream, block)
        if path != f"/{SERVICE}/CheckIn":
            opened += frame(_DATA, _END_STREAM, stream, bytes(5))
        peer.send(opened + frame(_RESET, 0, stream, _CANCEL))
        yield len(block)


def watches(peer: Peer) -> Iterator[int]:
    """Open health watches and reset them."""
    return reset(peer, "/grpc.health.v1.Health/Watch")


def pings(peer: Peer) -> Iterator[int]:
    """Send pings."""
    many = frame(_PING, 0, 0, bytes(8)) * 100
    while True:
        peer.send(many)
        yield len(many)


def settings(peer: Peer) -> Iterator[int]:
    """Send settings, each to be acknowledged."""
    many = frame(_SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") * 100
    while True:
        peer.send(many)
        yield len(many)


def bodies(peer: Peer) -> Iterator[int]:
    """Begin check-ins of an enrolled device, of 1 MB each, and send 64 kB of them."""
    block = headers(f"/{SERVICE}/CheckIn", *credentials())
    message = b"\0" + (1 << 20).to_bytes(4, "big") + bytes(_PIECE - 5)
    for stream in range(1, _STREAMS, 2):
        peer.send(frame(_HEADERS, _END_HEADERS, stream, block))
        for _ in range(4):
            peer.send(frame(_DATA, 0, stream, message))
        yield len(block) + 4 * len(message)


def churn(peer: Peer) -> Iterator[int]:
    """Go away after the preface."""
    yield 2_000
    raise Closed


def hello(peer: Peer) -> Iterator[int]:
    """Send a ClientHello and go away."""
    data = client_hello()
    peer.send(data)
    yield len(data)
    raise Closed


def calls(peer: Peer) -> Iterator[int]:
    """Make ordinary calls, one after the other, each when the one before has its answer."""
    block = headers(f"/{SERVICE}/CheckIn")
    for stream in range(1, _STREAMS, 2):
        opened = frame(_HEADERS, _END_HEADERS, stream, block)
        peer.send(opened + frame(_DATA, _END_STREAM, stream, bytes(5)))
        given_up = time.monotonic() + 5
        while stream not in peer.answered:
            if time.monotonic() > given_up:
                raise Closed
            time.sleep(0.001)
            peer.read()
        peer.answered.clear()
        yield 0


def held(peer: Peer) -> Iterator[int]:
    """Open an analyst's calls with 12,000 fields each, and keep them open without a message."""
    block = headers("/askance.v1.Analysts/List") + _INDEXED * FIELDS
    for stream in range(1, 2 * HELD_STREAMS, 2):
        peer.send(frame(_HEADERS, _END_HEADERS, stream, block))
        yield len(block)
    while len(peer.answered) < HELD_STREAMS:
        time.sleep(0.02)
        peer.read()
        yield 0
    raise Closed


Attack = Callable[[Peer], Iterator[int]]
ATTACKS: dict[str, Attack] = {
    "fields": fields,
    "continuation": continuation,
    "proven": proven,
    "reset": reset,
    "pings": pings,
    "settings": settings,
    "watches": watches,
    "bodies": bodies,
    "enrolled": enrolled,
    "churn": churn,
    "hello": hello,
    "held": held,
}
UNREAD = ("pings", "settings", "fields", "enrolled", "continuation", "proven")


def run_peer(number: int, options: argparse.Namespace, until: float, counts: Counter[str]) -> None:
    """Attack over one connection, which is made again when it is closed, until a time."""
    kind = options.kind
    attack = calls if kind == "control" else ATTACKS[kind]
    tls = None if kind == "hello" else careless_tls(options.shown)
    source = f"127.0.0.{2 + number % ADDRESSES}"
    began, sent, done = time.monotonic(), 0, 0
    while time.monotonic() < until:
        try:
            peer = Peer(source, options.port, counts, kind not in UNREAD, tls)
        except OSError:
            counts["not connected"] += 1
            time.sleep(0.05)
            continue
        try:
            if tls is not None:
                peer.send(_PREFACE + frame(_SETTINGS, 0, 0))
            for size in attack(peer):
                counts["steps"] += 1
                sent += size
                done += 1
                due = began + max(sent / (MB_PER_S * 1e6), done / options.calls_per_s)
                while (now := time.monotonic()) < due or now >= until:
                    peer.read()
                    if now >= until:
                        break
                    time.sleep(min(0.01, due - now))
                if now >= until:
                    break
        except (Closed, OSError):
            counts["closed"] += 1
            time.sleep(0.002)
        finally:
            peer.close()


def hold_half_open(port: int, until: float, counts: Counter[str]) -> None:
    """Make connections that say nothing."""
    held: list[socket.socket] = []
    number = 0
    most = min(HALF_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
    while time.monotonic() < until:
        if len(held) < most:
            peer = socket.socket()
            peer.settimeout(0.2)
            try:
                peer.bind((f"127.0.0.{2 + number % ADDRESSES}", 0))
                number += 1
                peer.connect(("127.0.0.1", port))
                counts["connections"] += 1
            except OSError:
                counts["not connected"] += 1
            held.append(peer)
        else:
            time.sleep(0.05)
    for peer in held:
        peer.close()


def attack(options: argparse.Namespace) -> dict[str, float]:
    """Attack for some seconds; return what was done, and the processor time that it took."""
    counts: Counter[str] = Counter()
    until = time.monotonic() + options.seconds
    if options.kind == "half-open":
        hold_half_open(options.port, until, counts)
        return {**counts, "processor_s": round(time.process_time(), 2)}
    threads = [
        threading.Thread(target=run_peer, args=(n, options, until, counts))
        for n in range(options.connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {**counts, "processor_s": round(time.process_time(), 2)}


def started(*words: object) -> subprocess.Popen[str]:
    """Start this program as another process, in another role."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class Served:
    """Served aggregator with TLS, and the certificates of its devices.

    Args:
      folder: absent; it is made.
      proxy: file of haproxy, which stands before the devices' port; None: none does.
    """

    def __init__(self, folder: Path, proxy: Path | None = None) -> None:
        home = AggregatorHome.create(
            folder, listen=Address("127.0.0.1", 0), hosts=(), now_s=system_now_s()
        )
        with closing(SqliteStore.open(folder / "store.sqlite")) as store:
            store.enrol((b"load %d" % n, token_digest(token(n))) for n in range(DEVICES + 1))
        if proxy is not None:
            text = home.configuration.read_text()
            trusted = 'trusted_proxies = ["127.0.0.1"] #'
            home.configuration.write_text(text.replace("trusted_proxies = [] #", trusted))
        self._folder, self._log = folder, folder / "log"
        self._authority = home.authority.read_bytes()
        self._key = load_key(home.analyst_key)
        with self._log.open("w") as log:
            words = ["aggregator", "serve", "--config", str(home.configuration), "--json"]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "askance", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        ready = next_line(self.process)
        self.address = str(ready["listening"])
        self.port = int(self.address.rpartition(":")[2])
        self.devices_port = int(ready["certificates_port"])
        self._proxy = None if proxy is None else self._proxied(proxy.read_text())

    def _proxied(self, text: str) -> subprocess.Popen[bytes]:
        """Start haproxy by this text, before the devices' port, which becomes the proxy's."""
        with socket.socket() as free, socket.socket() as unused:
            for one in (free, unused):
                one.bind(("127.0.0.1", 0))
            port, open_port = (one.getsockname()[1] for one in (free, unused))
        changes = {
            "bind :7445": f"bind 127.0.0.1:{port}",
            "bind :7443": f"bind 127.0.0.1:{open_port}",
            "127.0.0.1:7447": f"127.0.0.1:{self.devices_port}",
            "check port 7447": f"check port {self.devices_port}",
            "maxconn 60000": "maxconn 9000",
            "maxconn 50000": "maxconn 4000",
        }
        for before, after in changes.items():
            assert before in text, before
            text = text.replace(before, after)
        file = self._folder / "haproxy.cfg"
        file.write_text(text)
        proxy = subprocess.Popen([HAPROXY, "-db", "-q", "-f", str(file)])
        self.devices_port = port
        while proxy.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return proxy
            time.sleep(0.05)
        raise SystemExit("expected haproxy to run")

    def close(self) -> None:
        """End the aggregator, and the proxy."""
        for process in (self.process, self._proxy):
            if process is not None:
                process.terminate()
                process.communicate()

    def outer_ends(self) -> int:
        """Return how often the outer process has ended."""
        return self._log.read_text().count("the outer process has ended")

    def outer_mb(self) -> float:
        """Return the resident memory of the outer process; 0 while there is none."""
        return self._child_mb("server.outer", "VmRSS")

    def limit_outer(self, room_mb: float) -> None:
        """Let the outer process that runs now have so much more data than it has."""
        pid = self._child("server.outer")
        assert pid is not None
        limit = round(1e6 * (memory_mb(pid, "VmData") + room_mb))
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))

    def memory_mb(self, line: str) -> float:
        """Return the memory of what devices reach: the aggregator's process and the valve's."""
        return memory_mb(self.process.pid, line) + self._child_mb("server.outer.valve", line)

    def processor_s(self) -> dict[str, float]:
        """Return the processor time so far of the aggregator's process and of the valve's."""
        valve = self._child("server.outer.valve")
        return {
            "aggregator": processor_s(self.process.pid),
            "valve": 0.0 if valve is None else processor_s(valve),
            "honest": time.process_time(),
        }

    def _child_mb(self, program: str, line: str) -> float:
        with suppress(OSError, ValueError):
            child = self._child(program)
            return 0.0 if child is None else memory_mb(child, line)
        return 0.0

    def _child(self, program: str) -> int | None:
        pid = self.process.pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if f"askance_aggregator.{program}".encode() in words:
                    return int(child)
        return None

    async def certificate(self, number: int) -> CertificateFile:
        """Return the certificate of a device, which it gets now."""
        file = self._folder / f"certificate-{number}.json"
        open_side = OpenSide(self.address, lambda: self._authority)
        own = CertificateFile(file, system_now_s, open_side)
        await own.obtain(metadata(number))
        return own

    async def honest(self) -> list[grpc.ChannelCredentials]:
        """Return what each of the honest devices shows; keep what the attacking one does."""
        found = [(await self.certificate(number)).read() for number in range(DEVICES + 1)]
        shown = [(got.key.encode(), got.chain.encode()) for got in found if got is not None]
        assert len(shown) == DEVICES + 1
        self.attackers_certificate.write_bytes(b"".join(shown.pop()))
        return [grpc.ssl_channel_credentials(self._authority, *one) for one in shown]

    @property
    def attackers_certificate(self) -> Path:
        """The file with the key and certificate of the device that attacks."""
        return self._folder / "attacker.pem"

    def analyst_calls(self) -> str:
        """Let an analyst list its studies, over a new connection; return the status."""
        signed = sign_call(
            Call("Analysts/List"),
            self._key.public_key().public_bytes_raw(),
            self._key,
            system_now_s(),
        )
        credentials = grpc.ssl_channel_credentials(self._authority)
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(self.address, credentials, options) as channel:
            call: Any = channel.unary_unary("/askance.v1.Analysts/List")
            try:
                call(b"", metadata=call_metadata(signed), timeout=_TRY_S)
            except grpc.RpcError as error:
                return str(error.code().name)
        return "OK"


class Analyst(threading.Thread):
    """Analyst who calls again and again, until ended."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self._served = served
        self.over = threading.Event()
        self.calls: list[tuple[float, float, str]] = []  # begin, end, status
        self.outer_mb = 0.0

    def run(self) -> None:
        """Call until ended."""
        while not self.over.is_set():
            began = time.monotonic()
            status = self._served.analyst_calls()
            self.calls.append((began, time.monotonic(), status))
            self.outer_mb = max(self.outer_mb, self._served.outer_mb())
            self.over.wait(_TRY_EVERY_S)

    def good_after(self, when: float) -> float | None:
        """Return the end of the first good call that began after a time; None: not yet."""
        ends = (end for began, end, status in list(self.calls) if status == "OK" and began >= when)
        return next(ends, None)

    def outage(self, attacked: float, over: float) -> dict[str, Any]:
        """Return how calls ended, and the outage, in seconds."""
        calls = [call for call in self.calls if call[0] >= attacked]
        bad = [began for began, _, status in calls if status != "OK"]
        back = self.good_after(over)
        good = sum(status == "OK" for began, _, status in calls if began < over)
        figures: dict[str, Any] = {
            "statuses": dict(Counter(status for _, _, status in calls)),
            "good_during_attack": good,
            "first_bad_after_s": round(bad[0] - attacked, 1) if bad else None,
            "back_after_end_s": None if back is None else round(back - over, 1),
        }
        if bad and back is not None:
            figures["outage_s"] = round(back - bad[0], 1) if bad[0] < back else 0.0
        return figures


async def check_in(address: str, devices: Sequence[grpc.ChannelCredentials], over: Any) -> Any:
    """Let devices check in until it is over; return latencies and refusals."""
    latencies: list[float] = []
    refused: Counter[str] = Counter()
    message = encode_check_in(CheckIn())

    async def device(number: int) -> None:
        options = channel_options(own_connection=True)
        async with aio.secure_channel(address, devices[number], options=options) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            await asyncio.sleep(hostile_peers.EVERY_S * number / len(devices))
            while not over():
                began = time.perf_counter()
                try:
                    await call(message, metadata=metadata(number), timeout=30)
                    latencies.append(time.perf_counter() - began)
                except aio.AioRpcError as error:
                    refused[error.code().name] += 1
                await asyncio.sleep(hostile_peers.EVERY_S)

    await asyncio.gather(*(device(number) for number in range(len(devices))))
    return latencies, dict(refused)


def attacker(kind: str, port: int, shown: str, options: Any) -> subprocess.Popen[str]:
    """Start an attack, or a control."""
    rate = 1e9 if kind != "control" else OUTER_CALLS_PER_S if options.outer else CALLS_PER_S
    words = ("--kind", kind, "--port", port, "--shown", shown, "--calls-per-s", rate)
    more = ("--connections", options.connections, "--seconds", options.seconds)
    return started("--role", "attack", *words, *more)


def measure(kind: str, options: Any) -> dict[str, Any]:
    """Measure one attack on the devices' port of an aggregator of its own, after a control."""
    found: dict[str, Any] = {"attack": kind, "by": options.by, "connections": options.connections}
    with tempfile.TemporaryDirectory(prefix="askance-") as folder:
        served = Served(Path(folder) / "service", options.proxy)
        address = f"127.0.0.1:{served.devices_port}"
        try:
            devices = asyncio.run(served.honest())
            warm = time.monotonic() + 2
            asyncio.run(check_in(address, devices, lambda: time.monotonic() > warm))
            before = served.memory_mb("VmRSS")
            for name, what in (("alone", None), ("control", "control"), ("attacked", kind)):
                attacking, over = None, time.monotonic() + options.seconds
                if what is not None:
                    by = "device" if what == "control" else options.by
                    shown = str(served.attackers_certificate) if by == "device" else ""
                    attacking = attacker(what, served.devices_port, shown, options)

                def ended(over: float = over, attacking: Any = attacking) -> bool:
                    return time.monotonic() > over and (
                        attacking is None or attacking.poll() is not None
                    )

                taken = served.processor_s()
                latencies, refused = asyncio.run(check_in(address, devices, ended))
                found[name] = {**percentiles(latencies), "max_ms": round(1000 * max(latencies), 1)}
                found[name]["refused"] = refused
                now = served.processor_s()
                found[name]["processor_s"] = {of: round(now[of] - taken[of], 2) for of in now}
                if attacking is not None:
                    found[name]["peers"] = next_line(attacking)
                    attacking.wait()
            most, after = map(served.memory_mb, ("VmHWM", "VmRSS"))
        finally:
            served.close()
    found["p99_to_control"] = round(found["attacked"]["p99_ms"] / found["control"]["p99_ms"], 2)
    growth = {"most": round(most - before, 1), "after": round(after - before, 1)}
    return {**found, "growth_mb": growth}


def measure_outer(options: Any) -> dict[str, Any]:
    """Attack the outer process of a served aggregator; return the outage and what devices saw."""
    found: dict[str, Any] = {"attack": "held", "connections": options.connections}
    with tempfile.TemporaryDirectory(prefix="askance-") as folder:
        served = Served(Path(folder) / "service")
        try:
            devices = asyncio.run(served.honest())
            assert served.analyst_calls() == "OK"
            before = memory_mb(served.process.pid, "VmRSS")
            for name, kind in (("alone", None), ("control", "control"), ("attacked", "held")):
                found[name] = outer_phase(served, devices, kind, options)
                found[name]["outer_ended"] = served.outer_ends()
            most, after = (memory_mb(served.process.pid, line) for line in ("VmHWM", "VmRSS"))
            found["aggregator_growth_mb"] = {
                "most": round(most - before, 1),
                "after": round(after - before, 1),
            }
        finally:
            served.close()
    return found


def outer_phase(served: Served, devices: Any, kind: str | None, options: Any) -> dict[str, Any]:
    """Let an analyst call and devices check in beside an attack, until the analyst is answered."""
    analyst = Analyst(served)
    analyst.start()
    began, attacking = time.monotonic(), None
    if kind == "held" and options.room_mb is not None:
        served.limit_outer(options.room_mb)
    if kind is not None:
        attacking = attacker(kind, served.port, "", options)
    ended: list[float] = []

    def over() -> bool:
        now = time.monotonic()
        running = attacking.poll() is None if attacking else now < began + options.seconds
        if running:
            return False
        if not ended:
            ended.append(now)
        return analyst.good_after(ended[0]) is not None or now > ended[0] + BACK_S

    address = f"127.0.0.1:{served.devices_port}"
    latencies, refused = asyncio.run(check_in(address, devices, over))
    analyst.over.set()
    analyst.join()
    seen = {**percentiles(latencies), "refused": refused, "outer_mb": analyst.outer_mb}
    seen["analyst"] = analyst.outage(began, ended[0])
    if attacking is not None:
        seen["peers"] = next_line(attacking)
        attacking.wait()
    return seen


def main(argv: Sequence[str]) -> int:
    """Run one role, or all of them."""
    parser = argparse.ArgumentParser(description="Honest devices beside floods of frames.")
    parser.add_argument("--role", choices=("all", "attack"), default="all")
    parser.add_argument("--kind", choices=(*ATTACKS, "half-open", "control"), default="fields")
    attacks = ",".join((*(name for name in ATTACKS if name != "held"), "half-open"))
    parser.add_argument("--attacks", default=attacks)
    parser.add_argument("--by", choices=("device", "anyone"), default="device")
    parser.add_argument("--proxy", type=Path, help="a file of haproxy, before the devices' port")
    parser.add_argument("--outer", action="store_true", help="attack the outer process")
    parser.add_argument("--room-mb", type=float, help="of the outer process, beside what it has")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--shown", default="", help="file with a certificate and its key")
    parser.add_argument("--connections", type=int, help="6, or 24 with --outer")
    parser.add_argument("--calls-per-s", type=float, default=CALLS_PER_S)
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args(argv)
    if options.connections is None:
        options.connections = 24 if options.outer else 6
    if options.outer:
        print(json.dumps(measure_outer(options)))
    elif options.role == "attack":
        print(json.dumps(attack(options)))
    else:
        for kind in options.attacks.split(","):
            print(json.dumps(measure(kind, options)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
