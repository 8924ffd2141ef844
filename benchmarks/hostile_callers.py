"""Callers with a role who take more than their share: memory, processor, and other callers' calls.

An aggregator is a process of its own, with the configuration that `init` writes. In turn:

    exports   a viewer exports a study of 300 kB so often and reads nothing
    watches   a viewer watches an open study 256 times
    studies   an analyst submits 70 studies

Meanwhile the analyst of the study lists its studies, watches one, and another analyst submits one.
Memory is that of the process and its children. All is on loopback and bounded.

    python benchmarks/hostile_callers.py [--exports 3000] [--json]

With another checkout's packages in PYTHONPATH that one is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst import Aggregator, CallRefused, connect
from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.analyst.keys import load_key
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.learners import find
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import Conclusion, SqliteStore, StudyState
from askance_aggregator.studies.study import Study
from askance_client.addresses import Address
from askance_client.codec import digest_of
from askance_client.errors import PlanRefused
from askance_client.messages import SignedStudy
from askance_client.queries import Category, Schema

SCHEMA = Schema("people", 1, habit=Category(("yes", "no")))
DEVICES = 2_000
LINE, LINES = "x" * 3_000, 100  # of the transcript that is exported
PER_CONNECTION = 15  # calls; an aggregator lets further ones wait
WATCHES, STUDIES = 256, 70
WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
SETTLE_S = 3.0


def public(key: Ed25519PrivateKey) -> str:
    """Return a public key in hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def signed(key: Ed25519PrivateKey) -> SignedStudy:
    """Return a new study of an analyst's."""
    learner = find("frequency").build(SCHEMA, {"column": "habit"})
    return sign_submission(Study(learner, SCHEMA, epsilon="2"), key)


class Case:
    """Served aggregator with an ended study, its analyst, another one and a viewer."""

    def __init__(self, held: ExitStack) -> None:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory())) / "service"
        home = AggregatorHome.create(
            folder, listen=Address("127.0.0.1", 0), hosts=(), now_s=system_now_s()
        )
        self.analyst = load_key(home.analyst_key)
        self.other, self.viewer = (Ed25519PrivateKey.generate() for _ in range(2))
        text = home.configuration.read_text()
        own = f'"{home.analyst.hex()}"'
        text = text.replace(own, f'{own}, other = "{public(self.other)}"').replace(":7444", ":0")
        text += f'\n[[callers.keys]]\nname = "v"\nkey = "{public(self.viewer)}"\nrole = "viewer"\n'
        home.configuration.write_text(text)
        self.study = self._stored(folder / "store.sqlite")
        self._log = folder / "log"
        words = ["aggregator", "serve", "--config", str(home.configuration), "--json"]
        log = held.enter_context(self._log.open("w"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "askance", *words], stdout=subprocess.PIPE, stderr=log, text=True
        )
        held.callback(self._process.wait)
        held.callback(self._process.terminate)
        assert self._process.stdout is not None
        self.address: str = json.loads(self._process.stdout.readline())["listening"]
        self._authority = home.authority
        self._held = held
        self.honest = self.connected(self.analyst)

    def _stored(self, file: Path) -> bytes:
        study = signed(self.analyst)
        digest = digest_of(study.study)
        with closing(SqliteStore.open(file)) as store:
            store.enrol((b"device %d" % n, n.to_bytes(32)) for n in range(DEVICES))
            store.add_study(digest, study)
            for _ in range(LINES):
                store.log(digest).append(LINE)
            store.conclude(digest, Conclusion(StudyState.DONE, "done", "", "{}", 0))
        return digest

    def connected(self, key: Ed25519PrivateKey) -> Aggregator:
        """Return a connection of a caller's."""
        return self._held.enter_context(connect(self.address, key=key, ca=self._authority))

    def channel(self) -> grpc.Channel:
        """Return a connection that nothing is read from unless it is asked for."""
        credentials = grpc.ssl_channel_credentials(self._authority.read_bytes())
        return grpc.secure_channel(self.address, credentials, WINDOW)

    def resident_mb(self) -> float:
        """Return the memory of the process and its children."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(_resident_mb, [str(pid), *children]))

    def processor_s(self) -> float:
        """Return the processor time of the process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def honest_ms(self) -> float:
        """Return the median time of the analyst's own calls."""
        return statistics.median(_timed(self.honest.studies) for _ in range(20))

    def error_lines(self) -> int:
        """Return how many lines of the log are errors."""
        lines = self._log.read_text().splitlines()
        return sum(json.loads(line)["level"] == "error" for line in lines if line.startswith("{"))


