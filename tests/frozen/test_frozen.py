"""Outputs, stores and results of an earlier version: this one prints and reads them as it did."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from askance_aggregator.encoding import read_terms
from askance_aggregator.server.studies.statuses import add_titles
from askance_aggregator.store import (
    ListOrder,
    PostgresqlLocation,
    SqliteLocation,
    Store,
    StudyQuery,
)
from askance_aggregator.titles import title_of
from tests.frozen.commands import SESSIONS
from tests.frozen.old_stores import DIGESTS, describe, load_postgresql, load_sqlite
from tests.frozen.record import expected
from tests.postgresql import PostgresqlServer

ROOT = Path(__file__).parents[2]


def test_forty_commands_are_recorded() -> None:
    assert sum(len(session.commands) for session in SESSIONS.values()) >= 40


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "slow" else []) for name in SESSIONS],
)
def test_commands_print_what_they_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    recorded = expected(name)
    printed = SESSIONS[name].run(tmp_path)
    assert [one["command"] for one in printed] == [one["command"] for one in recorded]
    for one, other in zip(printed, recorded, strict=True):
        assert one == other, one["command"]


OLD_STUDIES = [  # the newest first; users of the repeated one are those of its last epoch
    ("open", "kept for ever", 14),
    ("repeated", "kept for ever", 12),
    ("cancelled", "kept for ever", 12),
    ("mean", "kept for ever", 12),
    ("frequency", "kept for ever", 12),
]


def check_titles(store: Store) -> None:
    """Check that old studies get their titles and users, and are found by both."""
    assert store.listing.page(StudyQuery(words="mean")).studies == ()
    for _ in range(2):  # the second time it changes nothing
        add_titles(store)
    assert listed(store, StudyQuery()) == OLD_STUDIES
    assert listed(store, StudyQuery(words="mean Ever")) == OLD_STUDIES[:4]
    assert listed(store, StudyQuery(words="means")) == []
    by_users = listed(store, StudyQuery(order=ListOrder.USERS, reversed=True))
    assert [users for _, _, users in by_users] == [12, 12, 12, 12, 14]
    assert {one.submitted_unix_s > 0 for one in store.listing.page(StudyQuery()).studies} == {True}


def listed(store: Store, query: StudyQuery) -> list[tuple[str, str, int]]:
    """Return names, titles and users of the studies that fit a query."""
    names = {digest: name for name, digest in DIGESTS.items()}
    found = store.listing.page(query).studies
    return [(names[one.digest], title_of(read_terms(one.signed.study)), one.users) for one in found]


def test_an_old_sqlite_store_is_read(tmp_path: Path) -> None:
    load_sqlite(tmp_path / "store")
    with closing(SqliteLocation(tmp_path / "store").open()) as store:
        assert describe(store) == expected("store")
        check_titles(store)


def test_an_old_postgresql_store_is_read(postgresql: PostgresqlServer) -> None:
    location = PostgresqlLocation(load_postgresql(postgresql))
    location.migrate()
    with closing(location.open()) as store:
        assert describe(store) == expected("store")
        check_titles(store)
