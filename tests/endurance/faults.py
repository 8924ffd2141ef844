"""Generated faults for longer than CI has time, with other histories every time.

What `tests/faults/test_generated.py` does. A failure is shrunk and printed: it belongs into
`tests/faults/test_reproductions.py`.

    python tests/endurance/faults.py [--histories 5000] [--seed 0]
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("", "protos", "client", "aggregator", "simulation")
]

from tests.faults.operations import Operation, operations  # noqa: E402  # the path is set above
from tests.faults.people import PARITY, PEOPLE, Setup  # noqa: E402
from tests.faults.runs import happens  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Try histories; a failure is raised as hypothesis shows it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    given_ = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # what goes wrong here is meant to
    for setup, share in ((PEOPLE, 4), (PARITY, 1)):
        began, count = time.monotonic(), max(1, given_.histories * share // 5)
        attempt(setup, count, given_.seed)
        print(f"{count:,} histories of {setup.schema.name}: {time.monotonic() - began:.0f} s")
    return 0


def attempt(setup: Setup, count: int, number: int) -> None:
    """Run `count` histories of this setup."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(operations(setup), max_size=40),
        st.sampled_from([0, 60]),
        st.sampled_from([0, 4]),
        st.sampled_from([3, 100]),
    )
    def tried(history: list[Operation], deadline_s: int, least: int, life: int) -> None:
        happens(replace(setup, deadline_s=deadline_s, least_answers=least, life=life), history)

    tried()


if __name__ == "__main__":
    sys.exit(main())
