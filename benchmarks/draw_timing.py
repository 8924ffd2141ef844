"""Times of draws: whether anything that leaves a device tells one record from another by its time.

A record has one bit. A question makes it the least or the greatest input of a randomizer, with the
heaviest parameters that are allowed, so that evaluation or draw takes longer for one than for the
other. Each measurement is of pairs, the two bits in random order, one after the other.

- processor: time of this process's processor from T2 (the commit of finished symbols) to the
  reports, per family. The mean difference and its 99 % interval must lie within 1 % of the grid's
  slack, and a sign test must not reject.
- attack: `device run` processes on the default grid. The record whose work ends later is taken to
  be that of bit 1.

The attack measures the end of a message's work to a few milliseconds, though all reports leave on
the grid: a grid counts from its message's arrival, and a device answers its messages one after the
other. Behind the message that is measured, probes are sent: questions that were answered before, so
that they wait for the device and need no work. A probe leaves at a first multiple of its own grid
if the work ended before it, else at the next one. So the probes' arrivals are a scale. First it is
coarse, to find the end, then fine around it, moved with the ends that are seen. Before the message
goes a light one: its own work makes the device quiet when it is over, and the next one wait, so
that the probes are read in time.

`--tree` names a checkout whose client the processes run, so that an older one is measured alike;
several are measured at one time, under one load.

    python benchmarks/draw_timing.py processor --pairs 200
    python benchmarks/draw_timing.py attack --pairs 400 --tree . --tree OTHER
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio

from askance_aggregator.bisection import halved
from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.exchange import decode_batch, encode_gateway_response
from askance_aggregator.families import (
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
)
from askance_aggregator.queries import category, vector, where
from askance_aggregator.server.devices.credentials import accepted_metadata
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.device.settling import MAX_WEIGHT
from askance_client.messages import Request, SignedStudy, StudyTerms
from askance_client.queries import Bit, Query, Schema
from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
    SystemCoins,
)
from askance_client.service import SERVICE, system_now_s
from askance_client.service.credentials import DEVICE_KEY
from askance_client.service.gateway_exchange import GatewayResponse
from askance_client.service.observable import monotonic_ms, record_times
from askance_simulation.fleets.memory_ledger import MemoryLedger

ROOT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "askance_client")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema("people", 1, bit=Bit())
RELEASE_MS = 1000
SLACK_MS = RELEASE_MS / 4  # between T2 and the multiple on which a light report leaves
BUDGET = 10**15
HALF = COIN_SPACE // 2
START_S = 60
Z99 = 2.576
PROBES = 13  # with a light message and the heavy one, what may be on its way at one time but one
COARSE_MS = RELEASE_MS // PROBES
FINE_MS = (-40, -25, -16, -10, -6, -3, 0, 3, 6, 10, 16, 25, 40)
GRACE_MS = 50  # more than a report on its first multiple may be late
GAPS_MS = (700, 0)  # from a light message to the heavy one: before it is over, or at once
_LARGEST = 1 << 30
_CELLS = 1 << 20


def cells(count: int) -> Callable[[int], Query]:
    """A question of an early cell or the last one; numbers make questions distinct."""
    return lambda number: category(where(SCHEMA["bit"] == 1, count - 1, number % (count - 1)))


def numbers(components: int) -> Callable[[int], Query]:
    """A question of small numbers or great ones, as long as each other."""

    def ask(number: int) -> Query:
        most = _LARGEST - number
        return vector([SCHEMA["bit"] * (most - 1) + 1] * components, 0, most, default=0)

    return ask


@dataclass(frozen=True)
class Family:
    """Heaviest questions of a randomizer's family.

    Args:
      name: of the family, and of the shape.
      ask: from a number, a query.
      randomizer: of all its questions, but for a radius that the query's range gives.
      most: questions of one message of the attack, so that it takes seconds; 0: many questions of
        another family weigh as much, and their time is finer.
    """

    name: str
    ask: Callable[[int], Query]
    randomizer: Callable[[int], Randomizer]
    most: int = 64


def wide_channel(size: int) -> Channel:
    """A table of so many levels and symbols, with the truth twice as likely as another symbol."""
    even = COIN_SPACE // (size + 1)
    own = COIN_SPACE - even * (size - 1)
    return Channel(tuple(tuple(own if x == y else even for y in range(size)) for x in range(size)))


def families(nano: int) -> list[Family]:
    """All families with their heaviest questions, at about this loss."""
    channel = wide_channel(720)
    t = HALF + HALF // (1 << 9)

    def book(components: int, bases: int) -> Callable[[int], Randomizer]:
        def make(number: int) -> Randomizer:
            return RandomCodebook(components, _LARGEST, bases, bases * 10, HALF // 2 + number)

        return make

    return [
        Family("channel", cells(720), lambda _: channel, most=2),  # of 14 kB each
        Family("k-ary", cells(1 << 20), lambda _: k_ary_response(1 << 20, nano)),
        Family("linear-hashing", cells(1 << 20), lambda _: linear_hashing(1 << 20, nano)),
        Family(
            "subset-selection", cells(1 << 20), lambda _: SubsetSelection(1 << 20, 2730, t), most=8
        ),
        Family("hadamard-sign", cells(65_535), lambda _: hadamard_sign(32_767, nano)),
        Family(
            "signed-subset-selection",
            cells(65_535),
            lambda _: SignedSubsetSelection(32_767, 32_767, t),
            most=4,
        ),
        Family("hypercube", numbers(1_024), lambda _: hypercube_response(1_024, nano), most=8),
        Family("codebook of one", numbers(1_024), book(1_024, 1)),
        Family("codebook", numbers(1_024), book(1_024, 31), most=0),
        Family("codebook of 16", numbers(16), book(16, 1_820), most=0),
    ]


@dataclass
class Pairs:
    """Times of pairs in milliseconds, for bit 0 and bit 1."""

    times: list[tuple[float, float]] = field(default_factory=list)

    @property
    def differences(self) -> list[float]:
        """The times of bit 1 over those of bit 0."""
        return [one - zero for zero, one in self.times]

    @property
    def mean(self) -> float:
        """The mean difference."""
        return statistics.fmean(self.differences)

    @property
    def half_interval(self) -> float:
        """Half of the 99 % interval of the mean difference."""
        return Z99 * statistics.stdev(self.differences) / math.sqrt(len(self.times))

    @property
    def sign_p(self) -> float:
        """Two-sided p of a sign test; ties are left out."""
        signs = [d > 0 for d in self.differences if d]
        if not signs:
            return 1.0
        most = max(sum(signs), len(signs) - sum(signs))
        tail = sum(math.comb(len(signs), k) for k in range(most, len(signs) + 1))
        return float(min(1.0, tail / 2 ** (len(signs) - 1)))

    def show_median(self) -> str:
        """Show the median difference and its 99 % interval, by order."""
        ordered = sorted(self.differences)
        out = max(0, math.floor((len(ordered) - Z99 * math.sqrt(len(ordered))) / 2))
        median = statistics.median(ordered)
        return f"{median:+.2f}, {ordered[out]:+.2f} to {ordered[-1 - out]:+.2f}"

    def right(self, coin: random.Random) -> int:
        """Number of pairs whose later report is that of bit 1."""
        return sum(int(d > 0 or (d == 0 and coin.random() < 0.5)) for d in self.differences)


def upper_bound(right: int, pairs: int) -> float:
    """Exact one-sided 99 % bound of an accuracy (Clopper and Pearson), by bisection."""

    def enough(accuracy: float) -> bool:
        other = 1 - accuracy
        ways = (math.comb(pairs, k) * accuracy**k * other ** (pairs - k) for k in range(right + 1))
        return sum(ways) <= 0.01

    return halved(enough, right / pairs, 1.0, 40)[1]


def study() -> SignedStudy:
    """A study of its own, of a budget that nothing ends."""
    terms = StudyTerms(
        os.urandom(16),
        "times",
        1,
        (),
        SCHEMA,
        BUDGET,
        system_now_s() + 7200,
        "times",
        fields=("bit",),
    )
    return sign_study(terms, KEY)


def payload(signed: SignedStudy, family: Family, number: int) -> bytes:
    """The request of a family's question with that number."""
    asked = Request(
        digest_of(signed.study), 0, number, family.ask(number), family.randomizer(number)
    )
    return encode_request(asked)


