"""A deployment of 5,000 devices whose result states two guarantees; its export, verified offline.

    python tests/endurance/two_guarantees.py [--devices 5000] [--gateways 5] [--quick]

An aggregator and gateways of many members each are processes of their own on this machine, with
TLS. One study asks every member one question. What must hold: the result states the local epsilon
and a smaller one towards readers; that one is what `askance amplification` bounds for as many
answers less liars, at the delta that is stated; both stand in the text; and an export without
reports is verified offline by another process, states the same, and has no report in it. Exit code
1 where it does not. `--quick` takes 300 devices.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.ports import free_address  # noqa: E402  # the path is set above

PATIENCE_S = 1_500.0  # of a study; a gateway of 1,000 members enrols and answers within minutes
QUICK = 300


def words(*given: object) -> list[str]:
    """Return a command of this interpreter's askance."""
    return [sys.executable, "-m", "askance", *map(str, given)]


def done(folder: Path, *given: object, patience_s: float = 120.0) -> str:
    """Run a command to its end and return what it printed."""
    found = subprocess.run(
        words(*given), cwd=folder, capture_output=True, text=True, timeout=patience_s, check=False
    )
    if found.returncode:
        raise SystemExit(f"{' '.join(map(str, given))}: {found.stderr.strip()}")
    return found.stdout


def started(stack: ExitStack, folder: Path, log: str, *given: object) -> subprocess.Popen[bytes]:
    """Start a command that goes on, and end it with the stack."""
    output = stack.enter_context((folder / log).open("wb"))
    process = subprocess.Popen(words(*given), cwd=folder, stdout=output, stderr=output)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def listening(address: str, patience_s: float = 60.0) -> None:
    """Wait until an aggregator listens."""
    import socket

    host, port = address.rsplit(":", 1)
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"aggregator: expected it at {address} within {patience_s:g} s")


def deploy(stack: ExitStack, folder: Path, devices: int, gateways: int) -> tuple[str, ...]:
    """Start an aggregator and gateways, and return the options of its analyst."""
    address = free_address()
    done(folder, "aggregator", "init", "service", "--listen", address)
    started(
        stack,
        folder,
        "aggregator.log",
        "aggregator",
        "serve",
        "--config",
        "service/aggregator.toml",
    )
    listening(address)
    analyst = (folder / "service/analyst.pub").read_text().strip()
    done(
        folder,
        "aggregator",
        "token",
        "--config",
        "service/aggregator.toml",
        "--devices",
        devices,
        "--out",
        "token",
    )
    subprocess.run(
        [sys.executable, ROOT / "examples/people.py", "schooling", str(devices), "people.csv"],
        cwd=folder,
        check=True,
    )
    head, *rows = (folder / "people.csv").read_text().splitlines()
    for number in range(gateways):
        name = f"gateway{number}"
        own = rows[number::gateways]
        (folder / f"{name}.csv").write_text("\n".join([head, *own]) + "\n")
        done(
            folder, "device", "init", name, "--aggregator", address, "--ca", "service/ca.pem",
            "--analyst", analyst, "--schema", ROOT / "examples/people.toml",
            "--data", f"{name}.csv", "--key", "id", "--life-epsilon", 8,
        )  # fmt: skip
        done(folder, "device", "enroll", name, "--token-file", "token", patience_s=600)
        started(stack, folder, f"{name}.log", "device", "run", name)
    return ("--aggregator", address, "--key", "service/analyst.pem", "--ca", "service/ca.pem")


def check(folder: Path, analyst: tuple[str, ...], devices: int) -> list[str]:
    """Ask the question, and return what does not hold."""
    began = time.monotonic()
    given = ("study", "submit", ROOT / "examples/schooling.toml", *analyst, "--wait", "--json")
    result: dict[str, Any] = json.loads(done(folder, *given, patience_s=PATIENCE_S))
    result = result.get("result", result)
    text = done(folder, "study", "result", result["study"], *analyst)
    outer, wrong = result.get("outer"), []
    print(f"{result['answers']:,} answers of {devices:,} devices, {time.monotonic() - began:.0f} s")
    print(text.strip())
    if outer is None:
        return ["outer: expected the guarantee towards readers, got none"]
    honest = outer["answers"] - ceil(outer["answers"] / 100)
    randomizer = bounds(folder, result, honest, outer["delta"])
    if abs(randomizer["upper"] - outer["epsilon"]) > 1e-6 * outer["epsilon"]:
        wrong.append(f"outer: expected {randomizer['upper']}, got {outer['epsilon']}")
    if not 0 < randomizer["lower"] <= outer["epsilon"] < 1:
        wrong.append(f"outer: expected less than 1 and a lower end, got {outer['epsilon']}")
    line = " ".join(text.split())
    wrong += offline(folder, analyst, result["study"], outer)
    for part in ("Towards the aggregator: at most epsilon 1.00;", "towards readers of this result"):
        if part not in line:
            wrong.append(f"text: expected {part!r}")
    return wrong


def offline(folder: Path, analyst: tuple[str, ...], study: str, outer: dict[str, Any]) -> list[str]:
    """Verify the export without the aggregator, and return what does not hold."""
    done(folder, "study", "result", study, *analyst, "--out", "export.json", "--json")
    verified = json.loads(done(folder, "study", "verify", "export.json", "--json"))
    export = json.loads((folder / "export.json").read_text())
    print(f"export: {(folder / 'export.json').stat().st_size:,} bytes, checked offline:")
    print(*(f"  {line}" for line in verified["checked"]), sep="\n")
    tallies = [
        tally
        for line in map(json.loads, export["transcript"])
        if line["kind"] == "closed"
        for tally in line["tallies"]
    ]
    wrong = []
    if export["result"]["outer"] != outer:
        wrong.append("export: expected the guarantee towards readers of the result")
    for part in _CHECKED:
        if not any(part in line for line in verified["checked"]):
            wrong.append(f"export: expected {part} to be checked")
    if odd := {name for tally in tallies for name in tally} - _COUNTS:
        wrong.append(f"export: expected counts alone, got {sorted(odd)}")
    return wrong


def bounds(folder: Path, result: dict[str, Any], honest: int, delta: float) -> dict[str, Any]:
    """Return both ends for the randomizer of seven cells at epsilon 1."""
    cells = len(result["hypothesis"])
    given = ("--cells", cells, "--epsilon", 1, "--answers", honest, "--delta", repr(delta))
    name = "subset-selection"
    found: dict[str, Any] = json.loads(
        done(folder, "amplification", "--randomizer", name, *given, "--json")
    )
    print(f"{name}: lower {found['lower']:.5g}, upper {found['upper']:.5g}")
    return found


def main() -> int:
    """Run the deployment and print what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=5_000)
    parser.add_argument("--gateways", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} devices of 2 gateways")
    chosen = parser.parse_args()
    devices, gateways = (QUICK, 2) if chosen.quick else (chosen.devices, chosen.gateways)
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(str(ROOT / one) for one in _SOURCES))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        wrong = check(folder, deploy(stack, folder, devices, gateways), devices)
    print("\n".join(wrong) or "both guarantees are stated, and hold")
    return 1 if wrong else 0


_CHECKED = ("the epsilon towards readers", "the aggregator's signature over the counts")
_COUNTS = {"counts", "answered", "asked", "refusals", "root", "salted"}  # of a tally
_SOURCES = (".", "protos", "client", "aggregator", "simulation", "papers")

if __name__ == "__main__":
    sys.exit(main())
