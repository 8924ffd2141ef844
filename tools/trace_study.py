"""Trace a frequency study on each fleet: files entered, calls per user, decodes of the study.

    python tools/trace_study.py [ROWS [FLEET]]

Only functions of this project's packages are counted, in every thread of this process, from the
call of the simulation to its end; imports are made before by a first run. Another commit is traced
by running this file in a checkout of it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path.cwd()
PACKAGES = ("protos", "client", "aggregator", "simulation", "papers")
sys.path[:0] = [str(ROOT), *(str(ROOT / name) for name in PACKAGES)]

FLEETS = ("columns", "objects", "grpc")
ROWS = 300
_NAMED = (
    "decode_study", "device", "find_devices", "acknowledged_sequence", "acknowledged_sequences",
)  # fmt: skip
"""Functions whose calls are printed: the decoder of a study, and look-ups in the store."""


class CallCounter:
    """Count of calls of the project's functions, by their code."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call; a profile function of `sys.setprofile`."""
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            self.calls[frame.f_code] += 1

    def of(self, name: str) -> int:
        """Return the number of calls of the functions of a name."""
        return sum(count for code, count in self.calls.items() if code.co_name == name)

    @property
    def files(self) -> int:
        """Number of files of which a function was called."""
        return len({code.co_filename for code in self.calls})


def trace(fleet: str, rows: int) -> CallCounter:
    """Run the study on a fleet, and return what was called."""
    from askance_simulation.experiments import named, run_trial
    from askance_simulation.randomness import Seed

    def run(epsilon: str) -> None:
        made = named("frequency", epsilon=epsilon, users=rows, settings={"column": "category"})
        seed = Seed.of(1)
        population = made.people(seed / "population")
        run_trial(made.study(population), population, fleet=fleet, seed=seed)

    run("1")
    counter = CallCounter()
    threading.setprofile(counter)
    sys.setprofile(counter)
    try:
        run("2")  # another study: nothing of it is known yet
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counter


def main() -> None:
    """Print a line per fleet; each is traced in a process of its own, which knows no study yet."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    for fleet in FLEETS:
        if len(sys.argv) < 3:
            subprocess.run([sys.executable, __file__, str(rows), fleet], check=True)
        elif fleet == sys.argv[2]:
            counter = trace(fleet, rows)
            named = ", ".join(f"{counter.of(name)} {name}" for name in _NAMED)
            calls = sum(counter.calls.values()) / rows
            print(f"{fleet}: {counter.files} files, {calls:.0f} calls per user, {named}")


if __name__ == "__main__":
    main()
