"""Honest devices beside peers that write HTTP/2 frames by hand: memory, latency, refused calls.

The aggregator, the honest devices and the attackers are a process each (those of `hostile_peers`).
A caller of a listener in plain text stands for a peer with a valid certificate on the devices'
listener: both reach the parser of HTTP/2. `bodies` and `enrolled` show a device's credentials too.

    fields        header lists of 12,000 one-byte indexed fields, a stream each; answers, which end
                  a stream, are not read
    continuation  one header list that does not end
    reset         streams that are opened and reset
    pings, settings  frames that must be acknowledged, whose acknowledgements are not read
    watches       health watches, opened and reset
    half-open     connections that say nothing
    bodies        check-ins of an enrolled device, which send 64 kB and no more
    enrolled      header lists as of `fields`, with the credentials of an enrolled device
    churn         connections that send the preface of HTTP/2 and go away

Each attack is measured after a control: as many connections that make ordinary calls without
credentials, 50 per second each, and after a phase without other load.

    python benchmarks/frame_floods.py [--attacks fields,reset] [--connections 6] [--seconds 6]

With `--outer` the aggregator is a served one, with TLS, and its outer process is attacked by
`held`: connections by TLS and ALPN h2 without credentials, each of which opens 16 calls of an
analyst with 12,000 fields and sends no message. The outage is of an analyst who makes a new
connection for each call; beside it devices check in at their own port, each by its certificate.

    python benchmarks/frame_floods.py --outer [--connections 24] [--seconds 8]

Everything is on loopback, on the addresses 127.0.0.2 to 127.0.0.9, bounded in count and time.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import selectors
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
DEVICE = 99  # the enrolled device that attacks; honest ones have lower numbers
FIELDS = 12_000
MB_PER_S = 2.0  # that a connection sends at most
CALLS_PER_S = 50.0  # of a connection of the control, at most
HALF_OPEN = 4_000  # connections
HELD_STREAMS = 16  # as many as a connection may have
OUTER_DEVICES = 20  # each with its certificate and a connection
OUTER_CALLS_PER_S = 5.0  # of a connection of the control, at most
BACK_S = 30.0  # in which an analyst's calls are looked at after the attack
_CONNECT_S = 2.0
_TRY_S = 2.0  # of an analyst's call, with its connection
_TRY_EVERY_S = 0.1
_PATIENCE_S = 0.5  # of a peer whose bytes are not taken
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


def careless_tls() -> ssl.SSLContext:
    """Return TLS of a caller that shows nothing, checks nothing and speaks HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class Peer:
    """Connection that writes frames and reads what comes, or does not.

    Args:
      source: the address that it calls from.
      port: the aggregator's.
      counts: of what was done and what came.
      reads: whether it reads.
      tls: whether it speaks TLS.
    """

    def __init__(
        self, source: str, port: int, counts: Counter[str], reads: bool = True, tls: bool = False
    ) -> None:
        self._counts = counts
        self._reads = reads
        self._waiting = b""
        self._socket = socket.socket()
        self._socket.bind((source, 0))
        self._socket.settimeout(_CONNECT_S)
        try:
            self._socket.connect(("127.0.0.1", port))
            if tls:
                self._socket = careless_tls().wrap_socket(self._socket)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
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
    "reset": reset,
    "pings": pings,
    "settings": settings,
    "watches": watches,
    "bodies": bodies,
    "enrolled": enrolled,
    "churn": churn,
    "held": held,
}
PLAIN = tuple(name for name in ATTACKS if name != "held")
UNREAD = ("pings", "settings", "fields", "enrolled", "continuation")


def run_peer(
    kind: str,
    number: int,
    port: int,
    until: float,
    counts: Counter[str],
    calls_per_s: float,
    tls: bool,
) -> None:
    """Attack over one connection, which is made again when it is closed, until a time."""
    attack = calls if kind == "control" else ATTACKS[kind]
    source = f"127.0.0.{2 + number % ADDRESSES}"
    began, sent, done = time.monotonic(), 0, 0
    while time.monotonic() < until:
        try:
            peer = Peer(source, port, counts, kind not in UNREAD, tls)
        except OSError:
            counts["not connected"] += 1
            time.sleep(0.05)
            continue
        try:
            peer.send(_PREFACE + frame(_SETTINGS, 0, 0))
            for size in attack(peer):
                counts["steps"] += 1
                sent += size
                done += 1
                due = began + max(sent / (MB_PER_S * 1e6), done / calls_per_s)
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
    """Make connections that say nothing, and make those again that are closed."""
    held: list[socket.socket] = []
    number = 0
    while time.monotonic() < until:
        if len(held) < HALF_OPEN:
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


