"""Documents as a reader runs them: their blocks and inline commands, in order, in a clean clone.

A document is a list of steps. Shell blocks run a line at a time, Python blocks share one
interpreter and inline commands run where they stand. A server opens a terminal of its own, which
ends where the text says "Stop the gateway" or "Stop the aggregator", or with the document.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tests.commands import OF_ASKANCE, CommandServer
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
START_S, COMMAND_S = 60.0, 300.0

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_COMMAND = re.compile(r"(askance|python|python3|pip|pytest|bash|\./\S+)( |$)")
_PLACEHOLDER = re.compile(r"\b[A-Z]{1,}\b|\.\.\.|\[|NAME=")
_NAMES_ONLY = re.compile(r"(askance|python -m askance_client)( [a-z][a-z-]*)*")
_STOP = re.compile(r"[Ss]top the (gateway|aggregator)\b")
_SERVERS = {"aggregator": "askance aggregator serve", "gateway": "askance device run"}
_OF_ASKANCE = re.compile(r"askance [^|<>&;$`*?~(]*")  # with nothing in it that is the shell's
_EXIT_CODE = re.compile(r"# exit code ([1-3])$")  # that a document announces
_STUDY = re.compile(r"\bstudy ([0-9a-f]{64})\b")

# Commands that make the environment in which a document is run, and the suite itself: `.ci/run` is
# the reader of these, in environments of its own.
BY_CI = (
    "pip install",
    "pip wheel",
    "python3 -m venv",
    ". .venv",
    "pytest",
    "make ",
    "bash .ci/run",
)
# Commands that other tests run: the site in a clean clone, the searches one by one.
BY_ANOTHER_TEST = {
    "sphinx-build": "tests/layout/test_site.py",
    "python -m tests.models.searches": "tests/models/test_models.py",
}
# Commands that are too long for a test, or run in another one, with what the document says of it.
LONG = {
    "python benchmarks/learners.py --write docs/learners.md": "which takes some minutes",
    "python -m tests.models.searches --larger": "# the larger bounds as well, which the nightly",
}

_INTERPRETER = """
import json, sys, traceback
names = {"__name__": "__console__"}
for line in sys.stdin:
    code, name = json.loads(line)
    failed = None
    try:
        exec(compile(code, name, "exec"), names)
    except BaseException:
        failed = traceback.format_exc()
    sys.stdout.flush()
    print(json.dumps({"failed": failed}), file=sys.__stderr__, flush=True)
"""


@dataclass(frozen=True)
class Shell:
    """A command, from a block or from a line of text."""

    command: str


@dataclass(frozen=True)
class Mention:
    """A command's name or form, which is not meant to be run as it stands."""

    text: str


@dataclass(frozen=True)
class Python:
    """A block of Python."""

    code: str


@dataclass(frozen=True)
class Stop:
    """An end of a server, by its command's beginning."""

    server: str


Step = Shell | Mention | Python | Stop


def documents() -> list[str]:
    """Return the documents' paths, from the root of the repository."""
    docs = ROOT / "docs"
    pages = (path for path in docs.rglob("*.md") if docs / "adr" not in path.parents)
    return ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in pages)]


def steps(document: str) -> Iterator[Step]:
    """Yield what a reader does, in the document's order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    end = 0
    for fence in _FENCE.finditer(text):
        yield from _of_prose(text[end : fence.start()])
        language, block = fence.groups()
        if language == "sh":
            yield from (Shell(line) for line in block.replace("\\\n", " ").splitlines() if line)
        elif language == "python":
            yield Python(block)
        end = fence.end()
    yield from _of_prose(text[end:])


def _of_prose(text: str) -> Iterator[Step]:
    marks = [*_INLINE.finditer(text), *_STOP.finditer(text)]
    for mark in sorted(marks, key=lambda found: found.start()):
        inside = " ".join(mark.group(1).split())
        if mark.re is _STOP:
            yield Stop(_SERVERS[inside])
        elif _COMMAND.match(inside):
            whole = not _PLACEHOLDER.search(inside) and not _NAMES_ONLY.fullmatch(inside)
            yield Shell(inside) if whole else Mention(inside)


def parts_to_run(command: str) -> list[str]:
    """Return the parts of a line that a test runs: not those that CI runs, and no long ones.

    A comment goes, but for one that announces an exit code other than 0.
    """
    text = command if _EXIT_CODE.search(command) else command.partition("  #")[0]
    parts = [part.strip() for part in text.split(" && ")]
    left_out = (*BY_CI, *BY_ANOTHER_TEST)
    return [part for part in parts if not part.startswith(left_out) and part not in LONG]


def command_of(document: str, program: str) -> list[str]:
    """Return the words of the one command of a document that runs a program."""
    commands = (step.command for step in steps(document) if isinstance(step, Shell))
    (words,) = [shlex.split(command, comments=True) for command in commands
                if command.startswith(program)]  # fmt: skip
    return words


def clone(folder: Path) -> None:
    """Copy what git would: the tracked files, and new ones that are not ignored.

    What Python compiled of them goes along: it counts only for a file with that time and size.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        for part in [name, cache_from_source(name)] if name.endswith(".py") else [name]:
            if (ROOT / part).is_file():
                (folder / part).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / part, folder / part)