def _resident_mb(pid: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1000


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


@contextmanager
def opened(case: Case, call: Call, number: int, subject: bytes) -> Iterator[Counter[str]]:
    """Make a viewer's calls and read nothing; yield how they ended, by their status."""
    metadata = call_metadata(sign_call(call, subject, case.viewer, system_now_s()))
    ended: Counter[str] = Counter()
    with ExitStack() as held:
        calls: list[Any] = []
        for place in range(number):
            if place % PER_CONNECTION == 0:
                channel = held.enter_context(case.channel())
            stream: Any = channel.unary_stream(f"/askance.v1.{call.method}")
            calls.append(stream(b"", metadata=metadata))
        time.sleep(SETTLE_S)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            held_now = sum(one.is_active() for one in calls)
            time.sleep(1)
            if held_now == sum(one.is_active() for one in calls):
                break
        ended.update(one.code().name for one in calls if not one.is_active())
        ended["held"] = sum(one.is_active() for one in calls)
        yield ended
        for one in calls:
            one.cancel()


def outcome(work: Callable[[], Any]) -> str:
    """Return "answered", or the reason of a refusal."""
    try:
        work()
    except CallRefused as error:
        return error.reason
    except PlanRefused:
        return "over-quota"
    return "answered"


def exports(case: Case, number: int) -> dict[str, Any]:
    """Export without reading."""
    before = case.resident_mb()
    with opened(case, Call("Analysts/Export"), number, case.study) as ended:
        found: dict[str, Any] = {
            "MB before": before,
            "MB": case.resident_mb(),
            "honest ms": case.honest_ms(),
        }
        study = case.honest.study(case.study.hex())
        found["own export"] = outcome(study.fetch)
    time.sleep(SETTLE_S)
    return {**found, "MB after": case.resident_mb(), **ended}


def watches(case: Case) -> dict[str, Any]:
    """Watch an open study."""
    own = bytes.fromhex(case.honest.submit_signed(signed(case.analyst)).id)
    with opened(case, Call("Analysts/Watch"), WATCHES, own) as ended:
        began, processor_s = time.monotonic(), case.processor_s()
        time.sleep(SETTLE_S)
        used = (case.processor_s() - processor_s) / (time.monotonic() - began)
        watched = outcome(case.honest.study(own.hex()).status)
        found = {"processor": used, "own watch": watched, "honest ms": case.honest_ms()}
    return {**found, **ended}


def studies(case: Case) -> dict[str, Any]:
    """Submit studies, then one of another analyst's."""
    careless, other = case.connected(case.analyst), case.connected(case.other)
    ended = Counter(
        outcome(lambda: careless.submit_signed(signed(case.analyst))) for _ in range(STUDIES)
    )
    return {**ended, "other's": outcome(lambda: other.submit_signed(signed(case.other)))}


def main() -> None:
    """Print what each attack does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exports", type=int, default=3_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with ExitStack() as held:
        case = Case(held)
        found: dict[str, dict[str, Any]] = {"idle": {"honest ms": case.honest_ms()}}
        found["exports"] = exports(case, arguments.exports)
        found["watches"] = watches(case)
        found["studies"] = studies(case)
        found["log"] = {"error lines": case.error_lines()}
    if arguments.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        shown = (
            f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
            for key, value in figures.items()
        )
        print(f"{name:8}  {', '.join(shown)}")


if __name__ == "__main__":
    main()
