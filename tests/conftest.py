"""Fixtures and helpers of more than one test package."""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

from askance_aggregator.studies import Cohort, Intake, Permutation
from askance_aggregator.studies.intake import CheckedReports
from askance_client.sqlite_file import SqliteFile
from tests.kinds import MARKS
from tests.postgresql import PostgresqlServer, missing

# A busy machine is not a failure: no property test has a deadline. A run's cases are those of the
# run before; `pytest --hypothesis-profile new` draws others.
settings.register_profile("askance", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile("askance")

# The workers of a run fill the cores, and inherit this: threads of linear algebra beside them wait
# for each other, and a plan on a busy machine of 2 cores takes four times the processor's time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Objects of the workers lie in pages of 2 MB (on Linux): a quarter less of the processor's time
# where memory is slow. Programs that tests start have their memory as anywhere else.
LARGE_PAGES = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in LARGE_PAGES:
        os.environ.pop(name, None)

# Hundreds of processes are started: each module is compiled once, whatever the machine's setting.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_xdist_auto_num_workers() -> int:
    """Return one process more than cores: tests wait for timers and processes of their own."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Give the workers' processes their settings before they start."""
    os.environ.update(LARGE_PAGES)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread that have no test of the one marker whose tests are run."""
    marked = MARKS.get(config.option.markexpr)
    if marked is None or collection_path.suffix != ".py":
        return None
    return None if marked.search(collection_path.read_text("utf-8")) else True


def pytest_configure() -> None:
    """Collect the tests without collecting garbage, which was half of the processor's time."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Leave modules and collected tests out of the garbage collections of the tests' run.

    One collection per 50,000 new objects instead of 700 saves a twelfth of the processor's time.
    """
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


class Listed(Permutation):
    """An order that begins with users of one's choice; the others follow by their ordinals."""

    def __init__(self, members: Iterable[int], size: int) -> None:
        first = np.array(sorted(members), np.int64)
        super().__init__(b"listed" + first.tobytes(), size)
        others = np.ones(size, np.bool_)
        others[first] = False
        self._order = np.concatenate([first, np.flatnonzero(others)])

    def positions(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        inverse = np.empty(self.size, np.int64)
        inverse[self._order] = np.arange(self.size)
        return inverse[ordinals]

    def ordinals(self, start: int, stop: int) -> NDArray[np.int64]:
        return np.sort(self._order[start:stop])


def cohort_of(members: Collection[int], size: int) -> Cohort:
    """The cohort of these users among `size`, whom no seed would choose together.

    Users in a row are a range of the ordinals themselves, so that several such cohorts may be a
    study's.
    """
    first = min(members, default=0)
    if set(members) == set(range(first, first + len(members))):
        return Cohort(Listed((), size), first, first + len(members))
    return Cohort(Listed(members, size), 0, len(members))


def add_report(intake: Intake, ordinal: int, data: bytes) -> int:
    """Count a user's report, which is right; return the number of reports counted now."""
    reports = intake.check((data,))
    assert isinstance(reports, CheckedReports)
    place = intake.place(reports, ordinal)
    assert place is not None
    return intake.add(reports, place)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A PostgreSQL server for all tests of a worker; a test makes a database of its own."""
    needed = missing()
    if needed is not None:
        pytest.skip(needed)
    with PostgresqlServer.running() as server:
        yield server


BreakDisk = Callable[[SqliteFile, set[str]], set[str]]


class FailingConnection:
    """A disk that fails at the statements of your choice."""

    def __init__(self, connection: sqlite3.Connection, failing: set[str]) -> None:
        self._connection = connection
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.split()[0] in self._failing:
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *parameters)


@pytest.fixture(scope="session")
def break_disk() -> BreakDisk:
    """Put a broken disk under an open file; empty the set of statements and it is whole again."""

    def put(file: SqliteFile, failing: set[str]) -> set[str]:
        file.connection = FailingConnection(file.connection, failing)  # type: ignore[assignment]  # a stand-in
        return failing

    return put