def attack(options: argparse.Namespace) -> dict[str, int]:
    """Attack for some seconds; return what was done."""
    counts: Counter[str] = Counter()
    until = time.monotonic() + options.seconds
    if options.kind == "half-open":
        hold_half_open(options.port, until, counts)
        return dict(counts)
    threads = [
        threading.Thread(
            target=run_peer,
            args=(options.kind, n, options.port, until, counts, options.calls_per_s, options.tls),
        )
        for n in range(options.connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(counts)


def started(*words: object) -> subprocess.Popen[str]:
    """Start this program as another process, in another role."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def phase(kind: str | None, port: int, calls_per_s: float, options: Any) -> dict[str, Any]:
    """Let honest devices check in beside an attack, or beside none."""
    attacking = None
    if kind is not None:
        words = ("--connections", options.connections, "--calls-per-s", calls_per_s)
        length = ("--seconds", options.seconds + 2)
        attacking = started("--role", "attack", "--kind", kind, "--port", port, *words, *length)
        time.sleep(1)
    length = ("--seconds", options.seconds)
    behaving = hostile_peers.started("--role", "honest", "--port", port, *length)
    seen = next_line(behaving)
    behaving.wait()
    if attacking is not None:
        seen["attack"] = next_line(attacking)
        attacking.wait()
    return seen


def measure(kind: str, options: Any) -> dict[str, Any]:
    """Measure one attack on an aggregator of its own, after a control."""
    server = hostile_peers.started("--role", "server", *(("--guard",) if options.guard else ()))
    try:
        port = next_line(server)["port"]
        phase(None, port, 0, argparse.Namespace(seconds=2))  # a warm service
        before = memory_mb(server.pid, "VmRSS")
        found: dict[str, Any] = {"attack": kind, "connections": options.connections}
        refused: dict[str, Any] = {}
        for name, what in (("alone", None), ("control", "control"), ("attacked", kind)):
            rate = CALLS_PER_S if what == "control" else 1e9
            seen = phase(what, port, rate, options)
            found[name] = percentiles(seen["latencies"]) if seen["latencies"] else {"calls": 0}
            refused[name] = seen["refused"]
            if what is not None:
                found[name]["peers"] = seen["attack"]
        after = memory_mb(server.pid, "VmRSS")
        most = memory_mb(server.pid, "VmHWM")
    finally:
        server.communicate()
    ratio = {
        name: round(found[name]["p99_ms"] / found["alone"]["p99_ms"], 2)
        for name in ("control", "attacked")
        if "p99_ms" in found[name]
    }
    return {
        **found,
        "p99_ratio": ratio,
        "honest_refused": refused,
        "growth_mb": {"most": round(most - before, 1), "after": round(after - before, 1)},
    }


class Served:
    """Served aggregator with TLS, and the certificates of its devices.

    Args:
      folder: absent; it is made.
    """

    def __init__(self, folder: Path) -> None:
        home = AggregatorHome.create(
            folder, listen=Address("127.0.0.1", 0), hosts=(), now_s=system_now_s()
        )
        with closing(SqliteStore.open(folder / "store.sqlite")) as store:
            store.enrol((b"load %d" % n, token_digest(token(n))) for n in range(OUTER_DEVICES))
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
        self.address = str(next_line(self.process)["listening"])
        self.port = int(self.address.rpartition(":")[2])

    def outer_ends(self) -> int:
        """Return how often the outer process has ended."""
        return self._log.read_text().count("the outer process has ended")

    def outer_mb(self) -> float:
        """Return the resident memory of the outer process; 0 while there is none."""
        pid = self.process.pid
        with suppress(OSError, ValueError):
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                for child in children.read_text().split():
                    return memory_mb(int(child), "VmRSS")
        return 0.0

    async def device(self, number: int) -> tuple[str, grpc.ChannelCredentials]:
        """Return a device's address and what it shows there, by a certificate that it gets now."""
        file = self._folder / f"certificate-{number}.json"
        open_side = OpenSide(self.address, lambda: self._authority)
        own = CertificateFile(file, system_now_s, open_side)
        await own.obtain(metadata(number))
        got = own.read()
        assert got is not None
        shown = grpc.ssl_channel_credentials(self._authority, got.key.encode(), got.chain.encode())
        return str(Address.of(self.address).at_port(got.port)), shown

    def analyst_calls(self) -> str:
        """Let an analyst list its studies, over a new connection; return the status."""
        signed = sign_call(
            Call.LIST, self._key.public_key().public_bytes_raw(), self._key, system_now_s()
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


async def check_in(devices: Sequence[tuple[str, grpc.ChannelCredentials]], over: Any) -> Any:
    """Let devices check in until it is over; return latencies and refusals."""
    latencies: list[float] = []
    refused: Counter[str] = Counter()
    message = encode_check_in(CheckIn())

    async def device(number: int) -> None:
        address, shown = devices[number]
        options = channel_options(own_connection=True)
        async with aio.secure_channel(address, shown, options=options) as channel:
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


def measure_outer(options: Any) -> dict[str, Any]:
    """Attack the outer process of a served aggregator; return the outage and what devices saw."""
    found: dict[str, Any] = {"attack": "held", "connections": options.connections}
    with tempfile.TemporaryDirectory(prefix="askance-") as folder:
        served = Served(Path(folder) / "service")
        try:

            async def certified() -> list[tuple[str, grpc.ChannelCredentials]]:
                return [await served.device(number) for number in range(OUTER_DEVICES)]

            devices = asyncio.run(certified())
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
            served.process.terminate()
            served.process.communicate()
    return found


def outer_phase(served: Served, devices: Any, kind: str | None, options: Any) -> dict[str, Any]:
    """Let an analyst call and devices check in beside an attack, until the analyst is answered."""
    analyst = Analyst(served)
    analyst.start()
    began, attacking = time.monotonic(), None
    if kind is not None:
        rate = OUTER_CALLS_PER_S if kind == "control" else 1e9
        words = ("--kind", kind, "--port", served.port, "--tls", "--calls-per-s", rate)
        more = ("--connections", options.connections, "--seconds", options.seconds)
        attacking = started("--role", "attack", *words, *more)
    ended: list[float] = []

    def over() -> bool:
        now = time.monotonic()
        running = attacking.poll() is None if attacking else now < began + options.seconds
        if running:
            return False
        if not ended:
            ended.append(now)
        return analyst.good_after(ended[0]) is not None or now > ended[0] + BACK_S

    latencies, refused = asyncio.run(check_in(devices, over))
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
    parser.add_argument("--attacks", default=",".join((*PLAIN, "half-open")))
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--guard", action="store_true", help="as on the devices' listener")
    parser.add_argument("--outer", action="store_true", help="attack a served outer process")
    parser.add_argument("--tls", action="store_true", help="attack by TLS")
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
