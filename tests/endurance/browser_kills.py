"""Tabs and browsers killed between charge, commit and send: nothing is lost or sent twice.

A page with the device in TypeScript, in Chromium, with its ledger in IndexedDB, checks in with a
scripted aggregator that asks one new question after another, asks answered ones again, and loses
replies. Tabs are killed (by a crash of their process, or closed) and browsers (SIGKILL of all their
processes) where the page stands before a charge, after its commit, before and after a report is
sent, or some milliseconds after one of these. After every kill the page is opened anew, and its
ledger, whose chain it checks, is held against all reports that ever came. Then two tabs at once, a
storage that is cleared, a clock that is set back, and a database of which parts are missing.

    python tests/endurance/browser_kills.py [--tabs 70] [--browsers 30] [--seed 0] [--quick]

It needs chromium, node and `npm ci` in devices/typescript. It exits 1 where something does not
hold.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from queue import Empty
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("", "protos", "client", "aggregator", "simulation")
]

from askance_aggregator.exchange import decode_check_in  # noqa: E402  # the path is set above
from askance_aggregator.families import randomized_response  # noqa: E402
from askance_client.codec import decode_report, digest_of  # noqa: E402
from askance_client.messages import AckStatus, Reason, Refusal  # noqa: E402
from askance_client.service import Response  # noqa: E402
from askance_protos.v1 import study_pb2  # noqa: E402
from tests.aggregator.server.devices.conftest import KEY, NOW_S, World  # noqa: E402
from tests.devices.chromium import Chromium, Tab  # noqa: E402
from tests.devices.scripted import PACKAGE, Answer, Script, missing, served  # noqa: E402

STEPS = ("charge", "commit", "send", "sent")
RELEASE_MS = 40
STEP_S = 60.0  # at most, until a step is reached, on a busy machine too
LEAST = 1_000_000  # nano-nats of a question
PAGE = b"<!doctype html><title>device</title><script type=module src=/page.js></script>"


class Violation(AssertionError):
    """Something does not hold."""


class Asker(Script):
    """An aggregator that asks and asks."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__()
        self.world, self._chance = world, chance
        self.asked: list[bytes] = []
        self.received: dict[bytes, set[bytes]] = {}
        self.acknowledged: set[bytes] = set()
        self.sequence = 0
        self.left = math.inf  # new questions that it still asks
        self.loses = True  # replies

    def next(self, data: bytes) -> Answer:
        """Keep the reports, maybe lose the reply, and ask."""
        message = decode_check_in(data)
        with self._lock:
            for report in message.reports:
                digest = decode_report(report).request_digest
                self.received.setdefault(digest, set()).add(report)
            if self.loses and message.reports and self._chance.random() < 0.3:
                return (503, "unavailable")
            digests = [decode_report(report).request_digest for report in message.reports]
            self.acknowledged.update(digests)
            numbers = [decode_report(report).sequence for report in message.reports]
            self.sequence = max(self.sequence, *numbers, 0)
            return Response(
                acks=tuple((digest, AckStatus.ACCEPTED) for digest in digests),
                studies=(self.world.study,),
                requests=tuple(self._questions()),
                acknowledged_sequence=self.sequence,
            )

    def _questions(self) -> Sequence[bytes]:
        owed = [one for one in self.asked if digest_of(one) not in self.acknowledged]
        while self.left and len(owed) < 3:
            self.left -= 1
            owed.append(self._new())
        again = [one for one in self.asked if one not in owed]
        return owed[:8] + ([self._chance.choice(again)] if self.loses and again else [])

    def _new(self) -> bytes:
        """A question of its own: its randomizer is no other's."""
        randomizer = randomized_response(LEAST + 1_000 * (1 + len(self.asked)))
        payload = self.world.group([0], 1, randomizer=randomizer, number=len(self.asked)).payload
        self.asked.append(payload)
        return payload


