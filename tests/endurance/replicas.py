"""kill -9 of replicas and of their database at random points: as one undisturbed process.

Real processes: two `askance aggregator serve` on one PostgreSQL database behind haproxy
(`deploy/haproxy/haproxy.cfg`), and a gateway's process of 500 devices with a ledger each, in twelve
groups with a stream each. Studies of two rounds (masked parity) and of a search whose second round
follows from the first one's answers (quantiles) take turns. While a round is open, a replica or the
database is killed at random moments. A replica that drove the study is started again once another
drives it, or at once, by chance; the time until the study is driven again is taken from the kill.

A group of devices more dials before each kill, so that a round is never complete while it is being
disturbed. Afterwards the checks of `kill.py` hold: the hypothesis and the transcript's digest are
those of a simulation of the same study, users and coins; acknowledgements, stored reports, counted
answers, charges and accounts agree; no request was answered in two versions, and none came late.

    python tests/endurance/replicas.py [--points 100] [--database 20] [--seed 0] [--json]

`--points` counts the kills of replicas, `--database` those of PostgreSQL. It exits 1, and keeps its
folder, where something does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kill import (
    ASKANCE,
    END_S,
    Folders,
    Trial,
    Victim,
    Violated,
    check,
    held_against,
    signed_study,
    stands,
    undisturbed,
)
from members import GROUPS
from stores import PostgresqlStores, stores_of

from askance_aggregator.analyst import StudyHandle, connect, state_of
from askance_aggregator.store import StudyState
from askance_client.errors import AskanceError
from tests.ports import free_address

ROOT = Path(__file__).resolve().parents[2]
PROXY = ROOT / "deploy" / "haproxy" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
USERS = 500
TRIALS = (
    Trial("masked-parity", {}, USERS),
    Trial("quantiles", {"column": "i", "tau": "0.2"}, USERS),
)
NAMES = ("first", "second")
ROUNDS = 2
KILLS_PER_STUDY = ROUNDS * (GROUPS - 1)
SPREAD_MS = 1500  # over which a round's reports leave the gateway
LATEST_S = 1.0  # of a kill, after its victims were started
TAKEOVER_S = 10.0  # p95 of the time in which a dead replica's study is driven again
DRIVEN_S = 60.0


@dataclass(slots=True)
class Left:
    """Kills that are still to come."""

    replicas: int
    database: int

    @property
    def total(self) -> int:
        """Number of kills, of whichever victim."""
        return self.replicas + self.database


@dataclass(slots=True)
class Found:
    """Figures of all studies: kills by victim, numbers reconciled, seconds until driven again."""

    kills: Counter[str] = field(default_factory=Counter)
    reconciled: Counter[str] = field(default_factory=Counter)
    takeovers_s: list[float] = field(default_factory=list)


class Deployment:
    """Two replicas, haproxy and a gateway's process, for one study.

    Args:
      folders: of the aggregator; the second replica has a configuration of its own beside it.
      seed: of the devices' records and coins.
    """

    def __init__(self, folders: Folders, seed: int) -> None:
        self.folders = folders
        self.address = free_address()
        self.replicas: dict[str, Victim] = {}
        self.addresses: dict[str, str] = {}
        ports = []
        home = folders.folder / "aggregator"
        text = (home / "aggregator.toml").read_text()
        senders = '# proxy_protocol = ["10.0.0.5"]'
        check(senders in text, f"expected {senders!r} in the configuration")
        text = text.replace(senders, 'proxy_protocol = ["127.0.0.2"]')
        metrics = text.partition("[metrics]\nlisten = ")[2].partition("\n")[0]
        devices = text.partition("[tls.devices]\nlisten = ")[2].partition("\n")[0]
        for name in NAMES:
            configuration = home / f"{name}.toml"
            own = text.replace(metrics, f'"{free_address()}"')
            ports.append(free_address())
            own = own.replace(devices, f'"{ports[-1]}"')
            configuration.write_text(f'replica = "{name}"\n{own}')
            self.addresses[name] = free_address()
            serve = ["aggregator", "serve", "--config", str(configuration), "--json"]
            serve += ["--listen", self.addresses[name], "--store", str(folders.store)]
            self.replicas[name] = Victim([*ASKANCE, *serve], folders.folder / f"{name}.log")
        self._proxy = folders.folder / "haproxy.cfg"
        addresses = list(self.addresses.values())
        self._proxy.write_text(proxy_text(PROXY.read_text(), self.address, addresses, ports))
        analyst = folders.analyst.public_key().public_bytes_raw().hex()
        part = str(Path(__file__).with_name("members.py"))
        given = (folders.folder, self.address, folders.ca, analyst, USERS, 4, seed, SPREAD_MS)
        self.gateway = Victim(
            [sys.executable, part, *map(str, given)], folders.folder / "gateway.log"
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all of it; the replicas are asked to end afterwards."""
        replicas = tuple(self.replicas.values())
        for victim in replicas:
            victim.start()
        for victim in replicas:
            victim.ready()
        with subprocess.Popen([HAPROXY, "-db", "-q", "-f", str(self._proxy)]) as proxy:
            try:
                until_listening(self.address)
                self.gateway.start()
                yield
            finally:
                self.gateway.kill()
                codes = [victim.stop() for victim in replicas]
                proxy.kill()
        check(codes == [0, 0], f"expected both replicas to drain and exit 0, found {codes}")

    def driver(self) -> str | None:
        """Return the name of the replica that drives a study; None: none does now."""
        with self.folders.stores.looking(self.folders.store) as store:
            for replica in store.replicas.listing():
                if replica.drives:
                    return replica.name
        return None

    def until_driven(self, since: float, but: str | None = None) -> float:
        """Wait until a replica other than `but` drives the study; return the seconds `since`."""
        while (driver := self.driver()) is None or driver == but:
            check(time.monotonic() < since + DRIVEN_S, "expected the study to be driven again")
            time.sleep(0.05)
        return time.monotonic() - since