# --- processor ---------------------------------------------------------------------------------


def processor(families: Sequence[Family], pairs: int, coin: random.Random) -> None:
    """Print the processor's time after T2, in place: nothing else runs in this process."""
    limit_us = 10 * SLACK_MS
    print(f"after T2, of {pairs} pairs each; within {limit_us / 1000:g} ms is equivalent")
    print("| family | draw, ms | after T2, us: bit 0 | bit 1 - bit 0, 99 % | sign test p |")
    print("|---|---:|---:|---:|---:|")
    signed = study()
    for family in families:
        devices = [in_place(signed, bit) for bit in (0, 1)]
        found, draws = Pairs(), []
        for number in range(pairs):
            asked = payload(signed, family, number)
            taken = [0.0, 0.0]
            for bit in coin.sample((0, 1), 2):
                turn = devices[bit].begin([asked])
                if turn.refusals:
                    raise SystemExit(f"{family.name}: {turn.refusals[0].message}")
                turn.work.prepare()
                turn.work.evaluate()
                turn.work.fix()
                began = time.thread_time_ns()
                turn.work.draw()
                draws.append((time.thread_time_ns() - began) / 1e6)
                began = time.thread_time_ns()
                turn.finish()
                taken[bit] = (time.thread_time_ns() - began) / 1e6
            found.times.append((taken[0], taken[1]))
        zero = statistics.median(zero for zero, _ in found.times)
        print(
            f"| {family.name} | {statistics.median(draws):.2f} | {1000 * zero:.0f} |"
            f" {1000 * found.mean:+.2f} +- {1000 * found.half_interval:.2f} | {found.sign_p:.2f} |",
            flush=True,
        )


