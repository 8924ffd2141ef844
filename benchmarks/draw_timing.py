"""Times of draws: whether anything that leaves a device tells one record from another by its time.

A record has one bit. A question makes it the least or the greatest input of a randomizer, with the
heaviest parameters that are allowed, so that evaluation or draw takes longer for one than for the
other. Each measurement is of pairs, the two bits in random order, one after the other.

- processor: time of this process's processor from T2 (the commit of finished symbols) to the
  reports, per family. The mean difference and its 99 % interval must lie within 1 % of the grid's
  slack, and a sign test must not reject.
- others: one `device run` process with many members. One of them, of either bit, answers a heavy
  question while another one is asked a question that it has answered before; the time of the
  latter's report is compared.
- attack: several `device run` processes on the default grid. The later report of a pair is taken
  to be that of bit 1. With several choices, the number of questions of one message is tuned first
  for each device, so that its reports lie on both sides of a multiple of the grid if its time tells
  of its work.

`--tree` names the checkout whose client the processes run, so that an older one is measured alike.

    python benchmarks/draw_timing.py processor --pairs 200
    python benchmarks/draw_timing.py others --pairs 60
    python benchmarks/draw_timing.py attack --pairs 400 [--tree OTHER] [--family codebook]
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio

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
from askance_client.cli.home import DeviceHome
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.messages import AckStatus, Request, SignedStudy, StudyTerms
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
from askance_client.service.gateway_exchange import GatewayResponse
from askance_simulation.fleets.memory_ledger import MemoryLedger

ROOT = Path(__file__).resolve().parents[1]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema("people", 1, bit=Bit())
RELEASE_MS = 1000
SLACK_MS = RELEASE_MS / 4  # between T2 and the multiple on which a light report leaves
BUDGET = 10**15
HALF = COIN_SPACE // 2
START_S = 60
Z99 = 2.576
_LARGEST = 1 << 30


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
    """

    name: str
    ask: Callable[[int], Query]
    randomizer: Callable[[int], Randomizer]


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
        Family("channel", cells(720), lambda _: channel),
        Family("k-ary", cells(1 << 20), lambda _: k_ary_response(1 << 20, nano)),
        Family("linear-hashing", cells(1 << 20), lambda _: linear_hashing(1 << 20, nano)),
        Family("subset-selection", cells(1 << 20), lambda _: SubsetSelection(1 << 20, 2730, t)),
        Family("hadamard-sign", cells(65_535), lambda _: hadamard_sign(32_767, nano)),
        Family(
            "signed-subset-selection",
            cells(65_535),
            lambda _: SignedSubsetSelection(32_767, 32_767, t),
        ),
        Family("hypercube", numbers(1_024), lambda _: hypercube_response(1_024, nano)),
        Family("codebook of one", numbers(1_024), book(1_024, 1)),
        Family("codebook", numbers(1_024), book(1_024, 31)),
        Family("codebook of 16", numbers(16), book(16, 1_820)),
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

    @property
    def apart(self) -> float:
        """Share of pairs on different multiples of the grid."""
        multiples = [(zero // RELEASE_MS, one // RELEASE_MS) for zero, one in self.times]
        return statistics.fmean(zero != one for zero, one in multiples)

    def right(self, coin: random.Random) -> int:
        """Number of pairs whose later report is that of bit 1."""
        return sum(int(d > 0 or (d == 0 and coin.random() < 0.5)) for d in self.differences)


def upper_bound(right: int, pairs: int) -> float:
    """Exact one-sided 99 % bound of an accuracy (Clopper and Pearson), by bisection."""
    low, high = right / pairs, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        below = sum(
            math.comb(pairs, k) * middle**k * (1 - middle) ** (pairs - k) for k in range(right + 1)
        )
        low, high = (middle, high) if below > 0.01 else (low, middle)
    return high


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


def payloads(signed: SignedStudy, family: Family) -> Iterator[bytes]:
    """Requests of a family's questions, each another one."""
    return (payload(signed, family, number) for number in range(1, 1 << 20))


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


class Peer:
    """A stream of a device or gateway, on which one message is asked at a time."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._reports: asyncio.Queue[tuple[float, int, bytes]] = asyncio.Queue()

    async def serve(self, first: asyncio.Queue[Peer]) -> None:
        """Read what the process sends; tell of it once it has joined."""
        joined = False
        while True:
            data = await self._context.read()
            now = time.monotonic()
            if not isinstance(data, bytes):
                return
            batch = decode_batch(data)
            if batch.joins and not joined:
                joined = True
                await first.put(self)
            for entry in batch.reports:
                for report in entry.reports:
                    await self._reports.put((now, entry.member, report))

    async def ask(
        self, requests: Sequence[tuple[bytes, tuple[int, ...]]], studies: Sequence[SignedStudy] = ()
    ) -> dict[int, float]:
        """Ask members, and return when each one's last report came, in milliseconds."""
        response = GatewayResponse(studies=tuple(studies), requests=tuple(requests))
        began = time.monotonic()
        await self._context.write(encode_gateway_response(response))
        expected = sum(len(members) for _, members in requests)
        came: dict[int, float] = {}
        digests = []
        for _ in range(expected):
            at, member, report = await asyncio.wait_for(self._reports.get(), START_S)
            decoded = decode_report(report)
            if not isinstance(decoded.outcome, bytes):
                raise Refused(decoded.outcome)
            came[member] = 1000 * (at - began)
            digests.append((decoded.request_digest, AckStatus.ACCEPTED, (member,)))
        acks = GatewayResponse(acks=tuple(digests))
        await self._context.write(encode_gateway_response(acks))
        return came


class Refused(Exception):
    """A device refused: a draw of this class was missed in this hour, or a budget is spent."""


class Processes:
    """An aggregator that asks as it likes, and processes of devices on this machine."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._folder, self._tree = folder, tree
        self._started: list[subprocess.Popen[bytes]] = []
        self._first: asyncio.Queue[Peer] = asyncio.Queue()

    async def __aenter__(self) -> Processes:
        self._server = aio.server()
        relay: Any = grpc.stream_stream_rpc_method_handler(self._relay)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"Relay": relay}
        handler = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self._port = self._server.add_insecure_port("127.0.0.1:0")
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

    async def start(self, name: str, members: int = 0) -> tuple[Peer, Path]:
        """Start a process of a device, or of a gateway of some members, and wait for its stream."""
        folder = self._folder / name
        folder.mkdir()
        schema, people = folder / "schema.toml", folder / "people.csv"
        schema.write_text('name = "people"\n[fields]\nbit = { type = "bit" }\n')
        columns = "name,bit\n" if members else "bit\n"
        rows = [f"n{number},{number % 2}\n" for number in range(members)] or ["0\n"]
        people.write_text(columns + "".join(rows))
        public = KEY.public_key().public_bytes_raw().hex()
        which = ("--key", "name") if members else ("--row", "0")
        home = str(folder / "device")
        self._run(
            *("init", home, "--aggregator", f"127.0.0.1:{self._port}", "--analyst", public),
            *("--life-epsilon", "100000", "--schema", str(schema), "--data", str(people), *which),
        )
        log = (folder / "log").open("wb")
        command = [sys.executable, "-m", "askance_client", "run", home]
        self._started.append(
            subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log)
        )
        return await asyncio.wait_for(self._first.get(), START_S), people

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(str(self._tree / part) for part in ("client", "protos"))
        return {**os.environ, "PYTHONPATH": path}

    def _run(self, *words: str) -> None:
        command = [sys.executable, "-m", "askance_client", *words]
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)


async def others(tree: Path, family: Family, pairs: int, coin: random.Random) -> None:
    """Print the times of another member's report while one member answers."""
    signed = study()
    found, own = Pairs(), Pairs()
    with tempfile.TemporaryDirectory() as folder:
        async with Processes(Path(folder), tree) as processes:
            peer, _ = await processes.start("gateway", members=3)
            # Members have numbers in the order of their ids; n0 and n2 have bit 0, n1 has bit 1.
            secret = DeviceHome(Path(folder) / "gateway" / "device").secret()
            order = sorted(range(3), key=lambda name: secret.member(f"n{name}").device_id)
            zero, one, other = (order.index(name) for name in range(3))
            idle = payload(signed, family, 0)
            await peer.ask([(idle, (0, 1, 2))], [signed])
            for number in range(1, pairs + 1):
                asked = payload(signed, family, number)
                taken, late = {}, {}
                for bit, member in coin.sample(((0, zero), (1, one)), 2):
                    came = await peer.ask([(asked, (member,)), (idle, (other,))])
                    taken[bit], late[bit] = came[other], came[member]
                found.times.append((taken[0], taken[1]))
                own.times.append((late[0], late[1]))
    show_times("another member's report", found)
    show_times("the own report", own)


def show_times(name: str, found: Pairs) -> None:
    """Print a line on pairs."""
    print(
        f"{name}: {statistics.median(zero for zero, _ in found.times):.1f} ms,"
        f" difference of records {found.mean:+.2f} +- {found.half_interval:.2f} ms (99 %),"
        f" sign test p {found.sign_p:.2f}, apart {found.apart:.3f}, {len(found.times)} pairs",
        flush=True,
    )


async def attack(
    tree: Path,
    families: Sequence[Family],
    pairs: int,
    tuned: Sequence[int],
    count_of: int,
    coin: random.Random,
) -> None:
    """Print how often the later report is that of bit 1, per family and in all."""
    each = -(-pairs // len(families))
    signed = study()
    right = count = 0
    print("| family | questions | pairs | right | apart | median, ms | bit 1 - bit 0, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        async with Processes(Path(folder), tree) as processes:
            devices = [await processes.start(f"device{number}") for number in range(count_of)]
            for peer, _ in devices:
                await peer.ask([], [signed])
            for family in families:
                fresh = payloads(signed, family)
                questions = [tuned[0]] * len(devices)
                if len(tuned) > 1:
                    questions = await asyncio.gather(
                        *(tune(peer, people, tuned, fresh) for peer, people in devices)
                    )
                    print(f"tuned: {questions} questions", flush=True)
                found = Pairs()
                while devices and len(found.times) < each:
                    round_of = [list(islice(fresh, 2 * many)) for many in questions]
                    came = await asyncio.gather(
                        *(
                            pair(peer, people, asked, coin)
                            for (peer, people), asked in zip(devices, round_of, strict=True)
                        ),
                        return_exceptions=True,
                    )
                    for number in reversed(range(len(devices))):
                        one = came[number]
                        if isinstance(one, Refused):
                            print(f"a device is left out from here on: {one}", flush=True)
                            del devices[number], questions[number]
                        elif isinstance(one, BaseException):
                            raise one
                        else:
                            found.times.append(one)
                if not found.times:
                    break
                hits = found.right(coin)
                right, count = right + hits, count + len(found.times)
                median = statistics.median(zero for zero, _ in found.times)
                print(
                    f"| {family.name} | {questions[0]} | {len(found.times)} |"
                    f" {hits / len(found.times):.3f} | {found.apart:.3f} | {median:.1f} |"
                    f" {found.mean:+.2f} +- {found.half_interval:.2f} |",
                    flush=True,
                )
    bound = upper_bound(right, count)
    print(f"all: {right} of {count} pairs right, {right / count:.3f}; at most {bound:.3f} (99 %)")


async def pair(
    peer: Peer, people: Path, asked: Sequence[bytes], coin: random.Random
) -> tuple[float, float]:
    """Ask one device twice, its record of bit 0 and of bit 1, in random order."""
    taken = [0.0, 0.0]
    for place, bit in enumerate(coin.sample((0, 1), 2)):
        people.write_text(f"bit\n{bit}\n")
        mine = asked[place * len(asked) // 2 : (place + 1) * len(asked) // 2]
        came = await peer.ask([(one, (0,)) for one in mine])
        taken[bit] = came[0]
    return taken[0], taken[1]


async def tune(peer: Peer, people: Path, choices: Sequence[int], fresh: Iterator[bytes]) -> int:
    """Return the number of questions whose reports a device sends on either multiple of the grid.

    Found by bisection: with fewer, reports of both bits leave on the first multiple that is seen
    with the fewest questions; with more, they do not.
    """
    low, high, first = 0, len(choices) - 1, math.inf
    while low < high:
        middle = (low + high) // 2 if first < math.inf else 0
        later = 0
        for bit in (0, 1, 0, 1):
            people.write_text(f"bit\n{bit}\n")
            try:
                came = await peer.ask([(one, (0,)) for one in islice(fresh, choices[middle])])
            except Refused:  # a draw was missed; fewer questions, or `attack` leaves it out
                return choices[0]
            multiple = came[0] // RELEASE_MS
            first = multiple if middle == 0 and first == math.inf else first
            later += multiple > first
        if later >= 2:
            high = middle
        else:
            low = middle + 1
    return choices[low]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measurement", choices=("processor", "others", "attack"))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--nano", type=int, default=2 * 10**6, help="nano-nats of a question")
    parser.add_argument("--family", action="append", help="a family by name; may be repeated")
    parser.add_argument("--questions", default="8,16,24,32", help="choices of the tuned attack")
    parser.add_argument("--devices", type=int, default=6, help="processes of the attack")
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    chosen = families(options.nano)
    if options.family:
        chosen = [one for one in chosen if one.name in options.family]
    coin = random.Random(options.seed)
    tree = options.tree.resolve()
    if options.measurement == "processor":
        processor(chosen, options.pairs, coin)
    elif options.measurement == "others":
        asyncio.run(others(tree, chosen[-1], options.pairs, coin))
    else:
        choices = [int(text) for text in options.questions.split(",")]
        asyncio.run(attack(tree, chosen, options.pairs, choices, options.devices, coin))


if __name__ == "__main__":
    main()