def proxy_text(
    documented: str, address: str, replicas: Sequence[str], devices: Sequence[str]
) -> str:
    """Return the documented configuration with other addresses."""
    changes = {"bind :7443": f"bind {address}", "maxconn 60000": "maxconn 500"}
    changes["bind :7445"] = f"bind {free_address()}"
    changes["sc0_conn_cur gt 100"] = "sc0_conn_cur gt 500"  # all devices have one address
    changes["sc0_conn_rate gt 50"] = "sc0_conn_rate gt 5000"
    changes |= dict(zip(("127.0.0.1:7444", "127.0.0.1:7446"), replicas, strict=True))
    for port, own in zip(("7447", "7449"), devices, strict=True):
        changes[f"127.0.0.1:{port}"] = own
        changes[f"check port {port}"] = f"check port {own.rpartition(':')[2]}"
    for before, after in changes.items():
        check(before in documented, f"expected {before!r} in {PROXY}")
        documented = documented.replace(before, after)
    return documented


def until_listening(address: str) -> None:
    """Wait until a process listens on an address."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + DRIVEN_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            check(time.monotonic() < until, f"expected haproxy to listen on {address}")
        time.sleep(0.05)


class Disturbance:
    """The kills of one study.

    Args:
      deployment: whose replicas are killed.
      handle: of the study, through haproxy.
      draw: chooses victims and moments.
      found: is added to.
    """

    def __init__(
        self, deployment: Deployment, handle: StudyHandle, draw: random.Random, found: Found
    ) -> None:
        self._deployment, self._handle = deployment, handle
        self._draw, self._found = draw, found

    def disturb(self, number: int, left: Left) -> None:
        """Kill while round `number` is open, at most once per group but one; then let it end."""
        gateway = self._deployment.gateway
        gateway.kill()
        gateway.start()
        kills = min(left.total, GROUPS - 1)
        for _ in range(kills):
            gateway.say(1)
            time.sleep(self._draw.uniform(0, LATEST_S))
            if self._draw.random() * left.total < left.database:
                left.database -= 1
                self._kill_database()
            else:
                left.replicas -= 1
                self._kill_replica()
        gateway.ready()
        gateway.say(GROUPS - kills)
        until = time.monotonic() + END_S
        while (event := stands(self._handle, *self._deployment.replicas.values())).round <= number:
            check(state_of(event) is StudyState.OPEN, "expected an open study between two rounds")
            check(time.monotonic() < until, f"expected round {number + 1} to end")

    def _kill_database(self) -> None:
        self._deployment.folders.stores.kill_server()
        self._found.kills["database"] += 1
        self._deployment.until_driven(time.monotonic())

    def _kill_replica(self) -> None:
        name = self._draw.choice(NAMES)
        victim = self._deployment.replicas[name]
        driver = self._deployment.driver()
        victim.kill()
        killed = time.monotonic()
        at_once = self._draw.random() < 0.5
        if at_once:
            victim.start()
        if driver == name:
            seconds = self._deployment.until_driven(killed, but=None if at_once else name)
            if not at_once:
                self._found.takeovers_s.append(seconds)
        if not at_once:
            victim.start()
        victim.ready()
        kind = "the driver" if driver == name else "another replica"
        self._found.kills[f"{kind}, started again {'at once' if at_once else 'later'}"] += 1


def disturbed_study(
    folders: Folders, number: int, left: Left, seed: int, draw: random.Random, found: Found
) -> None:
    """Run one study, disturb it, and check what came of it."""
    trial = TRIALS[number % len(TRIALS)]
    study = signed_study(folders, number, seed, trial)
    deployment = Deployment(folders, seed)
    with ExitStack() as held:
        held.enter_context(deployment.running())
        address = deployment.address
        analyst = held.enter_context(connect(address, key=folders.analyst, ca=folders.ca))
        handle = analyst.submit_signed(study)
        disturbance = Disturbance(deployment, handle, draw, found)
        for round_ in range(ROUNDS):
            disturbance.disturb(round_, left)
        result = handle.result(timeout_s=END_S).to_json()
    expected = undisturbed(folders, study, seed, trial)
    found.reconciled += held_against(folders, study, result, expected)


def endure(left: Left, seed: int, folder: Path, told: bool) -> dict[str, Any]:
    """Run studies in turn until enough kills, each with a database and ledgers of its own."""
    draw = random.Random(seed)
    began = time.perf_counter()
    found = Found()
    studies = 0
    with stores_of("postgresql") as stores:
        assert isinstance(stores, PostgresqlStores)
        fresh = Folders.make(folder / "fresh", stores)
        while left.total:
            folders = fresh.copy(folder / str(studies), USERS)
            disturbed_study(folders, studies, left, seed, draw, found)
            shutil.rmtree(folders.folder)
            studies += 1
            if told:
                print(f"{found.kills.total()} kills, {studies} studies", file=sys.stderr)
    takeovers = sorted(found.takeovers_s)
    p95 = takeovers[max(-(-95 * len(takeovers) // 100) - 1, 0)] if takeovers else 0.0
    check(p95 <= TAKEOVER_S, f"expected takeovers within {TAKEOVER_S} s (p95), found {p95:.1f} s")
    return {
        "kills": dict(sorted(found.kills.items())),
        "studies": studies,
        "devices": USERS,
        "reconciled": dict(found.reconciled),
        "takeovers": len(takeovers),
        "takeover_p50_s": takeovers[len(takeovers) // 2] if takeovers else 0.0,
        "takeover_p95_s": p95,
        "takeover_most_s": max(takeovers, default=0.0),
        "seconds": time.perf_counter() - began,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=100, metavar="N", help="kills; default 100")
    parser.add_argument("--database", type=int, default=20, metavar="N", help="and of PostgreSQL")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="askance-replicas-"))
    left = Left(arguments.points, arguments.database)
    try:
        told = endure(left, arguments.seed, folder, not arguments.json)
    except (Violated, AskanceError) as error:
        print(f"violated: {error} (see {folder})", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    print(json.dumps(told) if arguments.json else text_of(told))
    return 0


def text_of(told: Mapping[str, Any]) -> str:
    """Return the figures as lines of text."""
    lines = [f"kills in {told['studies']} open studies of {told['devices']} devices:"]
    lines += [f"  {count:4d}  {name}" for name, count in told["kills"].items()]
    numbers = ", ".join(f"{count:,} {name}" for name, count in told["reconciled"].items())
    lines.append(f"reconciled: {numbers}; none refused")
    lines.append(
        f"{told['takeovers']} takeovers: p50 {told['takeover_p50_s']:.1f} s, p95"
        f" {told['takeover_p95_s']:.1f} s, most {told['takeover_most_s']:.1f} s"
    )
    lines.append(f"all held, {told['seconds']:.0f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
