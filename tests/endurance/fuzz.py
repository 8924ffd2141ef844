"""Hostile bytes on every call of a running service: a clean status each, and nothing else happens.

What `tests/faults/test_hostile_bytes.py` does, for longer and with other inputs every time.

    python tests/endurance/fuzz.py [--inputs 100000] [--seed 0] [--json]

It exits 1 where a call ends with a status that it may not end with, or does not end; where anything
was stored or enrolled, or the honest device was disturbed; and where memory grows all the time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("", "protos", "client", "aggregator", "simulation")
]

from tests.faults.ammunition import Ammunition  # noqa: E402  # the path is set above
from tests.faults.hostile import Shot, Target  # noqa: E402

VOLLEY = 20  # calls at one time
VOLLEYS = 250  # between two looks at the memory
GROWTH_MB = 64  # after the first half, when every cache is full


def main(arguments: Sequence[str] | None = None) -> int:
    """Fire, print the status of each call, and return whether all was well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given_ = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="askance-") as folder, Target(Path(folder)) as target:
        memory = [resident_mb()]
        try:
            for part in range(-(-given_.inputs // (VOLLEY * VOLLEYS))):
                fire(target, given_.seed + part)
                memory.append(resident_mb())
            target.check()
            half = len(memory) // 2
            grown = memory[-1] - max(memory[: half + 1])
            violation = f"memory grew by {grown} MB" if grown > GROWTH_MB else ""
        except AssertionError as error:
            violation = str(error) or "something was stored, or an honest device disturbed"
        report(target, memory, time.monotonic() - began, violation, as_json=given_.json)
    return 1 if violation else 0


def fire(target: Target, number: int) -> None:
    """Five thousand inputs; the same ones for the same number."""

    @seed(number)
    @settings(
        max_examples=VOLLEYS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(Ammunition(target).shots(VOLLEY))
    def volley(shots: list[Shot]) -> None:
        target.fire(shots)

    volley()


def resident_mb() -> int:
    """The process's memory, the service's and the attacker's together."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise OSError("expected the resident memory in /proc/self/status, found none")


def report(
    target: Target, memory: list[int], seconds: float, violation: str, *, as_json: bool
) -> None:
    """Print the outcome."""
    counts = {f"{call} {code}": n for (call, code), n in sorted(target.statuses.items())}
    inputs = sum(counts.values())
    if as_json:
        print(
            json.dumps(
                {
                    "inputs": inputs,
                    "statuses": counts,
                    "memory_mb": memory,
                    "seconds": round(seconds, 1),
                    "violation": violation,
                }
            )
        )
        return
    for name, count in counts.items():
        print(f"{count:8,}  {name}")
    print(f"{inputs:,} inputs in {seconds:.0f} s; memory {memory[0]} to {memory[-1]} MB")
    print(violation or "a clean status each; nothing else happened")


if __name__ == "__main__":
    sys.exit(main())
