"""Chromium of the system, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Lock, Thread
from typing import Any

TIMEOUT_S = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
UNTHROTTLED = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
"""Timers of hidden tabs are as those of shown ones."""

Json = dict[str, Any]


class TabEnded(Exception):
    """A tab, or its browser, ended before it answered."""


@dataclass
class Tab:
    """A tab, and the texts that its page told."""

    browser: Chromium
    target: str
    session: str
    told: Queue[str] = field(default_factory=Queue)
    crashed: Event = field(default_factory=Event)

    def run(self, script: str) -> Any:
        """Run a script and return its value, when that is there."""
        found = self.browser.call(
            "Runtime.evaluate",
            {"expression": script, "awaitPromise": True, "returnByValue": True},
            self.session,
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def command(self, name: str, *given: object) -> Any:
        """Call a function of the page's device."""
        return self.run(f"device.{name}({', '.join(map(json.dumps, given))})")

    def crash(self) -> None:
        """End the page's process at once, and wait until it has ended.

        It answers no call from then on; the browser says that it has crashed.
        """
        with suppress(TabEnded):
            self.browser.call("Inspector.enable", {}, self.session)
            self.browser.send("Page.crash", {}, self.session)
            if not self.crashed.wait(TIMEOUT_S):
                raise TimeoutError("Page.crash")

    def close(self) -> None:
        """Close the tab."""
        with suppress(TabEnded):
            self.browser.call("Target.closeTarget", {"targetId": self.target})


class Chromium:
    """A browser with a profile of its own."""

    def __init__(self, profile: Path, flags: Sequence[str] = UNTHROTTLED) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Above all that the shell uses.
        give, take = (fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (to_read, to_write))
        self._process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$@" 3<&{give} 4>&{take}', "bash"),
                *(_path(), *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(give, take),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for fd in (to_read, to_write, give, take):
            os.close(fd)
        self._lock = Lock()
        self._count = 0
        self._answers: dict[int, Queue[Json]] = {}
        self._tabs: dict[str, Tab] = {}
        self._reader = Thread(target=self._listen, daemon=True)
        self._reader.start()

    def open(self, url: str) -> Tab:
        """Open a page in a new tab and wait until it is loaded."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        given = {"targetId": target, "flatten": True}
        session = self.call("Target.attachToTarget", given)["sessionId"]
        tab = Tab(self, target, session)
        self._tabs[session] = tab
        self.call("Runtime.enable", {}, session)
        self.call("Runtime.addBinding", {"name": "told"}, session)
        self.call("Page.navigate", {"url": url}, session)
        for _ in range(600):
            with suppress(TabEnded):  # the page before it is gone
                if tab.run("'device' in window && location.href !== 'about:blank'"):
                    return tab
            time.sleep(0.02)
        raise TimeoutError(url)

    def call(
        self, method: str, params: Json, session: str = "", timeout_s: float = TIMEOUT_S
    ) -> Json:
        """Call a method of the protocol."""
        answers = self.send(method, params, session)
        try:
            answer = answers.get(timeout=timeout_s)
        except Empty:
            raise TimeoutError(method) from None
        if "result" not in answer:
            raise TabEnded(f"{method}: {answer.get('error')}")
        result: Json = answer["result"]
        return result

    def send(self, method: str, params: Json, session: str = "") -> Queue[Json]:
        """Call a method of the protocol; return where its answer comes."""
        answers: Queue[Json] = Queue()
        with self._lock:
            self._count += 1
            number = self._count
            self._answers[number] = answers
            message: Json = {"id": number, "method": method, "params": params}
            if session:
                message["sessionId"] = session
            try:
                os.write(self._write, json.dumps(message).encode() + b"\0")
            except OSError as error:
                raise TabEnded(method) from error
        return answers

    def kill(self) -> None:
        """End the browser at once, all of its processes, without a word."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=5)
        for fd in (self._read, self._write):
            os.close(fd)

    def close(self) -> None:
        """End the browser in its own way."""
        with suppress(TabEnded, TimeoutError):
            self.call("Browser.close", {}, timeout_s=10)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self.kill()

    def _listen(self) -> None:
        held = b""
        while True:
            try:
                part = os.read(self._read, 1 << 16)
            except OSError:
                part = b""
            if not part:
                break
            *whole, held = (held + part).split(b"\0")
            for data in whole:
                self._hear(json.loads(data))
        for answers in list(self._answers.values()):
            answers.put({"error": "the browser has ended"})

    def _hear(self, message: Json) -> None:
        method, session = message.get("method"), message.get("sessionId", "")
        if "id" in message:
            waiting = self._answers.pop(message["id"], None)
            if waiting is not None:
                waiting.put(message)
        elif session not in self._tabs:
            pass
        elif method == "Runtime.bindingCalled":
            self._tabs[session].told.put(message["params"]["payload"])
        elif method == "Inspector.targetCrashed":
            self._tabs[session].crashed.set()


def _path() -> str:
    found = shutil.which("chromium")
    if found is None:
        raise FileNotFoundError("needs chromium")
    return found


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """Run a browser."""
    browser = Chromium(profile)
    try:
        yield browser
    finally:
        browser.close()
