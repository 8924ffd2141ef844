"""Generated faults for longer than CI has time, with other histories every time.

Histories of `tests/faults/test_generated.py`; with `--replicas` those of `test_replicas.py` beside
it, on a PostgreSQL server of their own. A failure is shrunk and printed: it belongs into
`tests/faults/test_reproductions.py`. With `--planted` each defect of `tests/faults/planted.py` is
planted, searched and shrunk, and the history that shows it is printed.

    python tests/endurance/faults.py [--histories 5000] [--seed 0] [--replicas | --planted]
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("", "protos", "client", "aggregator", "simulation")
]

from tests.faults.operations import Operation, operations  # noqa: E402  # the path is set above
from tests.faults.people import PARITY, PEOPLE, Setup  # noqa: E402
from tests.faults.planted import PLANTED, PLANTED_IN_REPLICAS  # noqa: E402
from tests.faults.replica_operations import (  # noqa: E402
    ReplicaOperation,
    happens_on,
    replica_operations,
)
from tests.faults.replicated import SharedDatabase  # noqa: E402
from tests.faults.runs import happens  # noqa: E402
from tests.postgresql import PostgresqlServer  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Try histories; a failure is raised as hypothesis shows it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--replicas", action="store_true", help="two replicas on PostgreSQL")
    which.add_argument("--planted", action="store_true", help="find the planted defects")
    given_ = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # what goes wrong here is meant to
    if given_.planted:
        return find_planted()
    for setup, share in ((PEOPLE, 4), (PARITY, 1)):
        began, count = time.monotonic(), max(1, given_.histories * share // 5)
        (attempt_replicas if given_.replicas else attempt)(setup, count, given_.seed)
        print(f"{count:,} histories of {setup.schema.name}: {time.monotonic() - began:.0f} s")
    return 0


def find_planted() -> int:
    """Find and shrink every planted defect; return 1 if another history shows one than is noted."""
    other = 0
    with PostgresqlServer.running() as server:
        for defects, replicated in ((PLANTED, False), (PLANTED_IN_REPLICAS, True)):
            for name, planted in defects.items():
                began = time.monotonic()
                database = SharedDatabase(server) if replicated else None
                with pytest.MonkeyPatch.context() as patch:
                    planted.plant(patch, database)
                    found = planted.find(database)
                other |= list(found) != list(planted.shrunk)
                print(f"{name}: {found}, {time.monotonic() - began:.0f} s")
    return int(other)


def attempt_replicas(setup: Setup, count: int, number: int) -> None:
    """Run `count` histories of two replicas of this setup."""
    with PostgresqlServer.running() as server:
        shared = SharedDatabase(server)

        @_often(count, number)
        @given(st.lists(replica_operations(setup), max_size=25), st.sampled_from([0, 60]))
        def tried(history: list[ReplicaOperation], deadline_s: int) -> None:
            happens_on(shared, replace(setup, deadline_s=deadline_s), history)

        tried()


def _often(count: int, number: int) -> Callable[[Any], Any]:
    """Decorate a test to run `count` examples of this seed."""
    many = settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(number)(many(test))


def attempt(setup: Setup, count: int, number: int) -> None:
    """Run `count` histories of this setup."""

    @_often(count, number)
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
