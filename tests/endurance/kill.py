"""kill -9 at random points: nothing is lost, nothing counted or charged twice, the same answer.

Real processes: `askance aggregator serve` on its store, over TLS, and a gateway of 300 devices
with a ledger each; with `--store postgresql` the database's server is a third. In every study one
of them is killed at random moments, again and again, and started anew; then it is let come to its
end. The undisturbed run that it is held against is a simulation of the same signed study, users and
coins.

The study is open at every point that counts: the devices come in twelve groups, one more before
each kill, so that a round is never complete while it is being disturbed and always has reports
under way; a kill that finds the study concluded is not counted. Afterwards the acknowledgements
that devices got, the stored reports, the counted answers, the charges in the ledgers and the
accounts are reconciled, and no report may have been called late: none of them was.

    python tests/endurance/kill.py [--points 200] [--seed 0] [--store sqlite|postgresql] [--json]

It exits 1, and keeps its folder, where something does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from members import ACKNOWLEDGED, GROUPS, coins, enrol, open_ledgers, people, policy
from stores import Stores, copied, stores_of

from askance_aggregator.analyst import CallRefused, StudyEvent, StudyHandle, connect, state_of
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.learners import find, hypothesis_json
from askance_aggregator.store import Store, StoreLocation, StudyState
from askance_aggregator.studies import MemoryLog, Outcome, Session
from askance_aggregator.studies.results import cohort_seed
from askance_aggregator.studies.study import Study
from askance_client.codec import decode_report, digest_of
from askance_client.errors import AskanceError
from askance_client.ledger import LedgerFile
from askance_client.messages import Refusal, SignedStudy
from askance_client.queries import Schema
from askance_simulation.experiments.trials import EPOCH_S
from askance_simulation.fleets import Devices
from askance_simulation.fleets.objects import ObjectFleet
from tests.ports import free_address

USERS, D, EPSILON = 300, 4, "4"
ROUNDS = 2  # of the study, each disturbed for as many kills as there are groups, less one
KILLS = ROUNDS * (GROUPS - 1)  # per study, at most
SPREAD_MS = 1500  # over which a round's reports leave the gateway
LATEST_S = 2.0  # of a kill, after its victim was started
READY_S, END_S = 60.0, 600.0  # at most; both are waited for by condition, on a busy machine too
CONCLUDED = "the study was concluded"
ASKANCE = [sys.executable, "-c", "import sys; from askance.cli import main; main()"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A study that is disturbed: its learner, the learner's parameters, the number of devices."""

    learner: str
    parameters: Mapping[str, str]
    users: int


MASKED_PARITY = Trial("masked-parity", {}, USERS)


class Violated(Exception):
    """Something that must hold does not."""


def check(holds: bool, what: str) -> None:
    """Raise Violated where it does not hold."""
    if not holds:
        raise Violated(what)


