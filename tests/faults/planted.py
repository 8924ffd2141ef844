"""Defects that are planted in the aggregator by hand, each with the history that shows it.

Generated histories find each and shrink to that one (`tests/endurance/faults.py --planted`). A
defect that none finds would mean that an invariant is not checked, or that no history leads to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from askance_aggregator.server.devices import commits
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.store import SqliteStore, retention
from askance_aggregator.store.postgresql import store as postgresql_store
from askance_aggregator.store.postgresql.replicas import PostgresqlReplicas
from askance_client.errors import AskanceError
from askance_client.messages import AckStatus
from askance_simulation.disturbances import Fault
from tests.faults.operations import CheckIn, Collect, FailDisk, Pass, Revoke, operations
from tests.faults.people import PEOPLE
from tests.faults.replica_operations import Look, Pause, happens_on, replica_operations
from tests.faults.replicated import SharedDatabase
from tests.faults.runs import happens

Database: TypeAlias = "SharedDatabase | None"
LOST = (Fault.NONE, Fault.LOST_RESPONSE)
TIMED = replace(PEOPLE, deadline_s=60)


@dataclass(frozen=True)
class Planted:
    """A defect.

    Args:
      plant: plants it; the patch is undone afterwards, the database is cleared.
      shrunk: the shortest history that shows it.
      kinds: generates the operations of histories in which it is searched; None: all.
    """

    plant: Callable[[pytest.MonkeyPatch, Database], None]
    shrunk: Sequence[Any]
    kinds: st.SearchStrategy[Any] | None = None

    def breaks(self, history: Sequence[Any], database: Database) -> bool:
        """Return whether a history breaks an invariant; None: in a process with its own store."""
        try:
            if database is None:
                happens(PEOPLE, history)
            else:
                happens_on(database, TIMED, history)
        except (AssertionError, AskanceError):
            return True
        return False

    def find(self, database: Database) -> list[Any]:
        """Generate histories until one breaks an invariant, and shrink it; it is planted now."""
        kinds = self.kinds
        if kinds is None:
            kinds = operations(PEOPLE) if database is None else replica_operations(PEOPLE)
        return find(
            st.lists(kinds, max_size=8),
            lambda history: self.breaks(history, database),
            settings=settings(
                max_examples=300,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )


def acknowledges_without_a_commit(patch: pytest.MonkeyPatch, _: Database) -> None:
    """A disk that fails is not heard of."""
    commit = commits.ReportGroupCommit._commit

    async def careless(self: Any, batch: list[commits.Waiting]) -> None:
        loop = asyncio.get_running_loop()
        heard = [(message, entered, loop.create_future()) for message, entered, _ in batch]
        await commit(self, heard)
        for (message, _, future), (_, _, ended) in zip(batch, heard, strict=True):
            accepted = [AckStatus.ACCEPTED] * len(message)
            future.set_result(accepted if ended.exception() else ended.result())

    patch.setattr(commits.ReportGroupCommit, "_commit", careless)


def accepts_a_report_again(patch: pytest.MonkeyPatch, _: Database) -> None:
    """A report that is stored already is called new."""
    accept = SqliteStore.accept

    def again(self: SqliteStore, arrivals: Any) -> list[AckStatus]:
        return [
            AckStatus.ACCEPTED if status is AckStatus.DUPLICATE else status
            for status in accept(self, arrivals)
        ]

    patch.setattr(SqliteStore, "accept", again)


def collects_an_open_study(patch: pytest.MonkeyPatch, _: Database) -> None:
    """Every study is taken for an ended one."""
    every = "(SELECT number AS study FROM studies)"
    for name, old, new in (
        ("_ENDED", "JOIN conclusions ON conclusions.study = studies.number", ""),
        ("_ENDED", " AND epoch = 0", ""),
        ("_NOTE", "conclusions WHERE epoch = 0", f"{every} WHERE true"),
    ):
        statement = getattr(retention, name)
        careless = statement.replace(old, new)
        assert careless != statement
        patch.setattr(retention, name, careless)


def admits_revoked_devices(patch: pytest.MonkeyPatch, _: Database) -> None:
    """A device's standing is looked at for its streams alone."""
    patch.setattr(Standings, "check_device", lambda *_: None)


def write_without_the_lease(patch: pytest.MonkeyPatch, _: Database) -> None:
    patch.setattr(PostgresqlReplicas, "check", lambda *_: None)


def store_a_report_twice(_: pytest.MonkeyPatch, shared: Database) -> None:
    assert shared is not None
    shared.execute("ALTER TABLE askance.reports DROP CONSTRAINT reports_pkey")


def take_reports_of_a_closed_round(patch: pytest.MonkeyPatch, _: Database) -> None:
    careless = postgresql_store._ADD_NEW.replace("WHERE NOT closed AND NOT ended", "")
    assert careless != postgresql_store._ADD_NEW
    patch.setattr(postgresql_store, "_ADD_NEW", careless)


def count_own_reports_alone(patch: pytest.MonkeyPatch, _: Database) -> None:
    def none(*words: object) -> tuple[list[object], object]:
        return [], words[-1]

    patch.setattr(PostgresqlReplicas, "stored_since", none)


PLANTED = {
    "acknowledged without a commit": Planted(acknowledges_without_a_commit, [FailDisk(False)]),
    "a stored report accepted again": Planted(accepts_a_report_again, [CheckIn(0, LOST)]),
    "an open study collected": Planted(collects_an_open_study, [Collect(0)]),
    "a revoked device admitted": Planted(admits_revoked_devices, [Revoke(0), CheckIn(0)]),
}
_LOOKS = st.builds(Look, st.integers(0, 1))
_DEVICE = st.integers(0, 1)
PLANTED_IN_REPLICAS = {
    "a driver that writes without its lease": Planted(
        write_without_the_lease,
        [Pause(0), Pass(60)],
        st.one_of(_LOOKS, st.builds(Pause, st.integers(0, 1)), st.just(Pass(60))),
    ),
    "a report stored twice": Planted(
        store_a_report_twice,
        [CheckIn(0, LOST)],
        st.one_of(_LOOKS, st.builds(CheckIn, _DEVICE, st.just(LOST))),
    ),
    "a report taken for a closed round": Planted(
        take_reports_of_a_closed_round,
        [Look(1), Pass(60), CheckIn(1)],
        st.one_of(_LOOKS, st.builds(CheckIn, _DEVICE), st.just(Pass(60))),
    ),
    "a driver that counts its own reports alone": Planted(
        count_own_reports_alone, [], st.one_of(_LOOKS, st.builds(CheckIn, _DEVICE))
    ),
}
