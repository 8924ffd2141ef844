"""Times of what other members send while one member of a gateway works on a record.

A record has one bit, which makes a question's number the least or the greatest. One member, of
either bit, answers heavy questions; what the process sends meanwhile for others is timed where an
observer of the network stands. Pairs are the two bits in random order, one after the other, and
others are asked at the same times in both.

    stream     `device run`: reports of another member, who is asked what was answered before, at
               times all over that work; messages that say that a response was settled; and
               acknowledgements of HTTP/2's pings, every 10 ms. A relay on loopback stands between
               the gateway and the aggregator, in plain text: it sends the pings and keeps their
               acknowledgements
    check-ins  `device run --once` of 269 members, of whom 256 check in at one time: some are told
               that nothing is asked, one after the other, so that the next member checks in; some
               are asked what was answered before, and deliver it

The mean difference and its 99 % interval must lie within 1 % of the grid's slack, and a sign test
must not reject.

    python benchmarks/member_times.py stream --pairs 200
    python benchmarks/member_times.py check-ins --pairs 200
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from draw_timing import (
    PROBES,
    RELEASE_MS,
    ROOT,
    SLACK_MS,
    START_S,
    Family,
    Heavy,
    Light,
    Pairs,
    Peer,
    Processes,
    Refused,
    families,
)
from hostile_peers import frame

from askance_aggregator.exchange import decode_check_in, encode_response
from askance_client.cli.home import DeviceHome
from askance_client.codec import decode_report
from askance_client.messages import AckStatus, SignedStudy
from askance_client.service.exchange import CheckIn, Response
from askance_client.service.observable import (
    MEMBERS_AT_ONCE,
    monotonic_ms,
    record_times,
)

PING_EVERY_MS = 10
AFTER_MS = 250  # that are looked at after the work's public end
MEMBERS = MEMBERS_AT_ONCE + PROBES
_PREFACE_BYTES = 24
_HEAD = 9
_PING, _ACK = 6, 1
_CHECK_IN = """
import sys
from pathlib import Path
from askance_client.cli.home import DeviceHome
from askance_client.cli.running import run_once
home = DeviceHome(Path(sys.argv[1]))
for _ in sys.stdin:
    print(run_once(home, home.configuration)["failed"], flush=True)
"""

Found = dict[str, float]
"""Times of one message's work, in milliseconds, by what was observed."""


class Wire:
    """Relay between one gateway and the aggregator, which sends pings of its own."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._pings: dict[bytes, asyncio.Future[float]] = {}
        self._numbers = count(1)
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _relay(self, device: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader, aggregator = await asyncio.open_connection("127.0.0.1", self._to)
        self._writer = writer
        aggregator.write(await device.readexactly(_PREFACE_BYTES))
        await asyncio.gather(self._up(device, aggregator), self._down(reader, writer))

    async def _up(self, device: asyncio.StreamReader, aggregator: asyncio.StreamWriter) -> None:
        async for head, payload in _frames(device, aggregator):
            ours = self._pings.pop(payload, None) if head[3] == _PING and head[4] & _ACK else None
            if ours is None:
                aggregator.write(head + payload)
            else:
                ours.set_result(monotonic_ms())

    async def _down(self, aggregator: asyncio.StreamReader, device: asyncio.StreamWriter) -> None:
        async for head, payload in _frames(aggregator, device):
            device.write(head + payload)

    async def ping_until(self, over: asyncio.Event) -> list[float]:
        """Send pings until it is over; return the times until their acknowledgements."""
        sent: list[tuple[float, asyncio.Future[float]]] = []
        while not over.is_set():
            payload = b"time" + next(self._numbers).to_bytes(4, "big")
            waiting = self._pings[payload] = asyncio.Future()
            sent.append((monotonic_ms(), waiting))
            assert self._writer is not None
            self._writer.write(frame(_PING, 0, 0, payload))
            await asyncio.sleep(PING_EVERY_MS / 1000)
        async with asyncio.timeout(START_S):
            return [await waiting - at_ms for at_ms, waiting in sent]


async def _frames(
    reader: asyncio.StreamReader, other: asyncio.StreamWriter
) -> AsyncIterator[tuple[bytes, bytes]]:
    """Heads and payloads of frames until the connection ends; then end the other one."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readexactly(_HEAD)
            yield head, await reader.readexactly(int.from_bytes(head[:3], "big"))
    other.close()


