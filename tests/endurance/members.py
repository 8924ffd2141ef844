"""A gateway's process with seeded coins: a part of `kill.py`, not a program.

All but coins and times is what `askance device run` runs: the gateway, its ledger file, TLS. With
seeded coins its answers can be held against a simulation of the same study, as long as no value is
late: on a busy machine its time waits for the step before it. `ledger.sqlite` is opened or
made; each member's reports leave a while after their charge is durable, each member at another
time, so that a kill finds charges that were not sent. Members come in groups: each line on stdin
lets one more group dial, so that a study stays open for as long as its driver likes. Every
acknowledgement is noted in `acknowledged.txt`: member, request and status.

    python tests/endurance/members.py FOLDER ADDRESS CA ANALYST USERS D SEED SPREAD_MS
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from askance_aggregator.store import Store
from askance_client.codec import digest_of
from askance_client.device import Policy, RecordWork
from askance_client.ledger import LedgerFile
from askance_client.messages import Reason, Refusal
from askance_client.queries import EncodedRecord
from askance_client.service import Identity, token_digest
from askance_client.service import gateway as gateways_of_members
from askance_client.service.authority import read_authority
from askance_client.service.channels import open_channel
from askance_client.service.evaluation import TimedEvaluation
from askance_client.service.gateway import Gateway, Member
from askance_client.service.gateway_exchange import GatewayResponse
from askance_client.service.multiplexer import Multiplexer
from askance_client.service.observable import record_times
from askance_simulation.experiments.trials import EPOCH_S
from askance_simulation.populations import Population, masked_parity
from askance_simulation.randomness import Seed, SeededCoins

LONGEST_WAIT_MS = 500  # a fleet that comes back at once, so that many kills fit into a minute
CONNECTIONS = 4
GROUPS = 12  # of members, each with another delay between charge and send
ACKNOWLEDGED = "acknowledged.txt"


def people(users: int, d: int, seed: int) -> Population:
    """Return the population."""
    return masked_parity(users, Seed.of(seed) / "population", d)


def coins(seed: int) -> SeededCoins:
    """Return the coins of the answers."""
    return SeededCoins(Seed.of(seed) / "coins")


def policy(analyst: bytes) -> Policy:
    """Return the policy of every owner."""
    return Policy(analysts=frozenset((analyst,)), life_nano_nats=10**12)


def identity(ordinal: int) -> Identity:
    """Return the identity of a member at the aggregator; a test's tokens are no secrets."""
    name = b"member %d" % ordinal
    return Identity(name, digest_of(b"token of " + name))


def enrolments(users: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the enrolments of all members."""
    for ordinal in range(users):
        one = identity(ordinal)
        yield one.device_id, token_digest(one.token)


def gateway_identity(group: int) -> Identity:
    """Return the identity of a group's gateway."""
    name = b"gateway %d" % group
    return Identity(name, digest_of(b"token of " + name))


def enrol(store: Store, users: int) -> None:
    """Enrol all members, in order, and then the gateways of their groups."""
    everyone = list(enrolments(users))
    store.enrol(everyone)
    for group in range(GROUPS):
        own = gateway_identity(group)
        of = (own.device_id, token_digest(own.token))
        store.enrol_with(everyone[group::GROUPS], bytes(16), users, of)


class UnhurriedEvaluation(TimedEvaluation):
    """Evaluation whose times come no earlier than the public ones, and after the steps' ends."""

    async def __call__(self, work: RecordWork, device: object) -> None:
        """Run some work; only one piece of a member's work is at hand here."""
        times = record_times(self._release_ms, work.weight)
        async with self._slots:
            await self._start(work.prepare)
            await self._open()
            try:
                await self._start(work.evaluate)
                await self._sleep(times.fixed_ms)
                work.fix()
                await self._start(work.draw)
                await self._sleep(times.over_ms - times.fixed_ms)
            finally:
                self._close()


class Quiet:
    """A gateway's watcher that says nothing."""

    def answered(self, refusal: Reason | None) -> None:
        """Do nothing."""

    def refused(self, refusal: Refusal) -> None:
        """The text is of no interest."""

    def failed(self, failure: str) -> None:
        """Do nothing."""

    def connection(self, number: int, *, up: bool) -> None:
        """Do nothing."""


def open_ledgers(path: Path) -> LedgerFile:
    """The gateway's ledgers, made where there are none."""
    return LedgerFile.open(path) if path.exists() else LedgerFile.create(path)


async def run(gateways: Sequence[Gateway]) -> None:
    """Run one more gateway per line of stdin, for ever."""
    loop, running = asyncio.get_running_loop(), []
    for gateway in gateways:
        await loop.run_in_executor(None, sys.stdin.readline)
        running.append(asyncio.ensure_future(gateway.run()))
    await asyncio.gather(*running)


def note_acknowledgements(file: TextIO) -> None:
    """Write every acknowledgement to a file before its member's gateway acts on it."""
    take = Multiplexer._take

    def noted(multiplexer: Multiplexer, opened: Any, response: GatewayResponse) -> None:
        for digest, status, members in response.acks:
            for member in members:
                name = multiplexer._members[member][0].device_id.decode().split()[-1]
                file.write(f"{name} {digest.hex()} {status.name}\n")
        file.flush()
        take(multiplexer, opened, response)

    Multiplexer._take = noted  # type: ignore[method-assign, assignment]  # observed, not replaced


def main(argv: Sequence[str]) -> int:
    """Run until it is killed."""
    folder, address, ca, analyst = Path(argv[0]), argv[1], Path(argv[2]), bytes.fromhex(argv[3])
    users, d, seed, spread_ms = map(int, argv[4:8])
    population, source = people(users, d, seed), coins(seed)
    columns = population.columns(0, users)
    records: list[EncodedRecord] = [columns.record(ordinal) for ordinal in range(users)]
    ledgers = open_ledgers(folder / "ledger.sqlite")
    gateways_of_members.TimedEvaluation = UnhurriedEvaluation  # type: ignore[attr-defined]  # for any load
    gateways = [
        Gateway(
            [
                Member(str(o), identity(o), records[o], ledgers.ledger(str(o)))
                for o in range(group, users, GROUPS)
            ],
            schema=population.schema,
            policy=policy(analyst),
            coins_for=lambda name: source.at(int(name)),
            now_s=lambda: EPOCH_S,
            channel=lambda: open_channel(
                address, partial(read_authority, ca), longest_wait_ms=LONGEST_WAIT_MS
            ),
            connections=1,
            watcher=Quiet(),
            identity=gateway_identity(group),
            longest_wait_ms=LONGEST_WAIT_MS,
            release_ms=group * spread_ms // GROUPS,
        )
        for group in range(GROUPS)
    ]
    with (folder / ACKNOWLEDGED).open("a") as file:
        note_acknowledgements(file)
        print("running", flush=True)
        asyncio.run(run(gateways))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