class Campaign:
    """Device in a profile of its own, through all kills."""

    def __init__(self, folder: Path, asker: Asker, chance: random.Random) -> None:
        self.folder, self._profile = folder, folder / "profile"
        self.asker, self._chance = asker, chance
        self.browser = Chromium(self._profile)
        self.kills: Counter[str] = Counter()
        self.unsent = self.waits = 0
        study = study_pb2.Study.FromString(asker.world.study.study)
        self.config = {
            "name": "device",
            "schema": study.schema.SerializeToString().hex(),
            "analysts": [KEY.public_key().public_bytes_raw().hex()],
            "life": str(10**14),
            "record": {"smoker": 1, "colour": "green"},
            "release_ms": RELEASE_MS,
        }

    def page(self) -> Tab:
        """Open the page alone."""
        tab = self.browser.open(self.asker.url)
        tab.command("clock", NOW_S)
        return tab

    def open(self, name: str = "device") -> Tab:
        """Open the page and its ledger; the tab before it may still hold the lock for a moment."""
        tab = self.page()
        until = time.monotonic() + STEP_S
        while True:
            opened = tab.command("open", {**self.config, "name": name})
            if "refused" not in opened:
                return tab
            if opened["refused"] != "LedgerHeld" or time.monotonic() > until:
                raise Violation(f"the ledger was not opened: {opened}")
            self.waits += 1
            time.sleep(0.02)

    def check(self, tab: Tab) -> dict[bytes, bytes]:
        """Hold the ledger, as a new page reads it, against all reports that ever came."""
        rows = {bytes.fromhex(row[0]): bytes.fromhex(row[1]) for row in tab.command("rows")}
        numbers = [row[3] for row in tab.command("rows")]
        if numbers != list(range(1, len(numbers) + 1)):
            raise Violation(f"numbers of the ledger: {numbers}")
        for digest, reports in self.asker.received.items():
            if len(reports) != 1:
                raise Violation(f"{digest.hex()} was answered {len(reports)} times")
            if rows.get(digest) != next(iter(reports)):
                raise Violation(f"{digest.hex()} was sent and is not in the ledger")
        self.unsent += len(rows.keys() - self.asker.received.keys())
        return rows

    def kill(self, number: int, *, whole: bool) -> None:
        """Open the page, check its ledger, let it run to some step, and kill it there."""
        tab = self.open()
        self.check(tab)
        step = STEPS[number % len(STEPS)]
        stops = self._chance.random() < 0.6
        tab.command("run", step if stops else "")
        told = ""
        until = time.monotonic() + STEP_S
        while told != step:
            try:
                told = tab.told.get(timeout=max(0.01, until - time.monotonic()))
            except Empty:
                failures = tab.command("failures")
                raise Violation(f"{step} was not reached: {failures[-3:]}") from None
        if not stops:
            time.sleep(self._chance.uniform(0, 0.03))
        if whole:
            self.browser.kill()
            self.browser = Chromium(self._profile)
        elif self._chance.random() < 0.5:
            tab.crash()
            tab.close()
        else:
            tab.close()
        self.kills[f"{'browser' if whole else 'tab'}, {step}"] += 1

    def finish(self) -> None:
        """Let everything be answered: each question is charged once, and sent as it was charged."""
        self.asker.left, self.asker.loses = 0, False
        tab = self.open()
        self.check(tab)
        until = time.monotonic() + STEP_S
        while any(digest_of(one) not in self.asker.acknowledged for one in self.asker.asked):
            if failure := tab.command("once"):
                raise Violation(failure)
            if time.monotonic() > until:
                raise Violation("some questions are not answered")
        rows = self.check(tab)
        if rows.keys() != {digest_of(one) for one in self.asker.asked}:
            raise Violation("expected one charge per question")
        tab.command("close")
        tab.close()


def two_tabs(campaign: Campaign) -> None:
    """A second tab is refused while the first one is open, and let in when it is closed."""
    first, second = campaign.open(), campaign.page()
    refused = second.command("open", campaign.config)
    if refused.get("refused") != "LedgerHeld":
        raise Violation(f"a second tab was let in: {refused}")
    writes = second.run(
        "navigator.locks.query().then(({held}) => held.map(({name}) => name).join())"
    )
    if writes != "askance-device":
        raise Violation(f"locks: {writes}")
    first.command("close")
    opened = second.command("open", campaign.config)
    if "refused" in opened:
        raise Violation(f"the second tab was refused after the first: {opened}")
    # A lock that is stolen ends the ledger of the tab that had it.
    thief = campaign.page()
    thief.run("void navigator.locks.request('askance-device', {steal: true}, async () => {})")
    time.sleep(0.1)
    campaign.asker.left = 3
    failure = second.command("once")
    if "taken the ledger" not in failure:
        raise Violation(f"expected a ledger that was taken, got {failure!r}")
    for tab in (first, second, thief):
        tab.close()