class Observed:
    """Pairs of times, by what was observed."""

    def __init__(self) -> None:
        self._found: defaultdict[str, Pairs] = defaultdict(Pairs)

    def add(self, zero: Found, one: Found) -> None:
        """Add the times of both bits."""
        for name, time_ms in zero.items():
            self._found[name].times.append((time_ms, one[name]))

    def show(self) -> None:
        """Print a row for each."""
        print(f"within {SLACK_MS / 100:g} ms is equivalent; intervals are of 99 %")
        print("| observed | bit 0, ms | bit 1 - bit 0, ms | median | sign test p | pairs |")
        print("|---|---:|---:|---:|---:|---:|")
        for name, found in self._found.items():
            zero = statistics.median(zero for zero, _ in found.times)
            difference = f"{found.mean:+.2f} ±{found.half_interval:.2f}"
            print(
                f"| {name} | {zero:.2f} | {difference} | {found.show_median()} |"
                f" {found.sign_p:.2f} | {len(found.times)} |",
                flush=True,
            )


async def leaving_out(name: str, measuring: Coroutine[Any, Any, None]) -> None:
    """Measure until the end, or until a device has missed a draw and refuses its class."""
    try:
        await measuring
    except Refused as refusal:
        print(f"{name} is left out: {refusal}", flush=True)


def weight_of(family: Family, questions: int) -> int:
    """Return the public weight of a message of so many of a family's questions."""
    return questions * (family.ask(1).expression.weight + family.randomizer(1).draw_cost)


# --- stream ------------------------------------------------------------------------------------


