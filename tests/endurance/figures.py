"""Figures of two replicas against their store, through rolling restarts with open studies.

Real processes, as of `replicas.py`: two `askance aggregator serve` on one PostgreSQL database,
behind haproxy, and a gateway's process of 500 devices in twelve groups. While a study is open,
and two thirds of its devices are connected, both replicas are stopped by SIGTERM and started
again, one after the other; then the study ends, and another runs. All the while the store is read
by plain SQL twice per second, and beside it each replica's page of metrics, `aggregator status`
at each replica, and the figures that the console's Overview shows, called at each replica.

No figure may be older than 5 s: each must be one that the store, or the sum of what both processes
count, had in the 5 s before. Once nothing has changed for 5 s each must be equal.

    python tests/endurance/figures.py [--restarts 3] [--quick] [--seed 0] [--json]

`--quick` makes one rolling restart. It exits 1 where something does not hold, and names it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kill import END_S, Folders, Victim, Violated, check, signed_study, stands
from members import GROUPS
from prometheus_client.parser import text_string_to_metric_families
from replicas import NAMES, TRIALS, USERS, Deployment
from stores import PostgresqlStores, stores_of

from askance_aggregator.analyst import connect
from askance_aggregator.operators import OperatorClient
from askance_aggregator.server.process.configuration import Configuration, read_configuration
from askance_aggregator.server.process.status import status
from askance_aggregator.store import store_location
from askance_client.addresses import Address
from askance_client.errors import AskanceError

OLDEST_S = 5.0
EVERY_S = 0.5
STARTED_S = 15.0  # between two restarts: the gateway's streams come back, and devices are asked
CONNECTED = 2 * GROUPS // 3  # groups that are connected while a study is open
PARTS = tuple(f"connected to {name}" for name in NAMES)
OPERATOR = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_TRUTH = """
SELECT (SELECT count(*) FROM devices),
  (SELECT count(*) FROM studies) - (SELECT count(*) FROM conclusions WHERE epoch = 0),
  (SELECT count(*) FROM conclusions WHERE epoch = 0 AND state = 2),
  (SELECT count(*) FROM rounds WHERE {open}),
  (SELECT coalesce(min(study * 100 + number), 0) FROM rounds WHERE {open})
""".format(
    open="NOT closed AND NOT EXISTS (SELECT FROM conclusions"
    " WHERE conclusions.study = rounds.study AND conclusions.epoch = 0)"
)

Figures = Mapping[str, float]
"""Figures by name; one that a source does not have is absent."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures that a source had at a time, between the beginning and the end of a reading."""

    source: str
    began_s: float
    ended_s: float
    figures: Figures


@dataclass(slots=True)
class Samples:
    """All samples of a run; `truth` are those of the store and of the processes themselves."""

    truth: list[Sample] = field(default_factory=list)
    shown: list[Sample] = field(default_factory=list)

    def stale(self) -> Iterator[tuple[Sample, str]]:
        """Yield the figures shown that were not true at any time in the 5 s before."""
        first_s = self.truth[0].ended_s + OLDEST_S
        for one in self.shown:
            if one.began_s < first_s:
                continue
            for name, value in one.figures.items():
                # Of a sum each summand may be of another moment.
                summands = PARTS if name == "connected" else (name,)
                near = [found for part in summands if (found := self._near(one, part))]
                slack = OLDEST_S if name == "oldest_s" else 0.0
                low, high = sum(map(min, near)) - slack, sum(map(max, near)) + slack
                if near and not low <= value <= high:
                    yield one, name

    def _near(self, one: Sample, name: str) -> list[float]:
        """Return the true figures of the 5 s before a sample.

        With the readings next to these: in between, each of two is true.
        """
        having = [truth for truth in self.truth if name in truth.figures]
        ended = [truth.ended_s for truth in having]
        began = [truth.began_s for truth in having]
        first = max(bisect_right(ended, one.began_s - OLDEST_S) - 1, 0)
        last = bisect_left(began, one.ended_s)
        return [truth.figures[name] for truth in having[first : last + 1]]


