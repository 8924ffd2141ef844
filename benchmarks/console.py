"""The console under load: pages, live updates, and what it takes from the service.

An aggregator on SQLite with a million enrolled devices, of which 10,000 are connected through four
gateways, and 2,000 studies, of which one has 300 rounds; consoles are processes beside it, as
`askance console` starts them, and are called over HTTP on loopback. Measured in one run:

- pages: milliseconds from a request to the end of its answer, for each page, with the devices
  connected and idle, and while they answer one round after the other as fast as they can;
- changes: milliseconds from a change at the aggregator to its arrival in the event stream of a live
  page, while other live pages are open: a round that opens, on the overview; a study that is paused
  or resumed, on its page;
- rate: durable reports per second of rounds that are asked of all connected devices, without a live
  page and with one live page of each of three consoles, in alternate turns.

    python benchmarks/console.py [--quick] [--folder FOLDER] [--only pages] [--devices N] [--json]

FOLDER keeps the filled store for another run.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

from service import Part

from askance_aggregator.analyst import Aggregator, connect

GATEWAYS = 4
CONSOLES = 3
QUESTIONS = 7
PARTS = ("pages", "changes", "rate")
SIZES = ("devices", "connected", "studies", "requests")  # of `ConsoleLoad`, that can be given
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ConsoleLoad:
    """Sizes of a run.

    Args:
      devices: enrolled.
      connected: of them, through the gateways.
      studies: of the store.
      rounds: of one of them.
      requests: per page.
      changes: of each kind.
      turns: with live pages, and as many without.
      asked: rounds per turn.
    """

    devices: int
    connected: int
    studies: int
    rounds: int
    requests: int
    changes: int
    turns: int
    asked: int


FULL = ConsoleLoad(1_000_000, 10_000, 2_000, 300, 40, 20, 18, 2)
QUICK = ConsoleLoad(2_000, 200, 60, 4, 2, 1, 1, 1)


class Browser:
    """Session with a console."""

    def __init__(self, link: str) -> None:
        self._host, self._cookie = link.removeprefix("http://").partition("/")[0], ""
        self.get("/login?" + link.partition("?")[2])

    def get(self, path: str) -> str:
        """Return a page."""
        connection, response = self._request(path)
        text = response.read().decode()
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{path}: expected a page, got {response.status}: {text[:300]}")
        return text

    def milliseconds(self, path: str, requests: int) -> list[float]:
        """Return the times of a page."""
        found = []
        for _ in range(requests):
            began = time.perf_counter()
            self.get(path)
            found.append(1000 * (time.perf_counter() - began))
        return found

    @contextmanager
    def live(self, path: str) -> Iterator[LiveStream]:
        """A stream of events that is read until the end of the block."""
        connection, response = self._request(path)
        stream = LiveStream(response)
        try:
            stream.wait_for("")  # the page as it is
            yield stream
        finally:
            stream.close(connection)

    def _request(self, path: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._host, timeout=_PATIENCE_S)
        headers = {"Cookie": self._cookie, "Accept": "text/html"}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        self._cookie = response.getheader("set-cookie", self._cookie).partition(";")[0]
        return connection, response


class LiveStream:
    """Events of a live page, each with the time of its arrival."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._events: queue.Queue[tuple[float, str]] = queue.Queue()
        self._response = response
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, text: str) -> float:
        """Return when the next event came that has a text; earlier ones are dropped."""
        while True:
            at_s, event = self._events.get(timeout=_PATIENCE_S)
            if text in event:
                return at_s

    def close(self, connection: http.client.HTTPConnection) -> None:
        """End the stream."""
        if connection.sock is not None:
            connection.sock.shutdown(2)
        self._thread.join(_PATIENCE_S)
        connection.close()

    def _read(self) -> None:
        try:
            for line in self._response:
                if line.startswith(b"data: "):
                    self._events.put((time.monotonic(), line.decode()))
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return  # it was closed