async def stream(options: argparse.Namespace, family: Family, coin: random.Random) -> None:
    """Measure gateways of three members that hold a stream."""
    heavy = Heavy(family, options.questions * (options.pairs // options.gateways + 2))
    light, observed, left = Light(), Observed(), iter(range(options.pairs))
    with tempfile.TemporaryDirectory() as folder:
        async with Processes(Path(folder)) as processes:

            async def measure(number: int, wire: Wire) -> None:
                gateway = processes.made(f"gateway{number}", options.tree, 3, wire.port)
                peer = await processes.run(gateway)
                # Numbers follow ids; n0 and n2 have bit 0, n1 has bit 1.
                secret = DeviceHome(gateway.folder / "device").secret()
                order = sorted(range(3), key=lambda row: secret.member(f"n{row}").device_id)
                zero, one, other = (order.index(row) for row in range(3))
                await peer.send(light.signed, heavy.signed)
                await (await peer.ask(light.probes, other))
                await asyncio.sleep(coin.random() * RELEASE_MS / 1000)
                for turn, _ in enumerate(left, 1):
                    mine = heavy.first(options.questions * turn)[-options.questions :]
                    found, phase = [Found(), Found()], coin.random()
                    for bit, member in coin.sample(((0, zero), (1, one)), 2):
                        asked = mine, member
                        found[bit] = await beside_stream(peer, wire, light, asked, other, phase)
                    observed.add(*found)

            async with AsyncExitStack() as held, asyncio.TaskGroup() as tasks:
                for number in range(options.gateways):
                    wire = await held.enter_async_context(Wire(processes.port))
                    tasks.create_task(leaving_out(f"gateway {number}", measure(number, wire)))
    observed.show()


async def beside_stream(
    peer: Peer,
    wire: Wire,
    light: Light,
    heavy: tuple[Sequence[bytes], int],
    other: int,
    phase: float,
) -> Found:
    """Time what a stream carries while a member answers a heavy message.

    The phase, below 1, is of the probes between two of their steps.
    """
    over, probes = asyncio.Event(), []
    pinging = asyncio.ensure_future(wire.ping_until(over))
    began_ms, settled = monotonic_ms(), len(peer.settled_ms)
    for number, probe in enumerate(light.probes):
        if number == PROBES - 1:
            await _until(began_ms + number * RELEASE_MS / PROBES)
            working = await peer.ask(*heavy)
        await _until(began_ms + (number + phase) * RELEASE_MS / PROBES)
        probes.append(await peer.ask([probe], other))
    came = await asyncio.gather(working, *probes)
    await asyncio.sleep(AFTER_MS / 1000)
    over.set()
    pings = await pinging
    return {
        "reports of another member": statistics.fmean(one.delay_ms for one in came[1:]),
        "settled responses": statistics.fmean(peer.settled_ms[settled:]) - began_ms,
        "acknowledgements of pings": statistics.fmean(pings),
        "the slowest of them": max(pings),
        "the own report": came[0].delay_ms,
    }


async def _until(at_ms: float) -> None:
    await asyncio.sleep(max(0, at_ms - monotonic_ms()) / 1000)


# --- check-ins ---------------------------------------------------------------------------------


class Arrived(NamedTuple):
    """A check-in that waits for its answer."""

    place: int
    message: CheckIn
    at_ms: float
    answer: asyncio.Future[bytes]

    def reply(self, studies: tuple[SignedStudy, ...] = (), asked: Sequence[bytes] = ()) -> float:
        """Acknowledge its reports and ask; return the time."""
        reports = map(decode_report, self.message.reports)
        acks = tuple((report.request_digest, AckStatus.ACCEPTED) for report in reports)
        response = Response(acks, studies, tuple(asked))
        self.answer.set_result(encode_response(response))
        return monotonic_ms()


class CheckIns:
    """Check-ins of one gateway's members.

    Those at the first places are asked the probes, the next ones nothing, and one behind them the
    heavy message.

    Args:
      folder: of the gateway; an odd row has bit 1.
      signed: the heavy message's study.
    """

    def __init__(self, folder: Path, light: Light, signed: SignedStudy) -> None:
        secret = DeviceHome(folder / "device").secret()
        rows = range(MEMBERS)
        ids = {secret.member(f"n{row}").device_id: row for row in rows}
        self._places = {device: place for place, device in enumerate(sorted(ids))}
        bits = [ids[device] % 2 for device in sorted(ids)]
        workers = range(2 * PROBES, MEMBERS_AT_ONCE)
        self.workers = [[place for place in workers if bits[place] == bit] for bit in (0, 1)]
        self._light, self._signed = light, signed
        self._arrived: asyncio.Queue[Arrived] = asyncio.Queue()

    @property
    def devices(self) -> Sequence[bytes]:
        """The ids of its members, in their order."""
        return list(self._places)

    async def answer(self, device: bytes, data: bytes) -> bytes:
        """Answer a check-in when it is due."""
        answer: asyncio.Future[bytes] = asyncio.Future()
        arrived = Arrived(self._places[device], decode_check_in(data), monotonic_ms(), answer)
        await self._arrived.put(arrived)
        return await answer

    async def turn(
        self, worker: int, asked: Sequence[bytes], span_ms: float, phase: float
    ) -> Found:
        """Let all check in once while one member answers; return the times.

        The phase, below 1, is of the answers between two of their steps.
        """
        held: dict[int, Arrived] = {}
        while len(held) < MEMBERS_AT_ONCE:
            arrived = await asyncio.wait_for(self._arrived.get(), START_S)
            held[arrived.place] = arrived
        await asyncio.sleep(AFTER_MS / 1000)
        working = held.pop(worker)
        seen = asyncio.ensure_future(self._see(worker))
        began_ms = working.reply((self._signed, self._light.signed), asked)
        asked_ms, ended_ms = [], []
        for number, probe in enumerate(self._light.probes):
            await _until(began_ms + (number + phase) * span_ms / PROBES)
            asked_ms.append(held.pop(number).reply((self._light.signed,), [probe]))
            ended_ms.append(held.pop(PROBES + number).reply())
        own, delivered, begun = await asyncio.wait_for(seen, START_S)
        for one in (*held.values(), *own, *delivered, *begun):
            one.reply()
        return {
            "first check-ins": _mean_ms(begun) - statistics.fmean(ended_ms),
            "deliveries of check-ins": _mean_ms(delivered) - statistics.fmean(asked_ms),
            "the own delivery": _mean_ms(own) - began_ms,
        }

    async def _see(self, worker: int) -> tuple[list[Arrived], list[Arrived], list[Arrived]]:
        """Return the worker's delivery, those of the probes, and the first check-ins of others."""
        own, delivered, begun = list[Arrived](), list[Arrived](), list[Arrived]()
        while min(len(own), 1) + len(delivered) + len(begun) < 1 + 2 * PROBES:
            arrived = await self._arrived.get()
            if arrived.place == worker:
                own.append(arrived)
            else:
                (delivered if arrived.place < PROBES else begun).append(arrived)
        for report in map(decode_report, own[0].message.reports):
            if not isinstance(report.outcome, bytes):
                raise Refused(report.outcome)
        return own, delivered, begun


def _mean_ms(arrived: Sequence[Arrived]) -> float:
    return statistics.fmean(one.at_ms for one in arrived)


async def check_ins(options: argparse.Namespace, family: Family, coin: random.Random) -> None:
    """Measure gateways whose members check in once, again and again."""
    questions = options.questions
    heavy = Heavy(family, questions * (options.pairs // options.gateways + 3))
    light, observed, left = Light(), Observed(), iter(range(options.pairs))
    span_ms = record_times(RELEASE_MS, weight_of(family, questions)).over_ms + AFTER_MS
    with tempfile.TemporaryDirectory() as folder:
        async with Processes(Path(folder)) as processes:

            async def measure(number: int) -> None:
                gateway = processes.made(f"gateway{number}", options.tree, MEMBERS)
                members = CheckIns(gateway.folder, light, heavy.signed)
                processes.meet(members.devices, members.answer)
                driver = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", _CHECK_IN, str(gateway.folder / "device")),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=(gateway.folder / "log").open("wb"),
                    env=gateway.environment,
                )
                assert driver.stdin is not None
                assert driver.stdout is not None
                await asyncio.sleep(coin.random() * RELEASE_MS / 1000)
                for turn in count(1):
                    # In the first turn the probes are answered, and it is not counted.
                    if turn > 1 and next(left, None) is None:
                        break
                    mine = heavy.first(questions * turn)[-questions:]
                    found, phase = [Found(), Found()], coin.random()
                    for bit in coin.sample((0, 1), 2):
                        driver.stdin.write(b"\n")
                        worker = coin.choice(members.workers[bit])
                        found[bit] = await members.turn(worker, mine, span_ms, phase)
                        failed = await asyncio.wait_for(driver.stdout.readline(), START_S)
                        if failed != b"0\n":
                            raise SystemExit((gateway.folder / "log").read_text())
                    if turn > 1:
                        observed.add(*found)
                driver.stdin.close()
                await driver.wait()

            async with asyncio.TaskGroup() as tasks:
                for number in range(options.gateways):
                    tasks.create_task(leaving_out(f"gateway {number}", measure(number)))
    observed.show()


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measurement", choices=("stream", "check-ins"))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--family", default="codebook of one")
    parser.add_argument("--questions", type=int, default=3, help="of the heavy message")
    parser.add_argument("--gateways", type=int, default=4, help="processes")
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout of the client")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    options.tree = options.tree.resolve()
    (family,) = (one for one in families(2 * 10**6) if one.name == options.family)
    work: Any = stream if options.measurement == "stream" else check_ins
    asyncio.run(work(options, family, random.Random(options.seed)))


if __name__ == "__main__":
    main()
