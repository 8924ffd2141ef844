"""Two studies over devices of four kinds: pages, Node, a Python gateway and single Python devices.

Real processes: an aggregator with [connect], the page of `examples/web` in contexts of one Chromium
(a context per person, who enters a record and a token, and approves each study by its buttons),
folders of Node devices in a few processes, a Python gateway by gRPC, and single Python devices. An
analyst asks the frequency of a label, then MASKED-PARITY in two rounds. It holds that every device
answers each question that it is asked once, that both results are reconciled, and that the sum of
all ledgers is what the aggregator's accounts say; the hidden mask is found with probability 0.95.

    python tests/endurance/many_kinds.py [--pages 50] [--node 200] [--processes 4] [--members 200]
        [--singles 10] [--quick] [--seed 0] [--same] [--plant NAME]

`--quick` takes a quarter of each. It needs chromium, node and `npm ci` in devices/typescript, and
exits 1 where something does not hold.

With `--same` all devices are test builds whose coins are a stream seeded by (seed, device), and a
third study, a mean, has coins that round. The same signed studies are then asked of Python devices
with the same ids, ordinals, records and coins, by an aggregator with the same leaf keys. All bytes
of the transcripts are compared, and all bytes of every report in the two stores, charges and
sequence numbers included. Not compared is what proves a device and is no part of an answer: tokens
and certificates, which each device draws for itself; no transcript or report has a time.
`--plant coin`, `rounding` or `order` changes the TypeScript devices (see `seeded_tree.PLANTS`).
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("", "protos", "client", "aggregator", "simulation")
]

from google.protobuf import json_format  # noqa: E402  # the path is set above

from askance_aggregator.analyst import StudyDefinition, connect  # noqa: E402
from askance_aggregator.analyst.client import Aggregator  # noqa: E402
from askance_aggregator.analyst.keys import load_key  # noqa: E402
from askance_aggregator.analyst.submission import sign_submission  # noqa: E402
from askance_aggregator.encoding import encode_schema  # noqa: E402
from askance_aggregator.learners import find  # noqa: E402
from askance_aggregator.names import named_schema_from_toml  # noqa: E402
from askance_aggregator.server.process.home import STORE  # noqa: E402
from askance_aggregator.store import SqliteStore  # noqa: E402
from askance_aggregator.store.register import DeviceEntry  # noqa: E402
from askance_aggregator.studies.study import Study  # noqa: E402
from askance_client.accounting import parse_epsilon  # noqa: E402
from askance_client.codec import digest_of  # noqa: E402
from askance_client.messages import SignedStudy  # noqa: E402
from askance_client.queries import Schema  # noqa: E402
from askance_client.service import Secret  # noqa: E402
from tests.devices.chromium import UNTHROTTLED, Chromium, Tab, TabEnded  # noqa: E402
from tests.devices.same_transcripts import (  # noqa: E402
    KeptStudy,
    Person,
    Reference,
    differences,
    kept_study,
    summary,
)
from tests.devices.scripted import PACKAGE, missing  # noqa: E402
from tests.devices.seeded_coins import SeededCoins  # noqa: E402
from tests.devices.seeded_tree import PLANTS, SeededTree, seeded_tree  # noqa: E402
from tests.devices.web_site import EXAMPLE, Site, web_site  # noqa: E402

BITS = 4
SCHEMA = f"""
name = "masked-parity"
version = 1
[fields]
x = {{ type = "bits", width = {BITS} }}
i = {{ type = "integer", low = 0, high = {BITS - 1} }}
b = {{ type = "bit" }}
y = {{ type = "label", labels = ["1", "-1"] }}
"""
LIFE, FREQUENCY, PARITY, MEAN = "12", "2", "8", "2"  # nats
RELEASE_MS = 4_000  # of Node and of pages: many share two processors here
SAME_RELEASE_MS = 20_000
LEAST_WAIT_MS = 2_000
PATIENCE_S = 900
NODE = ("node", str(PACKAGE / "dist" / "src" / "node" / "command.js"))
PYTHON = (sys.executable, "-m", "askance_client")
SEEDED_PYTHON = ROOT / "tests" / "devices" / "seeded_device.py"
_PERSON = """
(({record, token}) => {
  for (const [name, value] of Object.entries(record)) {
    document.getElementById(`field-${name}`).value = value;
  }
  document.getElementById("token").value = token;
  document.querySelector("button.primary").click();
  setInterval(() => {
    const here = document.querySelector(".facts .state");
    if (location.hash.startsWith("#/study/")) {
      const approve = document.querySelector(".decide button.primary");
      if (here?.classList.contains("warn")) approve?.click();
      else if (here) location.hash = "#/";
      return;
    }
    document.querySelector(".panel:has(.state.warn) a")?.click();
  }, 500);
})"""


class Violation(AssertionError):
    """Something does not hold."""


@dataclass(frozen=True)
class Scale:
    """Numbers of devices."""

    pages: int
    node: int
    processes: int
    members: int
    singles: int

    @property
    def users(self) -> int:
        """All devices."""
        return self.pages + self.node + self.members + self.singles


@dataclass(frozen=True)
class SeededBuild:
    """Devices with seeded coins.

    Args:
      seed: of the coins, and of the folders' secrets.
      tree: source of the devices in TypeScript.
      release_ms: grid of all devices; an answer that is late is another one.
      least_wait_ms: between check-ins of Node and of pages.
    """

    seed: int
    tree: SeededTree
    release_ms: int = SAME_RELEASE_MS
    least_wait_ms: int = LEAST_WAIT_MS

    @classmethod
    def of(cls, folder: Path, seed: int, plants: Sequence[str] = (), **times: int) -> SeededBuild:
        """Make the devices from the tree, with some plants."""
        tree = seeded_tree(folder, seed, plants)
        tree.build_command()
        return cls(seed, tree, **times)

    @property
    def node(self) -> tuple[str, ...]:
        """The command of Node."""
        return ("node", str(self.tree.command))

    @property
    def python(self) -> tuple[str, ...]:
        """The command of Python."""
        return (sys.executable, str(SEEDED_PYTHON), str(self.seed))


def times_of(build: SeededBuild | None) -> dict[str, int]:
    """Return the times of devices in TypeScript."""
    if build is None:
        return {"release_ms": RELEASE_MS, "least_wait_ms": LEAST_WAIT_MS}
    return {"release_ms": build.release_ms, "least_wait_ms": build.least_wait_ms}


class Deployment:
    """Devices of all kinds before one aggregator; `build` is None for those that are shipped."""

    def __init__(
        self,
        folder: Path,
        site: Site,
        schema: Schema,
        rows: list[dict[str, Any]],
        build: SeededBuild | None = None,
    ) -> None:
        self.folder, self.site, self._rows, self._build = folder, site, rows, build
        self._node_command = NODE if build is None else build.node
        self._python_command = PYTHON if build is None else build.python
        self.people: list[Person] = []  # of a test build
        self.tabs: list[Tab] = []
        self.node: list[Path] = []
        self.python: list[Path] = []
        self._schema = folder / "schema.json"
        self._schema.write_text(json_format.MessageToJson(encode_schema(schema)))
        (folder / "schema.toml").write_text(SCHEMA)

    def take(self, count: int) -> list[dict[str, Any]]:
        """Take the next records."""
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken

    def add_node(self, count: int) -> None:
        """Make a folder of Node devices, and enrol them."""
        home = self.folder / f"node-{len(self.node)}"
        records, settings = home.with_suffix(".records.json"), home.with_suffix(".settings.json")
        rows = self.take(count)
        records.write_text(json.dumps(rows))
        settings.write_text(
            json.dumps(
                {
                    "aggregator": f"https://{self.site.served.address}",
                    "ca": str(self.site.home.authority),
                    "analysts": [self.site.home.analyst.hex()],
                    "life_epsilon": LIFE,
                    "schema": str(self._schema),
                    "records": str(records),
                    "key": "id",
                    **times_of(self._build),
                }
            )
        )
        ran(*self._node_command, "init", "--home", home, "--configuration", settings)
        self._fix(home, "Node", rows)
        ran(*self._node_command, "enroll", "--home", home, "--token", self._token(home, count))
        self.node.append(home)

    def add_python(self, count: int, *which: str) -> None:
        """Make the folder of a gateway or of a single device, and enrol it."""
        home = self.folder / f"python-{len(self.python)}"
        data = home.with_suffix(".csv")
        rows = self.take(count)
        with data.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        site = self.site
        ran(
            *(*self._python_command, "init", str(home), "--aggregator", site.served.address),
            *("--ca", site.home.authority, "--analyst", site.home.analyst.hex()),
            *("--schema", self.folder / "schema.toml", "--data", data),
            *("--life-epsilon", LIFE, *which),
        )
        alone = "--row" in which
        self._fix(home, "single Python" if alone else "member", rows, alone=alone)
        ran(*self._python_command, "enroll", home, "--token-file", self._token(home, count))
        self.python.append(home)

    def _fix(
        self, home: Path, kind: str, rows: Sequence[dict[str, Any]], *, alone: bool = False
    ) -> None:
        """Give a folder of a test build a seeded secret and the grid; note the ids of its rows."""
        build = self._build
        if build is None:
            return
        value = sha256(f"{build.seed} {home.name}".encode()).digest()
        (home / "identity.json").write_text(json.dumps({"secret": value.hex()}))
        secret = Secret(value)
        for row in rows:
            identity = secret.device() if alone else secret.member(row["id"])
            self.people.append(Person(kind, identity.device_id, fields_of(row)))
        configuration = home / "device.toml"
        if configuration.exists():
            text, usual = configuration.read_text(), "release_ms = 1000"
            if usual not in text:
                raise Violation(f"{configuration}: expected {usual}")
            configuration.write_text(text.replace(usual, f"release_ms = {build.release_ms}"))

    def add_pages(self, browser: Chromium, count: int) -> None:
        """Open pages, each in a context of its own, and let their people take part."""
        for row in self.take(count):
            context = browser.call("Target.createBrowserContext", {})["browserContextId"]
            target = browser.call(
                "Target.createTarget", {"url": self.site.page, "browserContextId": context}
            )["targetId"]
            session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})[
                "sessionId"
            ]
            tab = Tab(browser, target, session)
            until(partial(is_loaded, tab))
            record = {name: str(value) for name, value in fields_of(row).items()}
            given = json.dumps({"record": record, "token": self.site.token()})
            tab.run(f"{_PERSON}({given})")
            self.tabs.append(tab)
            if self._build is not None:
                device_id = bytes.fromhex(tab.run("seededDevice"))
                self.people.append(Person("page", device_id, fields_of(row)))
        for tab in self.tabs:
            until(partial(shows, tab, "Whole life"))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the devices of Node and of Python answer, for a block."""
        with ExitStack() as held:
            started = [(*self._node_command, "run", "--home", str(home)) for home in self.node]
            started += [(*self._python_command, "run", str(home)) for home in self.python]
            log = held.enter_context((self.folder / "devices.log").open("w"))
            running = [subprocess.Popen(one, stdout=log, stderr=log) for one in started]
            try:
                yield
            finally:
                for process in running:
                    process.terminate()
                for process in running:
                    process.wait(30)

    def spent_by_pages(self) -> int:
        """Return the nano-nats that the pages say were spent."""
        for tab in self.tabs:
            for place, text in (("policy", "At most per study"), ("", "Whole life")):  # drawn anew
                tab.run(f"location.hash = '#/{place}'")
                until(partial(shows, tab, text))
        texts = [shown(tab).split("Whole life")[1] for tab in self.tabs]
        return sum(nano(text.split(" of ")[0]) for text in texts)

    def spent_by_others(self) -> dict[str, int]:
        """Return the nano-nats that the ledgers of Node and of Python say were spent."""
        status = (*self._node_command, "status", "--home")
        node = [ran(*status, home).split("spent: ")[1] for home in self.node]
        rows = [ran(*PYTHON, "history", home, "--json") for home in self.python]
        return {
            "node": sum(nano(text.split(" nats")[0]) for text in node),
            "python": sum(row["nano_nats"] for text in rows for row in entries(text)),
        }

    def _token(self, home: Path, devices: int) -> Path:
        file = home.with_suffix(".token")
        file.write_text(self.site.token(devices))
        return file