class Watch:
    """Reader of the store and of what the processes show, in threads of its own."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.samples = Samples()
        self.failed: Counter[str] = Counter()
        self._open = (0, 0.0)  # the round that is open, and since when by this program's clock
        self._stopping = threading.Event()
        self.configurations = {name: self._configuration(name) for name in NAMES}

    def _configuration(self, name: str) -> Configuration:
        folders = self._deployment.folders
        read = read_configuration(folders.folder / "aggregator" / f"{name}.toml", environment={})
        address = Address.of(self._deployment.addresses[name])
        return replace(read, store=store_location(str(folders.store)), listen=address)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look in the background."""
        works: list[Callable[[], None]] = [self._read_truth]
        for name in NAMES:
            works += [
                partial(self._read_connected, name, f"connected to {name}"),
                partial(self._show, f"metrics of {name}", partial(self.page, name)),
                partial(self._show, f"status at {name}", partial(self._status, name)),
                partial(self._show, f"console at {name}", partial(self._fleet, name)),
            ]
        threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._stopping.wait(EVERY_S):
            work()

    def _show(self, source: str, read: Callable[[], Figures]) -> None:
        began_s = time.monotonic()
        try:
            figures = read()
        except (AskanceError, OSError):  # it is being restarted
            self.failed[source] += 1
            return
        self.samples.shown.append(Sample(source, began_s, time.monotonic(), figures))

    def _read_truth(self) -> None:
        began_s = time.monotonic()
        devices, opened, done, rounds, key = self.stored()
        if key != self._open[0]:
            self._open = (key, began_s)
        figures: dict[str, float] = {
            "devices": devices,
            "open": opened,
            "done": done,
            "rounds": rounds,
        }
        if key:
            figures["oldest_s"] = time.monotonic() - self._open[1]
        self.samples.truth.append(Sample("store", began_s, time.monotonic(), figures))

    def _read_connected(self, name: str, part: str) -> None:
        began_s, connected = time.monotonic(), 0.0
        with suppress(OSError):
            connected = self._page(name).get("askance_connected", 0.0)
        self.samples.truth.append(Sample(name, began_s, time.monotonic(), {part: connected}))

    def stored(self) -> tuple[int, int, int, int, int]:
        """Return devices, open studies, done ones, open rounds and the oldest one, by plain SQL."""
        with psycopg.connect(str(self._deployment.folders.store)) as connection:
            connection.execute("SET search_path TO askance")
            row = connection.execute(_TRUTH).fetchone()
        assert row is not None
        return row

    def _page(self, name: str) -> dict[str, float]:
        address = self.configurations[name].metrics
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as reply:
            families = text_string_to_metric_families(reply.read().decode())
            return {
                " ".join((sample.name, *sample.labels.values())): sample.value
                for family in families
                for sample in family.samples
            }

    def page(self, name: str) -> Figures:
        """Return the figures of a replica's page of metrics."""
        found = self._page(name)
        return without_age(
            {
                "devices": found["askance_devices"],
                "open": found["askance_studies open"],
                "done": found["askance_studies done"],
                "rounds": found["askance_open_rounds"],
                "oldest_s": found.get("askance_oldest_round_age_seconds", 0.0),
            }
        )

    def _status(self, name: str) -> Figures:
        found = status(self.configurations[name]).to_json()
        if found["devices"] is None or found["connected"] is None:
            raise OSError(f"status at {name}: no page of metrics")
        return without_age(
            {
                "devices": found["devices"],
                "open": found["studies"]["open"],
                "done": found["studies"]["done"],
                "rounds": found["open_rounds"],
                "connected": found["connected"],
                "oldest_s": found["oldest_round_s"] or 0.0,
            }
        )

    def _fleet(self, name: str) -> Figures:
        folders = self._deployment.folders
        with connect(self._deployment.addresses[name], key=OPERATOR, ca=folders.ca) as called:
            found = OperatorClient(called).fleet()
        return without_age(
            {
                "devices": found.enrolled,
                "rounds": found.open_rounds,
                "connected": found.connected,
                "oldest_s": max((one.age_s for one in found.rounds), default=0.0),
            }
        )

    def settled(self) -> dict[str, Figures]:
        """Return what all sources show once nothing has changed for 5 s."""
        until = time.monotonic() + OLDEST_S + EVERY_S
        time.sleep(max(until - time.monotonic(), 0))
        return {
            source: figures
            for name in NAMES
            for source, figures in (
                (f"metrics of {name}", self.page(name)),
                (f"status at {name}", self._status(name)),
                (f"console at {name}", self._fleet(name)),
            )
        }


def without_age(figures: dict[str, float]) -> Figures:
    """Leave out the age of no round."""
    if not figures["oldest_s"]:
        del figures["oldest_s"]
    return figures


@dataclass(slots=True)
class Found:
    """Figures of the whole run."""

    restarts: int = 0
    shown: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    unequal: list[str] = field(default_factory=list)


