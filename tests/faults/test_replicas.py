"""Generated histories of two replicas on one PostgreSQL database.

A history moves devices between the replicas, pauses a replica past the end of its leases, kills and
starts replicas, and stops and starts the database, beside all that happens to a single process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.people import PARITY, PEOPLE
from tests.faults.replica_operations import ReplicaOperation, happens_on, replica_operations
from tests.faults.replicated import SharedDatabase
from tests.postgresql import PostgresqlServer

STEADY = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def shared(postgresql: PostgresqlServer) -> SharedDatabase:
    return SharedDatabase(postgresql)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: much of what goes wrong is meant to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@STEADY
@given(st.lists(replica_operations(PEOPLE), max_size=10), st.sampled_from([0, 60]))
def test_one_round(
    shared: SharedDatabase, history: list[ReplicaOperation], deadline_s: int
) -> None:
    happens_on(shared, replace(PEOPLE, deadline_s=deadline_s), history)


@pytest.mark.slow
@settings(STEADY, max_examples=4)
@given(st.lists(replica_operations(PARITY), max_size=12))
def test_two_rounds(shared: SharedDatabase, history: list[ReplicaOperation]) -> None:
    happens_on(shared, PARITY, history)