def in_place(signed: SignedStudy, bit: int) -> Device:
    """A device of this process with that bit."""
    policy = Policy(
        life_nano_nats=BUDGET, analysts=frozenset({KEY.public_key().public_bytes_raw()})
    )
    device = Device(
        schema=SCHEMA,
        record=SCHEMA.encode({"bit": bit}),
        policy=policy,
        ledger=MemoryLedger(),
        coins=SystemCoins(),
        now_s=system_now_s,
        examiner=Examiner(),
    )
    refusal = device.introduce(signed)
    if refusal is not None:
        raise SystemExit(refusal.message)
    return device


# --- processes ---------------------------------------------------------------------------------


class Refused(Exception):
    """A device refused: a draw of this class was missed in this hour, or a budget is spent."""


class Peer:
    """A stream of a device or gateway."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._awaited: dict[tuple[bytes, int], asyncio.Future[float]] = {}
        self.settled_ms: list[float] = []

    async def serve(self, first: asyncio.Queue[Peer]) -> None:
        """Read what the process sends; tell of it once it has joined."""
        joined = False
        while True:
            data = await self._context.read()
            now_ms = monotonic_ms()
            if not isinstance(data, bytes):
                return
            batch = decode_batch(data)
            if batch.joins and not joined:
                joined = True
                await first.put(self)
            self.settled_ms += [now_ms] * batch.settled
            for entry in batch.reports:
                for report in map(decode_report, entry.reports):
                    awaited = self._awaited.pop((report.request_digest, entry.member))
                    if isinstance(report.outcome, bytes):
                        awaited.set_result(now_ms)
                    else:
                        awaited.set_exception(Refused(report.outcome))

    async def send(self, *studies: SignedStudy) -> None:
        """Show studies."""
        await self._context.write(encode_gateway_response(GatewayResponse(studies=studies)))

    async def ask(self, payloads: Sequence[bytes], member: int = 0) -> asyncio.Future[Sent]:
        """Ask a member in one message, without waiting for its reports."""
        keys = [(digest_of(payload), member) for payload in payloads]
        coming = [self._awaited.setdefault(key, asyncio.Future()) for key in keys]
        requests = tuple((payload, (member,)) for payload in payloads)
        sent_ms = monotonic_ms()
        await self._context.write(encode_gateway_response(GatewayResponse(requests=requests)))

        async def come() -> Sent:
            async with asyncio.timeout(START_S):
                return Sent(sent_ms, max(await asyncio.gather(*coming)))

        return asyncio.ensure_future(come())


class Sent(NamedTuple):
    """Times at which a message was sent and its last report came, in milliseconds."""

    sent_ms: float
    came_ms: float

    @property
    def delay_ms(self) -> float:
        """Time from one to the other."""
        return self.came_ms - self.sent_ms


class Made(NamedTuple):
    """Folder of a device or a gateway, and the environment of its commands."""

    folder: Path
    environment: dict[str, str]

    @property
    def people(self) -> Path:
        """The file of its records."""
        return self.folder / "people.csv"


class Processes:
    """An aggregator that asks as it likes, and processes of devices on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._first: asyncio.Queue[Peer] = asyncio.Queue()
        self._checking_in: dict[bytes, Callable[[bytes, bytes], Awaitable[bytes]]] = {}

    async def __aenter__(self) -> Processes:
        self._server = aio.server()
        relay: Any = grpc.stream_stream_rpc_method_handler(self._relay)
        check_in: Any = grpc.unary_unary_rpc_method_handler(self._check_in)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Relay": relay,
            "CheckIn": check_in,
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait(START_S)
        await self._server.stop(0)

    async def _relay(self, _: object, context: Any) -> None:
        await context.send_initial_metadata(accepted_metadata())
        await Peer(context).serve(self._first)

    async def _check_in(self, data: bytes, context: Any) -> bytes:
        device = dict(context.invocation_metadata())[DEVICE_KEY]
        return await self._checking_in[device](device, data)

    def meet(
        self, devices: Iterable[bytes], answer: Callable[[bytes, bytes], Awaitable[bytes]]
    ) -> None:
        """Let these devices' check-ins be answered, given the id and the message."""
        self._checking_in |= dict.fromkeys(devices, answer)

    def made(self, name: str, tree: Path, members: int = 0, port: int = 0) -> Made:
        """Make a device, or a gateway of some members.

        Args:
          name: of its folder.
          tree: the checkout of its client.
          members: of a gateway; 0 makes a device.
          port: that it calls; 0: the aggregator's.
        """
        folder = self._folder / name
        folder.mkdir()
        schema, people = folder / "schema.toml", folder / "people.csv"
        schema.write_text('name = "people"\n[fields]\nbit = { type = "bit" }\n')
        columns = "name,bit\n" if members else "bit\n"
        rows = [f"n{number},{number % 2}\n" for number in range(members)] or ["0\n"]
        people.write_text(columns + "".join(rows))
        public = KEY.public_key().public_bytes_raw().hex()
        which = ("--key", "name") if members else ("--row", "0")
        path = os.pathsep.join(str(tree / part) for part in ("client", "protos"))
        environment = {**os.environ, "PYTHONPATH": path}
        made = subprocess.run(
            [
                *(*COMMAND, "init", str(folder / "device")),
                *("--aggregator", f"127.0.0.1:{port or self.port}"),
                *("--analyst", public, "--life-epsilon", "100000"),
                *("--schema", str(schema), "--data", str(people), *which),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise SystemExit(made.stderr)
        return Made(folder, environment)

    async def run(self, made: Made) -> Peer:
        """Start the process of a device or gateway, and wait for its stream."""
        log = (made.folder / "log").open("wb")
        command = (*COMMAND, "run", str(made.folder / "device"))
        self._started.append(
            subprocess.Popen(command, env=made.environment, stdout=log, stderr=log)
        )
        return await asyncio.wait_for(self._first.get(), START_S)


@dataclass
class Light:
    """Questions whose answers no record changes.

    Probes are answered once beforehand, so that they take no work; others take next to none.
    """

    signed: SignedStudy = field(default_factory=study)
    asked: int = 0

    def __post_init__(self) -> None:
        self.probes = self.fresh(PROBES)

    def fresh(self, count: int) -> list[bytes]:
        """Return requests of so many questions that were not asked before."""
        self.asked += count
        return [self._request(number) for number in range(self.asked - count, self.asked)]

    def _request(self, number: int) -> bytes:
        query = category(where(SCHEMA["bit"] >= 0, number, _CELLS - 1))
        randomizer = k_ary_response(_CELLS, 2 * 10**6)
        return encode_request(Request(digest_of(self.signed.study), 0, number, query, randomizer))


class Heavy:
    """Requests of a family's questions, made beforehand and shared by devices.

    Args:
      family: of a study of its own.
      ready: how many are made at once.
    """

    def __init__(self, family: Family, ready: int) -> None:
        self.signed = study()
        self._family = family
        self._made: list[bytes] = []
        self.first(ready)

    def first(self, count: int) -> list[bytes]:
        """Return the first so many requests."""
        for number in range(len(self._made), count):
            self._made.append(payload(self.signed, self._family, number + 1))
        return self._made[:count]


# --- attack ------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """Measurement of one message, in milliseconds since it was sent.

    Args:
      low: an end of the message's work was not before.
      high: nor after.
      late: mean time at which its reports and the probes came.
    """

    low: float
    high: float
    late: float

    def end(self, expected: float) -> float:
        """The end's estimate: the middle, or what is nearest to the expected end."""
        if self.wide:
            return min(max(expected, self.low), self.high)
        return (self.low + self.high) / 2

    @property
    def wide(self) -> bool:
        """Return whether the probes were all on one side of the end."""
        return self.high - self.low > 2 * COARSE_MS


class Target:
    """A device of a tree, as the attack sees it."""

    def __init__(self, tree: Path, peer: Peer, people: Path) -> None:
        self.tree = tree
        self._peer, self._people = peer, people
        self._light = Light()
        self._gap_ms, self._expected, self.reached = 0, 0.0, False

    async def begin(self) -> None:
        """Have the probes answered."""
        await self._peer.send(self._light.signed)
        await (await self._peer.ask(self._light.probes))

    async def meet(self, signed: SignedStudy) -> None:
        """Show a study."""
        await self._peer.send(signed)

    async def calibrate(self, asked: Iterator[list[bytes]]) -> None:
        """Find the end of a message's work, with whatever record there is.

        It is out of reach if probes cannot be placed so that the end is at a multiple of a grid.
        """
        for gap_ms in GAPS_MS:
            self._gap_ms = gap_ms
            seen = await self._measure(next(asked), [COARSE_MS * k for k in range(PROBES)])
            self.reached = not seen.wide
            if self.reached:
                break
        self._expected = (seen.low + seen.high) / 2
        for finer in (3, 1) if self.reached else ():
            seen = await self._measure(next(asked), self._around(finer))
            self._expected = seen.end(self._expected)

    async def pair(
        self, asked: Iterator[list[bytes]], messages: int, coin: random.Random
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Measure messages to a record of either bit.

        Returns:
          For bit 0 and bit 1, the mean time of all that came; and of the end's estimates.
        """
        late: tuple[list[float], list[float]] = ([], [])
        ends: tuple[list[float], list[float]] = ([], [])
        wide = 0
        for _ in range(messages):
            for bit in coin.sample((0, 1), 2):
                self._people.write_text(f"bit\n{bit}\n")
                seen = await self._measure(next(asked), self._around(1))
                late[bit].append(seen.late)
                ends[bit].append(seen.end(self._expected))
                wide += seen.wide
        mean = statistics.fmean(ends[0] + ends[1])
        self._expected += (mean - self._expected) / 2
        if self.reached and wide == 2 * messages:
            await self.calibrate(asked)
        zero, one = map(statistics.fmean, late)
        return (zero, one), (statistics.fmean(ends[0]), statistics.fmean(ends[1]))

    def _around(self, finer: int) -> list[float]:
        """Lags of probes around the expected end; finer is 1."""
        return [max(0.0, self._expected % RELEASE_MS + finer * offset) for offset in FINE_MS]

    async def _measure(self, asked: Sequence[bytes], lags_ms: Sequence[float]) -> Seen:
        first = await self._peer.ask(self._light.fresh(1))
        await asyncio.sleep(self._gap_ms / 1000)
        began = monotonic_ms()
        coming = [first, await self._peer.ask(asked)]
        for lag, probe in zip(lags_ms, self._light.probes, strict=True):
            await asyncio.sleep(max(0, began + lag - monotonic_ms()) / 1000)
            coming.append(await self._peer.ask([probe]))
        came = await asyncio.gather(*coming, return_exceptions=True)
        sent: list[Sent] = []
        for one in came[1:]:
            if isinstance(one, BaseException):
                raise one
            sent.append(one)
        # A report on its first multiple says nothing of the time before.
        waited = [one.came_ms for one in sent if one.delay_ms > RELEASE_MS + GRACE_MS]
        return Seen(
            max(waited, default=began) - began - RELEASE_MS * bool(waited),
            min(one.came_ms for one in sent) - began,
            statistics.fmean(one.came_ms for one in sent) - began,
        )


def questions_of(family: Family, most: int) -> int:
    """Return the number of questions of a message whose end can be placed at a multiple; 0: none.

    The device is quiet for three quarters of a multiple of the grid.
    """
    query, randomizer = family.ask(1), family.randomizer(1)
    weight = query.expression.weight + randomizer.draw_cost
    for many in range(min(most, family.most, MAX_WEIGHT // weight), 0, -1):
        if record_times(RELEASE_MS, weight * many).over_ms % RELEASE_MS == 3 * RELEASE_MS // 4:
            return many
    return 0


async def attack(
    trees: Sequence[Path],
    families: Sequence[Family],
    most: int,
    messages: int,
    pairs: int,
    count_of: int,
    coin: random.Random,
) -> None:
    """Print how often the record whose work ends later is that of bit 1."""
    counts = {family: questions_of(family, most) for family in families}
    asked_of = [family for family in families if counts[family]]
    if not asked_of:
        raise SystemExit("--family: expected one whose questions' end can be placed, got none")
    each = -(-pairs // len(asked_of))
    totals = {tree: [0, 0] for tree in trees}
    print(
        "| tree | family | questions | pairs | right | 99 % bounds | end, ms | bit 1 - bit 0, ms |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        async with Processes(Path(folder)) as processes:
            targets = []
            for number, tree in enumerate(list(trees) * count_of):
                made = processes.made(f"device{number}", tree)
                targets.append(Target(tree, await processes.run(made), made.people))
            for target in targets:
                await target.begin()
            for family in asked_of:
                results = await attack_family(targets, family, counts[family], messages, each, coin)
                for tree, (decided, ends) in results.items():
                    hits, found = decided.right(coin), len(decided.times)
                    totals[tree][0] += hits
                    totals[tree][1] += found
                    if not found:
                        continue
                    median = statistics.median(zero for zero, _ in ends.times)
                    print(
                        f"| {tree.name} | {family.name} | {counts[family]} | {found} |"
                        f" {hits / found:.3f} | {show_bounds(hits, found)} | {median:.0f} |"
                        f" {ends.show_median()} |",
                        flush=True,
                    )
    for tree, (right, found) in totals.items():
        if found:
            share = f"{right / found:.3f}; 99 % bounds {show_bounds(right, found)}"
            print(f"{tree.name}: {right} of {found} pairs right, {share}")


async def attack_family(
    targets: Sequence[Target],
    family: Family,
    questions: int,
    messages: int,
    each: int,
    coin: random.Random,
) -> dict[Path, tuple[Pairs, Pairs]]:
    """Measure pairs with one family's questions, all targets at one time, each tree so many."""
    per_device = 8 + 2 * messages * (2 + each * len({t.tree for t in targets}) // len(targets))
    heavy = Heavy(family, questions * per_device)
    results = {target.tree: (Pairs(), Pairs()) for target in targets}
    left = {target.tree: iter(range(each)) for target in targets}

    async def run(target: Target) -> None:
        asked = (heavy.first(questions * turn)[-questions:] for turn in count(1))
        await asyncio.sleep(coin.random() * 3 * RELEASE_MS / 1000)
        await target.meet(heavy.signed)
        try:
            await target.calibrate(asked)
            for _ in left[target.tree]:
                late, ends = await target.pair(asked, messages, coin)
                results[target.tree][0].times.append(late)
                results[target.tree][1].times.append(ends)
        except Refused as refusal:
            print(f"{target.tree.name}: a device is left out, {family.name}: {refusal}", flush=True)

    await asyncio.gather(*map(run, targets))
    reached = sum(target.reached for target in targets)
    print(f"{family.name}: within reach on {reached} of {len(targets)} devices", file=sys.stderr)
    return results


def show_bounds(right: int, pairs: int) -> str:
    """Show both one-sided 99 % bounds of an accuracy."""
    return f"{1 - upper_bound(pairs - right, pairs):.3f}-{upper_bound(right, pairs):.3f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measurement", choices=("processor", "attack"))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--nano", type=int, default=2 * 10**6, help="nano-nats of a question")
    parser.add_argument("--family", action="append", help="a family by name; may be repeated")
    parser.add_argument("--questions", type=int, default=24, help="of one message, at most")
    parser.add_argument("--messages", type=int, default=1, help="to each record of a pair")
    parser.add_argument("--devices", type=int, default=6, help="processes, of each tree")
    parser.add_argument("--tree", type=Path, action="append", help="may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    chosen = families(options.nano)
    if options.family:
        chosen = [one for one in chosen if one.name in options.family]
    coin = random.Random(options.seed)
    trees = [tree.resolve() for tree in options.tree or [ROOT]]
    if options.measurement == "processor":
        processor(chosen, options.pairs, coin)
    else:
        counts = (options.questions, options.messages, options.pairs, options.devices)
        asyncio.run(attack(trees, chosen, *counts, coin))


if __name__ == "__main__":
    main()