def restart(victim: Victim) -> None:
    """Stop a replica as an upgrade does, and start it again."""
    code = victim.stop()
    check(code == 0, f"expected a replica to drain and exit 0, found {code}")
    victim.start()
    victim.ready()


def rolling_restart(folders: Folders, seed: int, number: int, found: Found) -> None:
    """Restart both replicas while a study is open; let it end, and run another."""
    deployment = Deployment(folders, seed)
    watch = Watch(deployment)
    with ExitStack() as held:
        held.enter_context(deployment.running())
        deployment.gateway.ready()
        deployment.gateway.say(CONNECTED)
        watching = held.enter_context(ExitStack())
        watching.enter_context(watch.looking())
        key = folders.analyst
        analyst = held.enter_context(connect(deployment.address, key=key, ca=folders.ca))
        handle = analyst.submit_signed(signed_study(folders, 2 * number, seed, TRIALS[0]))
        time.sleep(STARTED_S)
        for victim in deployment.replicas.values():
            restart(victim)
            time.sleep(STARTED_S)
        found.restarts += 1
        deployment.gateway.say(GROUPS - CONNECTED)
        handle.result(timeout_s=END_S)
        again = analyst.submit_signed(signed_study(folders, 2 * number + 1, seed, TRIALS[0]))
        again.result(timeout_s=END_S)
        devices, opened, done, rounds, _ = watch.stored()
        expected = {
            "devices": devices,
            "open": opened,
            "done": done,
            "rounds": rounds,
            "connected": USERS,
        }
        for source, figures in watch.settled().items():
            for name, value in figures.items():
                if expected.get(name) != value:
                    found.unequal.append(f"{source}: {name} {value}, not {expected.get(name)}")
        at_rest = watch.stored()
        check(at_rest[:4] == (devices, opened, done, rounds), "expected a store at rest")
        watching.close()
        stands(again, *deployment.replicas.values())
    for one in watch.samples.shown:
        found.shown.update({f"{one.source.split(' ')[0]} {name}": 1 for name in one.figures})
    for one, name in watch.samples.stale():
        kind = f"{one.source.split(' ')[0]} {name}"
        found.stale[kind] += 1
        at_s = one.began_s - watch.samples.truth[0].began_s
        found.examples.setdefault(kind, f"{one.source} at {at_s:.0f} s: {one.figures[name]:g}")


def endure(restarts: int, seed: int, folder: Path) -> Found:
    """Make rolling restarts, each on a database of its own."""
    found = Found()
    with stores_of("postgresql") as stores:
        assert isinstance(stores, PostgresqlStores)
        fresh = Folders.make(folder / "fresh", stores)
        configuration = fresh.folder / "aggregator" / "aggregator.toml"
        public = OPERATOR.public_key().public_bytes_raw().hex()
        callers = f'\n[[callers.keys]]\nkey = "{public}"\nname = "operator"\nrole = "operator"\n'
        configuration.write_text(configuration.read_text() + callers)
        for number in range(restarts):
            folders = fresh.copy(folder / str(number), USERS)
            rolling_restart(folders, seed, number, found)
            shutil.rmtree(folders.folder)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--restarts", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--quick", action="store_true", help="one")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="askance-figures-"))
    began_s = time.perf_counter()
    try:
        found = endure(1 if arguments.quick else arguments.restarts, arguments.seed, folder)
    except (Violated, AskanceError) as error:
        print(f"violated: {error} (see {folder})", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    told = {
        "restarts": found.restarts,
        "shown": dict(sorted(found.shown.items())),
        "older than 5 s": dict(sorted(found.stale.items())),
        "examples": found.examples,
        "unequal at rest": found.unequal,
        "seconds": time.perf_counter() - began_s,
    }
    print(json.dumps(told) if arguments.json else text_of(told))
    return 1 if found.stale or found.unequal else 0


def text_of(told: Mapping[str, Any]) -> str:
    """Return the figures as lines of text."""
    lines = [f"{told['restarts']} rolling restarts of two replicas with an open study:"]
    for name, shown in told["shown"].items():
        stale = told["older than 5 s"].get(name, 0)
        example = f" ({told['examples'][name]})" if stale else ""
        lines.append(f"  {name}: {shown:,} readings, {stale:,} older than 5 s{example}")
    lines += [f"  unequal at rest: {one}" for one in told["unequal at rest"]]
    if not told["unequal at rest"]:
        lines.append("  all equal to the store at rest")
    lines.append(f"{told['seconds']:.0f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
