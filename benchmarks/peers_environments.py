"""Peers' scripts, each run in an environment of its own; absent ones are reported with a reason.

Environments are made beforehand, all in one folder:

    for peer in pure_ldp multi_freq_ldpy opendp diffprivlib pfl flower; do
      python -m venv ENVS/$peer
      ENVS/$peer/bin/pip install -r benchmarks/peers/$peer/requirements.txt
    done

A script is a module `peers.NAME.SCRIPT` that is started in `benchmarks/` and prints one JSON object
with the peer's `version` and its `rows`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent
WITHIN_S = 900.0


@dataclass(frozen=True, slots=True)
class Ran:
    """Output of a peer's script.

    Args:
      peer: the folder under `benchmarks/peers`.
      version: of the peer, as installed.
      rows: as the script printed them.
    """

    peer: str
    version: str
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Peer without a result, and the reason."""

    peer: str
    reason: str


def run_peers(
    script: str,
    peers: Sequence[str],
    environments: Path | None,
    effort: str,
    questions: Sequence[str] = (),
) -> tuple[list[Ran], list[Skipped]]:
    """Run one script of each of the peers, one after the other.

    Args:
      script: "speed" or "accuracy".
      peers: names of the peers.
      environments: the folder with an environment a peer; None: all are absent.
      effort: "full" or "quick".
      questions: names that "speed" is given.
    """
    ran: list[Ran] = []
    skipped: list[Skipped] = []
    for peer in peers:
        told = _run(script, peer, environments, (effort, *questions))
        if isinstance(told, Ran):
            ran.append(told)
        else:
            skipped.append(told)
    return ran, skipped


def _run(
    script: str, peer: str, environments: Path | None, arguments: Sequence[str]
) -> Ran | Skipped:
    if environments is None:
        return Skipped(peer, "no --peers FOLDER")
    python = (environments / peer / "bin" / "python").absolute()
    if not python.exists():
        return Skipped(peer, f"no environment {peer!r} in the folder of --peers")
    command = [str(python), "-m", f"peers.{peer}.{script}", *arguments]
    done = _within_time(command)
    if done is None:
        return Skipped(peer, f"{script} took more than {WITHIN_S:.0f} s")
    if done.returncode != 0:
        return Skipped(peer, _last_line(done.stderr))
    told = json.loads(done.stdout.splitlines()[-1])
    return Ran(peer, told["version"], tuple(told["rows"]))


def _within_time(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Return the finished command; None: it was ended, with all that it had started."""
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("PYTHON")}
    with subprocess.Popen(
        command,
        cwd=BENCHMARKS,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return f"failed: {lines[-1].strip()}" if lines else "failed, and said nothing"