@contextmanager
def console(address: str, folder: Path) -> Iterator[Browser]:
    """A console's process; yields a browser that has logged in."""
    command = [sys.executable, "-m", "askance", "console", "--json", "--listen", "127.0.0.1:0"]
    command += ["--aggregator", address, "--key", str(folder / "key.pem")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Browser(json.loads(process.stdout.readline())["login"])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE_S)


def p95(values: Sequence[float]) -> float:
    """Return the least value that 95 % of the values do not exceed."""
    return sorted(values)[-(-95 * len(values) // 100) - 1]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return figures of times."""
    return {"median": statistics.median(values), "p95": p95(values), "max": max(values)}


def measure_pages(browser: Browser, facts: dict[str, Any], requests: int) -> dict[str, Any]:
    """Measure each page, after a request that is not counted."""
    long, short, middle = facts["long"], facts["short"], facts["devices"] * 7 // 10
    device = re.search(r"/devices\?id=([0-9a-f]+)", browser.get(f"/devices?start={middle}"))
    older = re.search(r'rel="next" href="([^"]+)"', browser.get("/studies"))
    analyst = re.search(r"/studies\?analyst=([0-9a-f]+)", browser.get("/studies?state=done"))
    assert device is not None
    assert older is not None
    assert analyst is not None
    paths = {
        "overview": "/",
        "devices": "/devices",
        "devices from the middle": f"/devices?start={middle}",
        "devices of a tag": f"/devices?tags=site%3D3&start={middle}",
        "a device by its id": f"/devices?id={device[1]}",
        "studies": "/studies",
        "studies, the next page": unescape(older[1]),
        "studies, those that failed": "/studies?state=failed",
        "studies, by words": "/studies?q=freq+site",
        "studies, the last end first": "/studies?sort=ended",
        "studies of an analyst": f"/studies?analyst={analyst[1]}",
        "a study that is open": f"/studies/{facts['open']}",
        "a study of 1 round": f"/studies/{short}",
        f"a study of {facts['rounds']} rounds": f"/studies/{long}",
        "its plan against what happened": f"/studies/{long}/plan",
        "a new study": "/studies/new",
        "audit log": "/audit",
    }
    found = {}
    for name, path in paths.items():
        browser.get(path)
        found[name] = summary(browser.milliseconds(path, requests))
    return found


@contextmanager
def asking(server: Part) -> Iterator[None]:
    """Ask rounds of the connected devices, one after the other, for the length of a block."""
    ending = threading.Event()

    def ask() -> None:
        while not ending.is_set():
            server.tell("rounds 1")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def measure_changes(
    browsers: Sequence[Browser],
    server: Part,
    aggregator: Aggregator,
    facts: dict[str, Any],
    changes: int,
) -> dict[str, Any]:
    """Measure changes until they arrive, with a live page of each console open."""
    rounds, pauses = [], []
    study = aggregator.study(facts["open"])
    with ExitStack() as held:
        for browser in browsers:
            held.enter_context(browser.live("/live/overview"))
        overview = held.enter_context(browsers[0].live("/live/overview"))
        page = held.enter_context(browsers[0].live(f"/live/studies/{facts['open']}"))
        for number in range(changes):
            time.sleep(0.11 * (1 + number % 9))  # at any time of a period
            opened = server.tell("open")
            rounds.append(1000 * (overview.wait_for(opened["study"][:16]) - opened["at_s"]))
            server.tell("cancel")
            for change, shown in ((study.pause, "paused"), (study.resume, "open")):
                time.sleep(0.13 * (1 + number % 7))
                change()
                at_s = time.monotonic()
                pauses.append(1000 * (page.wait_for(f">{shown}<") - at_s))
    return {"a round opens": summary(rounds), "a study is paused or resumed": summary(pauses)}


def measure_rate(browsers: Sequence[Browser], server: Part, load: ConsoleLoad) -> dict[str, Any]:
    """Measure durable reports per second in alternate turns without and with live pages."""
    server.tell("rounds 1")
    rates: dict[str, list[float]] = {"without": [], "with": []}
    for turn in range(2 * load.turns):
        way = ("without", "with")[turn % 2 ^ turn // 2 % 2]  # so that a drift falls on both
        with ExitStack() as held:
            for browser in browsers if way == "with" else ():
                held.enter_context(browser.live("/live/overview"))
            seconds = server.tell(f"rounds {load.asked}")["seconds"]
        rates[way].append(load.connected * QUESTIONS * load.asked / seconds)
    medians = {way: statistics.median(found) for way, found in rates.items()}
    return {**rates, "medians": medians, "ratio": medians["with"] / medians["without"]}


def measure(load: ConsoleLoad, folder: Path, parts: Sequence[str]) -> dict[str, Any]:
    """Measure on the store of a folder, which is filled first if it is not there."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    if not (folder / "facts.json").exists():
        sizes = (load.devices, load.connected, load.studies, load.rounds)
        filling = Part("console_server.py", "fill", folder, *sizes)
        filling.read()
        filling.close()
    found["store"] = facts = json.loads((folder / "facts.json").read_text())
    share = facts["connected"] // GATEWAYS
    with ExitStack() as held:
        server = Part("console_server.py", "serve", folder, QUESTIONS)
        held.callback(server.close)
        address = server.read()["address"]
        loads = [
            Part("service_load.py", "gateway", address, place * share, share)
            for place in range(GATEWAYS)
        ]
        found["connect_s"] = server.tell(f"connected {share * GATEWAYS}")["seconds"]
        aggregator = held.enter_context(connect(address, key=str(folder / "key.pem")))
        browsers = [held.enter_context(console(address, folder)) for _ in range(CONSOLES)]
        if "pages" in parts:
            found["pages_ms"] = measure_pages(browsers[0], facts, load.requests)
            with asking(server):
                busy = measure_pages(browsers[0], facts, load.requests)
            found["busy_pages_ms"] = busy
        if "changes" in parts:
            found["changes_ms"] = measure_changes(browsers, server, aggregator, facts, load.changes)
        if "rate" in parts:
            found["reports_per_s"] = measure_rate(browsers, server, load)
        server.close()
        lost = {code for part in loads for code in part.read()["lost"]}
        for part in loads:
            part.close()
    if lost:
        raise RuntimeError(f"expected no call lost, found {sorted(lost)}")
    return found


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    store = found["store"]
    print(
        f"{store['devices']:,} devices enrolled, {store['connected']:,} connected through"
        f" {GATEWAYS} gateways, {store['studies']:,} studies; {found['cores']} cores, load"
        f" {found['load']:.1f}"
    )
    for part in ("pages_ms", "busy_pages_ms", "changes_ms"):
        print(f"{part}:")
        for name, ms in found.get(part, {}).items():
            print(
                f"  {name}: median {ms['median']:.0f} ms, p95 {ms['p95']:.0f}, max {ms['max']:.0f}"
            )
    if "reports_per_s" in found:
        rate = found["reports_per_s"]
        print(
            f"  durable reports per second: {rate['medians']['without']:,.0f} without,"
            f" {rate['medians']['with']:,.0f} with {CONSOLES} live pages, ratio {rate['ratio']:.3f}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all")
    parser.add_argument("--folder", type=Path, help="keep the store here, or take the one there")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may be repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for size in SIZES:
        told = f"{size}, in place of the usual number"
        parser.add_argument(f"--{size}", type=int, metavar="N", help=told)
    arguments = parser.parse_args(argv)
    given = {size: getattr(arguments, size) for size in SIZES}
    given = {size: number for size, number in given.items() if number is not None}
    load = replace(QUICK if arguments.quick else FULL, **given)
    parts = arguments.only or PARTS
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        found = measure(load, arguments.folder, parts)
    else:
        with tempfile.TemporaryDirectory(prefix="askance-") as folder:
            found = measure(load, Path(folder), parts)
    print(json.dumps(found)) if arguments.json else show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