def fields_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record without its name."""
    return {name: value for name, value in row.items() if name != "id"}


def entries(text: str) -> list[dict[str, Any]]:
    """Read what `history --json` prints."""
    found: list[dict[str, Any]] = json.loads(text)["entries"]
    return found


def nano(text: str) -> int:
    """Read nats as they are shown; nothing spent is 0."""
    return 0 if text.strip() == "0" else parse_epsilon(text.strip())


def ran(*words: str | Path) -> str:
    """Run a command to its end and return what it prints."""
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise Violation(f"{words[:4]}: {done.stdout}{done.stderr}")
    return done.stdout


def is_loaded(tab: Tab) -> bool:
    """Return whether a page shows its form; before it is loaded there is none to ask."""
    with suppress(TabEnded):
        return bool(tab.run("document.getElementById('token') !== null"))
    return False


def shows(tab: Tab, text: str) -> bool:
    """Return whether a page shows a text."""
    return text in shown(tab)


def shown(tab: Tab) -> str:
    """Return the text of a page."""
    return str(tab.run("document.body.innerText"))


def until(met: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        if time.monotonic() > deadline:
            raise Violation("something took too long")
        time.sleep(0.2)


def people(count: int, seed: int) -> tuple[list[dict[str, Any]], list[int], int]:
    """Return records of MASKED-PARITY, and the hidden mask and bit."""
    draw = random.Random(seed)
    r, a = [draw.randint(0, 1) for _ in range(BITS)], draw.randint(0, 1)
    rows = []
    for person in range(count):
        x, i, b = [draw.randint(0, 1) for _ in r], draw.randrange(BITS), draw.randint(0, 1)
        minus = r[i] if b else (sum(one * bit for one, bit in zip(r, x, strict=True)) + a) % 2
        bits, y = "".join(map(str, x)), "-1" if minus else "1"
        rows.append({"id": f"m{person}", "x": bits, "i": str(i), "b": str(b), "y": y})
    return rows, r, a


def asked(aggregator: Aggregator, signed: SignedStudy, name: str, users: int) -> dict[str, Any]:
    """Submit a study, wait for its result, and check what every study must keep."""
    began = time.monotonic()
    handle = aggregator.submit_signed(signed)
    result = handle.result(timeout_s=PATIENCE_S)
    found: dict[str, Any] = dict(result.content)
    seconds = round(time.monotonic() - began)
    print(
        f"{name}: {result.state.name} in {seconds} s: {found['answers']} answers of"
        f" {found['users']} users in {found['rounds']} rounds, refusals {found['refusals']},"
        f" hypothesis {json.dumps(found['hypothesis'])[:160]}",
        flush=True,
    )
    if found["users"] != users or not found["reconciled"] or found["overspent"]:
        raise Violation(f"{name}: users, reconciled or overspent: {found}")
    if found["refusals"]:
        raise Violation(f"{name}: refusals {found['refusals']}")
    return found


def studies_of(schema: Schema, *, same: bool) -> dict[str, Study]:
    """Return the studies, by name, in the order in which they are asked."""

    def study(learner: str, epsilon: str, **parameters: Any) -> Study:
        return Study(find(learner).build(schema, parameters), schema, epsilon=epsilon)

    found = {
        "frequency": study("frequency", FREQUENCY, column="y"),
        "masked-parity": study("masked-parity", PARITY),
    }
    return {**found, "mean": study("mean", MEAN, column="i")} if same else found


def enrolled(scale: Scale, deployment: Deployment, browser: Callable[[], Chromium]) -> Deployment:
    """Make and enrol all devices."""
    for number in range(scale.processes):
        share = scale.node * (number + 1) // scale.processes
        deployment.add_node(share - scale.node * number // scale.processes)
    deployment.add_python(scale.members, "--key", "id")
    for _ in range(scale.singles):
        deployment.add_python(1, "--row", "0")
    deployment.add_pages(browser(), scale.pages)
    print(f"enrolled: {scale}", flush=True)
    return deployment


@dataclass
class Campaign:
    """Devices of all kinds that are asked some studies."""

    scale: Scale
    seed: int
    folder: Path
    build: SeededBuild | None = None

    def run(self, studies: Callable[[Schema], dict[str, Study]]) -> list[KeptStudy]:
        """Ask the studies; return them as the aggregator has kept them, if this is a test build."""
        rows, r, a = people(self.scale.users, self.seed)
        (self.folder / "schema.toml").write_text(SCHEMA)
        self.schema = named_schema_from_toml(self.folder / "schema.toml")
        settings = {"life_epsilon": LIFE, **times_of(self.build)}
        source = EXAMPLE if self.build is None else self.build.tree.page
        flags = (*UNTHROTTLED, "--ignore-certificate-errors")
        found: dict[str, dict[str, Any]] = {}
        signed: dict[str, SignedStudy] = {}
        with ExitStack() as held:
            site = held.enter_context(
                web_site(self.folder, self.schema, "127.0.0.1", source, **settings)
            )

            def browser() -> Chromium:
                started = Chromium(self.folder / "profile", flags)
                held.callback(started.close)
                return started

            self.deployment = Deployment(self.folder, site, self.schema, rows, self.build)
            enrolled(self.scale, self.deployment, browser)
            running = held.enter_context(ExitStack())
            running.enter_context(self.deployment.running())
            home = site.home
            self.analyst = home.analyst
            key = load_key(str(home.analyst_key))
            aggregator = held.enter_context(
                connect(site.served.address, key=key, ca=str(home.authority))
            )
            for name, study in studies(self.schema).items():
                planned = aggregator.plan(StudyDefinition(study, days=7))["users_needed"]
                print(f"{name}: planned {planned:,} users", flush=True)
                signed[name] = sign_submission(study, key)
                found[name] = asked(aggregator, signed[name], name, self.scale.users)
            if "masked-parity" in found:
                target = {"r": "".join(map(str, r)), "a": a}
                agrees = found["masked-parity"]["hypothesis"] == target
                chance = "found" if agrees else "not found (chance 0.05)"
                print(f"the hidden mask and bit were {chance}")
            accounts = sum(one["epsilon"]["total_spent_nano_nats"] for one in found.values())
            spent = {"pages": self.deployment.spent_by_pages()}
            running.close()
            spent |= self.deployment.spent_by_others()
        print(f"spent by ledgers: {spent}, by accounts: {accounts}", flush=True)
        if sum(spent.values()) != accounts:
            raise Violation("the ledgers and the accounts differ")
        if self.build is None:
            return []
        with closing(SqliteStore.open(home.folder / STORE)) as store:
            self._order(store)
            return [kept_study(store, name, digest_of(one.study)) for name, one in signed.items()]

    def reference(self, build: SeededBuild) -> Reference:
        """Return the Python devices of a campaign that was run."""
        seed = build.seed
        people, life = self.deployment.people, parse_epsilon(LIFE)
        return Reference(self.schema, people, lambda own: SeededCoins(seed, own), life)

    def _order(self, store: SqliteStore) -> None:
        """Bring the deployment's people into the order of their devices' ordinals."""
        people = self.deployment.people
        places = {one.device_id: one.ordinal for one in every_device(store)}
        if len(places) != len(people) or sorted(places.values()) != list(range(len(people))):
            raise Violation(f"expected {len(people)} devices in a row, got {len(places)}")
        people.sort(key=lambda person: places[person.device_id])


def every_device(store: SqliteStore) -> Iterator[DeviceEntry]:
    """Read the register, a page at a time."""
    after = -1
    while page := store.register.devices(after=after):
        yield from page
        after = page[-1].ordinal


def compare(campaign: Campaign, build: SeededBuild, mixed: list[KeptStudy]) -> list[str]:
    """Ask as many Python devices, print what was compared, and return the differences."""
    reference = campaign.reference(build)
    python = reference.ask(mixed)
    found = differences(mixed, python, reference)
    for study in mixed:
        print(f"compared, {summary(study, reference.people)}")
    for line in found:
        print(f"DIFFERS: {line}")
    print(
        f"{len(reference.people)} devices of four kinds and as many Python devices:"
        f" {'the same bytes' if not found else f'{len(found)} differences'}",
        flush=True,
    )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, usual in (
        ("pages", 50),
        ("node", 200),
        ("processes", 4),
        ("members", 200),
        ("singles", 10),
    ):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a quarter of each")
    parser.add_argument("--same", action="store_true", help="compare with Python devices")
    parser.add_argument("--plant", action="append", default=[], choices=PLANTS)
    given = parser.parse_args(argv)
    part = 4 if given.quick else 1
    scale = Scale(
        *(given.pages // part, given.node // part, min(given.processes, given.node // part)),
        *(given.members // part, max(1, given.singles // part)),
    )
    if (cannot := missing()) is not None:
        print(cannot)
        return 1
    subprocess.run(["npm", "run", "--silent", "build"], cwd=PACKAGE, check=True)
    with tempfile.TemporaryDirectory(prefix="many-kinds-") as name:
        folder = Path(name)
        build = SeededBuild.of(folder / "tree", given.seed, given.plant) if given.same else None
        try:
            campaign = Campaign(scale, given.seed, folder, build)
            mixed = campaign.run(partial(studies_of, same=given.same))
            if build is not None and compare(campaign, build, mixed):
                return 1
        except Violation as error:
            print(f"VIOLATED: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