def clock_set_back(campaign: Campaign) -> None:
    """A new question after the clock was set back is refused, and nothing is charged."""
    tab = campaign.open()
    before = len(tab.command("rows"))
    campaign.asker.left = 3
    tab.command("clock", NOW_S - 3_600)
    if failure := tab.command("once"):
        raise Violation(failure)
    owed = digest_of(campaign.asker.asked[-1])
    reports = [decode_report(report).outcome for report in campaign.asker.received[owed]]
    if [one.reason for one in reports if isinstance(one, Refusal)] != [Reason.CLOCK_MOVED_BACK]:
        raise Violation(f"expected a refusal for the clock, got {reports}")
    if len(tab.command("rows")) != before:
        raise Violation("something was charged by a clock that was set back")
    tab.command("close")
    tab.close()


DAMAGES = {
    "the last row": "postings.delete({last})",
    "the first row": "postings.delete(1)",
    "all rows": "postings.clear()",
    "the secret": "facts.delete('secret')",
    "the id": "facts.delete('id')",
    "all facts": "facts.clear()",
    "the end": "facts.delete('last')",
}
_CHANGE = """new Promise((resolve, reject) => {{
  const opening = indexedDB.open('askance-{name}');
  opening.onsuccess = () => {{
    const database = opening.result;
    const change = database.transaction(['facts', 'postings'], 'readwrite');
    const [facts, postings] = ['facts', 'postings'].map((name) => change.objectStore(name));
    {damage};
    change.oncomplete = () => {{ database.close(); resolve(); }};
    change.onerror = reject;
  }};
}})"""


def missing_parts(campaign: Campaign) -> None:
    """A database that lacks a part is refused, each part by itself."""
    tab = campaign.page()
    for number, damage in enumerate(DAMAGES.values()):
        name = f"damaged-{number}"
        campaign.asker.left, campaign.asker.sequence, kept = 3, 0, campaign.asker.sequence
        opened = tab.command("open", {**campaign.config, "name": name})
        if "refused" in opened:
            raise Violation(f"the ledger was not opened: {opened}")
        if failure := tab.command("once"):
            raise Violation(failure)
        campaign.asker.sequence = kept
        last = len(tab.command("rows"))
        tab.command("close")
        if last < 2:
            raise Violation(f"expected two rows or more, got {last}")
        tab.run(_CHANGE.format(name=name, damage=damage.format(last=last)))
        refused = tab.command("open", {**campaign.config, "name": name})
        if refused.get("refused") != "LedgerDamaged":
            raise Violation(f"{damage}: expected a refusal, got {refused}")
    tab.close()


def cleared(campaign: Campaign) -> None:
    """A storage that is cleared, under an open page or a closed one, is a new device."""
    tab = campaign.open()
    old = tab.run("device.rows().length")
    origin = {"origin": campaign.asker.url, "storageTypes": "all"}
    campaign.browser.call("Storage.clearDataForOrigin", origin, tab.session)
    campaign.asker.left = 3
    failure = tab.command("once")
    if "database" not in failure:
        raise Violation(f"a page whose storage was cleared went on: {failure!r}")
    tab.close()
    tab = campaign.page()
    opened = tab.command("open", campaign.config)
    if opened.get("new") is not True or tab.command("rows") or not old:
        raise Violation(f"expected a new device, got {opened}")
    if opened["id"] in json.dumps(campaign.config):
        raise Violation("a new device has an old identity")
    failure = tab.command("once")  # the aggregator has met the device before under another id
    if not failure.startswith("LedgerOlder"):
        raise Violation(f"expected the echo to find an older ledger, got {failure!r}")
    tab.close()


