"""The README's three terminals, as it tells them: real processes, in what looks like a clone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_S, END_S = 30.0, 60.0
ROOMS = ("protos", "client", "aggregator", "simulation")
RUNNING = ("askance aggregator serve", "askance device run")


def deployment() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## A deployment.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    return str(section)


def shown(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", deployment(), re.MULTILINE | re.DOTALL)
    return [str(block) for block in found]


def environment() -> dict[str, str]:
    """The `askance` of this environment, in front of any other."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    rooms = os.pathsep.join(str(ROOT / room) for room in ROOMS)
    return os.environ | {"PATH": path, "PYTHONPATH": rooms}


def here(text: str, address: str) -> str:
    """What the README says, on another port than the usual one."""
    text = text.replace("127.0.0.1:7443", address)
    text = text.replace("aggregator init service", f"aggregator init service --listen {address}")
    return re.sub(r"(askance study (?!verify)\w+)", rf"\1 --aggregator {address}", text)


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=END_S,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def running(command: str, folder: Path) -> Iterator[None]:
    """A terminal in which a command runs on; ended as Ctrl-C ends it."""
    log = folder / f"{command.split()[1]}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-ec", f"exec {command}"],
            cwd=folder,
            env=environment(),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_S
        while not log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"{command} said nothing"
            time.sleep(0.1)
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(START_S) == 0, log.read_text()


def test_three_terminals(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for room in ROOMS:  # a clone's own folders stand where the README's commands are given
        (tmp_path / room / "askance").mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    aggregator, devices, analyst = (
        [line.partition("#")[0].strip() for line in here(block, address).splitlines()]
        for block in shown("sh")
    )
    run("python examples/people.py schooling 500 people.csv", tmp_path)
    run(aggregator[0], tmp_path)
    with running(aggregator[1], tmp_path):
        for command in devices[:-1]:
            run(command, tmp_path)
        with running(devices[-1], tmp_path):
            submitted = run(analyst[0], tmp_path)
            assert "500 answers" in submitted
            (study,) = re.findall(r"study ([0-9a-f]{64})", submitted)
            for command in analyst[1:]:
                told = run(command.replace(" ID ", f" {study} "), tmp_path)
                assert study in told
            (program,) = shown("python")
            (tmp_path / "program.py").write_text(here(program, address))
            assert "university" in run("python program.py", tmp_path)
            assert "500" in run(
                "askance aggregator status --config service/aggregator.toml", tmp_path
            )
        assert "2 studies" in run("askance device status gateway", tmp_path)
        assert "1000 answers checked, 0 violations" in run(
            "askance device verify gateway", tmp_path
        )