@dataclass(slots=True)
class Folders:
    """A folder with an aggregator that knows the devices, to be copied for each study."""

    folder: Path
    stores: Stores
    store: StoreLocation = field(init=False)
    analyst: Ed25519PrivateKey = field(init=False)

    @classmethod
    def make(cls, folder: Path, stores: Stores) -> Folders:
        """By `askance aggregator init`."""
        init = [*ASKANCE, "aggregator", "init", str(folder / "aggregator")]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
        configuration = folder / "aggregator" / "aggregator.toml"  # beside other aggregators
        text = configuration.read_text()
        changes = {
            "127.0.0.1:7444": free_address(),
            "127.0.0.1:7445": free_address(),
            # Members call at the open address, by their tokens, through the outer process.
            "require_certificates = true": "require_certificates = false",
        }
        for before, after in changes.items():
            check(before in text, f"expected {before!r} in {configuration}")
            text = text.replace(before, after)
        configuration.write_text(text)
        return cls.at(folder, stores)

    def copy(self, folder: Path, users: int = USERS) -> Folders:
        """The same, with the devices enrolled, where nothing has been asked yet."""
        shutil.copytree(self.folder, folder)
        made = Folders.at(folder, self.stores)
        with closing(made.store.open()) as store:
            enrol(store, users)
        return made

    @classmethod
    def at(cls, folder: Path, stores: Stores) -> Folders:
        """Open a folder that was made before, with a store of its own."""
        folders = cls(folder, stores)
        folders.store = stores.new(folder / "aggregator")
        key = load_pem_private_key((folder / "aggregator" / "analyst.pem").read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        folders.analyst = key
        return folders

    @property
    def ca(self) -> Path:
        """The authority of its certificate."""
        return self.folder / "aggregator" / "ca.pem"

    @property
    def ledgers(self) -> Path:
        """The devices' ledgers."""
        return self.folder / "ledger.sqlite"


class Victim:
    """A process that is started, killed and started again."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._ready = False

    def start(self) -> None:
        """Start it."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._ready = False

    def say(self, lines: int) -> None:
        """Write empty lines to its standard input."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("\n" * lines)
        self._process.stdin.flush()

    def ready(self) -> None:
        """Waits for its first line."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._ready = self._ready or bool(self._process.stdout.readline())
        check(self._ready, f"expected {self._command[-6:]} to start, found that it ended")

    def check_running(self) -> None:
        """Raise Violated if it has ended by itself."""
        assert self._process is not None
        code = self._process.poll()
        check(
            code is None, f"expected {self._command[-6:]} to run, found that it ended with {code}"
        )

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()

    def stop(self) -> int | None:
        """Ask it to end, wait, and return its exit code."""
        if self._process is None or self._process.poll() is not None:
            return None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(READY_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def study_of(schema: Schema, trial: Trial = MASKED_PARITY) -> Study:
    """The study that is run, with what its planner settles."""
    return Study(find(trial.learner).build(schema, trial.parameters), schema, epsilon=EPSILON)


def signed_study(
    folders: Folders, number: int, seed: int, trial: Trial = MASKED_PARITY
) -> SignedStudy:
    """Study `number`, the same every time."""
    study = study_of(people(trial.users, D, seed).schema, trial)
    return sign_submission(study, folders.analyst, nonce=lambda size: number.to_bytes(size, "big"))


def undisturbed(
    folders: Folders, study: SignedStudy, seed: int, trial: Trial = MASKED_PARITY
) -> Outcome[Any]:
    """The study on device objects in this process, by the leaf key of the aggregator's store."""
    with closing(folders.store.open()) as store:
        leaf_key = store.leaf_key(digest_of(study.study))
    population = people(trial.users, D, seed)
    devices = Devices(population, policy(study.public_key), coins(seed), lambda: EPOCH_S)
    session: Session[Any] = Session(
        study=study,
        learner=study_of(population.schema, trial).learner,
        fleet=ObjectFleet(devices),
        log=MemoryLog(),
        cohort_seed=cohort_seed(digest_of(study.study)),
        leaf_key=leaf_key,
    )
    return session.run()


@contextmanager
def running(folders: Folders, address: str, seed: int) -> Iterator[tuple[Victim, Victim]]:
    """The aggregator and the gateway; asked to end afterwards, in order."""
    configuration = str(folders.folder / "aggregator" / "aggregator.toml")
    serve = ["aggregator", "serve", "--config", configuration, "--listen", address, "--json"]
    serve += ["--store", str(folders.store)]
    analyst = folders.analyst.public_key().public_bytes_raw().hex()
    part = str(Path(__file__).with_name("members.py"))
    given = (folders.folder, address, folders.ca, analyst, USERS, D, seed, SPREAD_MS)
    aggregator = Victim([*ASKANCE, *serve], folders.folder / "aggregator.log")
    gateway = Victim([sys.executable, part, *map(str, given)], folders.folder / "gateway.log")
    try:
        aggregator.start()
        gateway.start()
        aggregator.ready()
        gateway.ready()
        yield aggregator, gateway
    finally:
        gateway.kill()
        code = aggregator.stop()
    check(code == 0, f"expected the aggregator to drain and exit 0, found {code}")


def phase(store: Store) -> str:
    """Return the progress of a study when its aggregator or database was killed."""
    if store.conclusions():
        return CONCLUDED
    for digest in store.studies():
        lines = list(store.log(digest).lines())
        asked = _requests(lines[-1:])
        reports = sum(1 for request in asked for _ in store.reports(request))
        return f"{len(lines)} lines, {'some' if reports else 'no'} reports of the round"
    return "no study yet"


def charges(file: Path) -> str:
    """Count the charges in a gateway's ledgers when it was killed; most were not sent yet."""
    if not file.exists():
        return "no ledgers yet"
    with copied(file) as copy:
        ledgers = LedgerFile.open(copy)
        try:
            return "some charges" if any(ledgers.answers()) else "no charges"
        finally:
            ledgers.close()


def _requests(lines: Sequence[str]) -> Iterator[bytes]:
    """The digests of the requests that a transcript's lines ask."""
    for line in lines:
        for group in json.loads(line).get("groups", ()):
            yield digest_of(bytes.fromhex(group["payload"]))


class Disturbance:
    """The kills of one study, any process at random, a group of devices more before each.

    Args:
      handle: of the study; says whether it is open while its aggregator runs.
    """

    def __init__(
        self,
        folders: Folders,
        victims: tuple[Victim, Victim],
        handle: StudyHandle,
        draw: random.Random,
    ) -> None:
        self.phases: Counter[str] = Counter()
        self._folders, self._handle, self._draw = folders, handle, draw
        self._aggregator, self._gateway = victims

    def disturb(self, kills: int, number: int) -> None:
        """Kill this many times while round `number` is incomplete, then let it come to its end.

        The last group dials only then, so that the round cannot be complete before.
        """
        self._restart_gateway(0)
        for groups in range(1, min(kills, GROUPS - 1) + 1):
            self._gateway.say(1)
            time.sleep(self._draw.uniform(0, LATEST_S))
            found = self._kill_one(groups)
            if found == CONCLUDED:
                return
            self.phases[f"round {number + 1}, {found}"] += 1
        self._aggregator.ready()
        self._gateway.ready()
        self._gateway.say(GROUPS - min(kills, GROUPS - 1))
        until = time.monotonic() + END_S
        while (event := stands(self._handle, self._aggregator)).round <= number:
            check(state_of(event) is StudyState.OPEN, "expected an open study between two rounds")
            check(time.monotonic() < until, f"expected round {number + 1} to end")

    def _kill_one(self, groups: int) -> str:
        stores, place = self._folders.stores, self._draw.random()
        if place < 1 / (2 + stores.servers):
            self._restart_gateway(groups)
            self._aggregator.ready()
            if state_of(stands(self._handle, self._aggregator)) is not StudyState.OPEN:
                return CONCLUDED
            return f"gateway: {charges(self._folders.ledgers)}"
        if place > 1 - stores.servers / 3:
            self._aggregator.ready()
            stores.kill_server()
            return self._found("database")
        self._aggregator.kill()
        found = self._found("aggregator")
        self._aggregator.start()
        return found

    def _found(self, killed: str) -> str:
        with self._folders.stores.looking(self._folders.store) as store:
            found = phase(store)
        return found if found == CONCLUDED else f"{killed}: {found}"

    def _restart_gateway(self, groups: int) -> None:
        self._gateway.kill()
        self._gateway.start()
        self._gateway.say(groups)


def stands(handle: StudyHandle, *running: Victim) -> StudyEvent:
    """Return the study's status; a channel may still wait before it dials a new process."""
    until = time.monotonic() + END_S
    while True:
        try:
            return handle.status()
        except CallRefused:
            for victim in running:
                victim.check_running()
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def killed_study(
    folders: Folders, number: int, kills: int, seed: int, draw: random.Random
) -> tuple[Counter[str], Counter[str]]:
    """Run one study, whose processes are killed `kills` times at most.

    Returns:
      The phases that kills fell into, and the numbers that were reconciled.
    """
    study = signed_study(folders, number, seed)
    address = free_address()
    with ExitStack() as held:
        victims = held.enter_context(running(folders, address, seed))
        analyst = held.enter_context(connect(address, key=folders.analyst, ca=folders.ca))
        handle = analyst.submit_signed(study)
        disturbance = Disturbance(folders, victims, handle, draw)
        for round_ in range(ROUNDS):
            left = kills - disturbance.phases.total()
            disturbance.disturb(min(left, GROUPS - 1), round_)
        victims[0].ready()  # the last kill may have found the study concluded
        stands(handle, victims[0])
        result = handle.result(timeout_s=END_S).to_json()
    reconciled = held_against(folders, study, result, undisturbed(folders, study, seed))
    return disturbance.phases, reconciled


def held_against(
    folders: Folders, study: SignedStudy, result: dict[str, Any], expected: Outcome[Any]
) -> Counter[str]:
    """Check an ended study's invariants and return the numbers that agree."""
    check(result["state"] == "done", f"expected a study that is done, found {result}")
    check(
        result["hypothesis"] == hypothesis_json(expected.hypothesis),
        f"expected the hypothesis of an undisturbed run, found {result['hypothesis']}",
    )
    check(result["transcript"] == expected.transcript, "expected its transcript, found another")
    check(result["reconciled"], "expected accounts that agree with what devices say")
    digest = digest_of(study.study)
    store = folders.store.open()
    ledgers = open_ledgers(folders.ledgers)
    try:
        lines = list(store.log(digest).lines())
        requests = list(_requests(lines))
        check(len(set(requests)) == len(requests), "expected every request under one id")
        spent: Counter[int] = Counter()
        answers = 0
        stored = set()
        for request in requests:
            check(not list(store.evidence(request)), "expected no report in two versions")
            for ordinal, data in store.reports(request):
                report = decode_report(data)
                check(not isinstance(report.outcome, Refusal), "expected no refusal")
                spent[ordinal] += report.charged_nano_nats
                answers += 1
                stored.add((ordinal, request))
        check(answers == result["answers"], "expected every stored report counted once")
        acknowledged = acknowledgements(folders.folder / ACKNOWLEDGED)
        check(acknowledged <= stored, "expected every acknowledged report stored")
        charged: Counter[int] = Counter()
        asked = set()
        charges = 0
        for answer in ledgers.answers():
            if answer.charge.study_digest == digest:
                charged[int(answer.member)] += answer.charge.nano_nats
                asked.add(answer.charge.request_digest)
                charges += 1
        check(asked == set(requests), "expected ledgers of the requests that were asked")
        check(charged == spent, "expected every ledger equal to its account, to the nano-nat")
        check(charges == answers, "expected one charge per report")
        check(
            max(spent.values()) == result["epsilon"]["max_spent_nano_nats"]
            and sum(spent.values()) == result["epsilon"]["total_spent_nano_nats"],
            "expected the result to say what was spent",
        )
        return Counter(
            acknowledged=len(acknowledged), stored=len(stored), counted=answers, charges=charges
        )
    finally:
        ledgers.close()
        store.close()


def acknowledgements(file: Path) -> set[tuple[int, bytes]]:
    """The reports that were acknowledged, by member and request; each of them was in time."""
    found = set()
    for line in file.read_text().splitlines():
        member, request, status = line.split()
        check(
            status in ("ACCEPTED", "DUPLICATE"), f"expected no report refused, found one {status}"
        )
        found.add((int(member), bytes.fromhex(request)))
    return found


def endure(points: int, seed: int, folder: Path, stores: Stores, told: bool) -> dict[str, Any]:
    """Run studies in turn until enough kills, each with a store and ledgers of its own."""
    draw = random.Random(seed)
    began = time.perf_counter()
    phases: Counter[str] = Counter()
    reconciled: Counter[str] = Counter()
    studies = 0
    fresh = Folders.make(folder / "fresh", stores)
    while phases.total() < points:
        kills = min(KILLS, points - phases.total())
        folders = fresh.copy(folder / str(studies))
        found, numbers = killed_study(folders, studies, kills, seed, draw)
        phases, reconciled = phases + found, reconciled + numbers
        shutil.rmtree(folders.folder)
        studies += 1
        if told:
            print(f"{phases.total()} of {points} points, {studies} studies", file=sys.stderr)
    return {
        "points": phases.total(),
        "studies": studies,
        "devices": USERS,
        "phases": dict(sorted(phases.items())),
        "reconciled": dict(reconciled),
        "seconds": time.perf_counter() - began,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=200, metavar="N", help="kills; default 200")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="askance-kill-"))
    try:
        with stores_of(arguments.store) as stores:
            told = endure(arguments.points, arguments.seed, folder, stores, not arguments.json)
    except (Violated, AskanceError) as error:
        print(f"violated: {error} (see {folder})", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    if arguments.json:
        print(json.dumps(told))
        return 0
    print(f"{told['points']} kills in {told['studies']} studies of {told['devices']} devices:")
    for name, count in told["phases"].items():
        print(f"  {count:4d}  {name}")
    numbers = ", ".join(f"{count:,} {name}" for name, count in told["reconciled"].items())
    print(f"reconciled: {numbers}; none refused")
    print(f"all held, {told['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