def hidden(campaign: Campaign, wait_s: int) -> str:
    """A tab behind another, whose timers the browser slows down, answers all the same."""
    campaign.browser.close()
    campaign.browser = Chromium(campaign.folder / "hidden", ())
    campaign.asker.left, campaign.asker.sequence = 3, 0
    tab = campaign.open("hidden")
    front = campaign.page()
    campaign.browser.call("Page.bringToFront", {}, front.session)
    if tab.run("document.visibilityState") != "hidden":
        raise Violation("expected a hidden tab, got a shown one")
    time.sleep(wait_s)  # the longer a page is hidden, the slower its timers are
    before, began = len(campaign.asker.received), time.monotonic()
    tab.run("void device.once().then((failure) => (window.ended = failure || 'done'))")
    while (ended := tab.run("window.ended")) is None:
        if time.monotonic() - began > 900:
            raise Violation("a hidden page does not answer")
        time.sleep(1)
    if ended != "done" or len(campaign.asker.received) <= before:
        raise Violation(f"a hidden page answered otherwise: {ended}")
    return f"{time.monotonic() - began:.0f} s until the answers of a hidden page were delivered"


def bundle(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return the page's files, by path."""
    script = "text/javascript"
    names = {"/page.js": "tests/page.ts", "/record_thread.js": "src/browser/record_thread.ts"}
    entries = [f"{Path(path).stem}={source}" for path, source in names.items()]
    subprocess.run(
        [
            *("node_modules/.bin/esbuild", *entries, "--bundle", "--format=esm"),
            *("--target=es2022", "--log-level=warning", f"--outdir={folder}"),
        ],
        cwd=PACKAGE,
        check=True,
    )
    files = {path: (script, (folder / path[1:]).read_bytes()) for path in names}
    return {**files, "/": ("text/html", PAGE)}


def run(tabs: int, browsers: int, seed: int, *, hidden_s: int = 0) -> dict[str, Any]:
    """Run the campaign, and return its figures."""
    chance = random.Random(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="askance-", ignore_cleanup_errors=True) as made:
        files = bundle(Path(made))
        asker = Asker(World(), chance)
        # Its study may cost what all questions do.
        terms = study_pb2.Study.FromString(asker.world.study.study)
        terms.budget_nano_nats = 10**14
        data = terms.SerializeToString(deterministic=True)
        public = KEY.public_key().public_bytes_raw()
        signature = KEY.sign(b"askance study v1\0" + data)
        asker.world.study = type(asker.world.study)(data, public, signature)
        with served(asker, files.get):
            campaign = Campaign(Path(made), asker, chance)
            try:
                order = [False] * tabs + [True] * browsers
                chance.shuffle(order)
                for number, whole in enumerate(order):
                    campaign.kill(number, whole=whole)
                campaign.finish()
                for rest in (two_tabs, clock_set_back, missing_parts, cleared):
                    rest(campaign)
                    print(f"{rest.__name__}: holds", file=sys.stderr)
                if hidden_s:
                    print(hidden(campaign, hidden_s), file=sys.stderr)
            finally:
                campaign.browser.close()
    return {
        "kills": dict(sorted(campaign.kills.items())),
        "questions": len(asker.asked),
        "charged and not sent when killed": campaign.unsent,
        "waits for a lock": campaign.waits,
        "seconds": round(time.monotonic() - began, 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the figures, and return whether all held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tabs", type=int, default=70)
    parser.add_argument("--browsers", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="8 tabs and 4 browsers")
    parser.add_argument(
        "--hidden", type=int, default=0, metavar="SECONDS", help="and a hidden page"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if (why := missing()) is not None:
        parser.error(why)
    tabs, browsers = (8, 4) if given.quick else (given.tabs, given.browsers)
    try:
        figures = run(tabs, browsers, given.seed, hidden_s=given.hidden)
    except Violation as violation:
        print(f"violated: {violation}")
        return 1
    if given.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name}: {figure}")
        print("nothing was sent that was not charged, nothing answered twice; the ledger is whole")
    return 0


if __name__ == "__main__":
    sys.exit(main())