class Reader:
    """A user with a clone, who runs a document from top to bottom.

    Args:
        folder: the clone.
        address: HOST:PORT of aggregators, in place of the documents' 127.0.0.1:7443, which another
            program of this machine may use.
        commands: has the modules of a clean clone.
    """

    def __init__(self, folder: Path, address: str, commands: CommandServer) -> None:
        self._folder, self._address, self._commands = folder, address, commands
        self._terminals: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        self._interpreter: subprocess.Popen[str] | None = None
        self._study = ""
        self.printed: dict[str, str] = {}

    def run(self, step: Step) -> None:
        """Do one step; an AssertionError says which failed, and how."""
        match step:
            case Shell(command):
                for part in parts_to_run(command):
                    self._shell(part)
            case Python(code):
                self._python(code)
            case Stop(server):
                self._end(server)
            case Mention(text):
                self._check_form(text)

    def close(self) -> None:
        """End all terminals, the last opened first; each must end well."""
        if self._interpreter is not None:
            self._interpreter.communicate(timeout=START_S)
        self._end("askance ")

    def _shell(self, command: str) -> None:
        meant = command.replace(" ID ", f" {self._study} ")
        if meant.startswith(tuple(_SERVERS.values())) and not meant.endswith(" --help"):
            self._open(self._elsewhere(meant))
            return
        done = self._ran(self._elsewhere(meant))
        expected = _EXIT_CODE.search(command)
        code = 0 if expected is None else int(expected[1])
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        self.printed[command] = done.stdout
        found = _STUDY.findall(done.stdout)
        self._study = found[0] if found else self._study

    def _ran(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `askance` by a process that has a clone's modules, others by bash."""
        folder, environment = self._folder, self._environment()
        if _OF_ASKANCE.fullmatch(command):
            words = shlex.split(command, comments=True)[1:]
            return self._commands.run(OF_ASKANCE, words, folder, environment, COMMAND_S)
        return subprocess.run(
            ["bash", "-ec", command],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_S,
        )  # fmt: skip

    def _python(self, code: str) -> None:
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [sys.executable, "-c", _INTERPRETER],
                cwd=self._folder, env=self._environment(), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
        process = self._interpreter
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps([self._elsewhere(code), "block"]) + "\n")
        process.stdin.flush()
        for line in process.stderr:  # warnings, if there are any, and then the end
            if line.startswith('{"failed"'):
                failed = json.loads(line)["failed"]
                assert failed is None, f"{code}\n{failed}"
                return
        raise AssertionError(f"{code}\nthe interpreter ended")

    def _open(self, command: str) -> None:
        """Open a terminal in which a command runs on, and wait for its first line."""
        log = self._folder / f"terminal-{len(self._terminals)}-{len(self.printed)}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                ["bash", "-ec", f"exec {command}"],
                cwd=self._folder, env=self._environment(), stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._terminals.append((command, process, log))
        until = time.monotonic() + START_S
        while not log.read_text():
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            assert time.monotonic() < until, f"{command} printed nothing"
            time.sleep(0.1)

    def _end(self, server: str) -> None:
        """Press Ctrl-C in the terminals of a server."""
        for terminal in reversed([one for one in self._terminals if one[0].startswith(server)]):
            command, process, log = terminal
            self._terminals.remove(terminal)
            running = process.poll() is None
            process.send_signal(signal.SIGINT)
            code = process.wait(START_S)
            assert running, f"{command} ended by itself\n{log.read_text()}"
            assert code == 0, f"{command}\n{log.read_text()}"

    def _check_form(self, text: str) -> None:
        """A command that is named must exist: its help is printed."""
        words = _PLACEHOLDER.split(text)[0].split(" -")[0].split()
        if words[0] == "askance":
            self._shell(" ".join([*words, "--help"]))

    def _elsewhere(self, text: str) -> str:
        text = text.replace("127.0.0.1:7443", self._address)
        text = re.sub(r"(aggregator init (?!-)\S+)$", rf"\1 --listen {self._address}", text)
        return re.sub(r"(askance study (?!verify|key)\w+ \S)", self._reached, text)

    def _reached(self, found: re.Match[str]) -> str:
        before, last = found.group(1).rsplit(" ", 1)
        return f"{before} --aggregator {self._address} {last}"

    def _environment(self) -> dict[str, str]:
        """Return this environment's commands, with the clone's own sources."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        sources = os.pathsep.join(str(self._folder / name) for name in FOLDERS)
        return os.environ | {"PATH": path, "PYTHONPATH": sources}
