"""Defects planted in the aggregator: the shrunk history shows each, and a search finds it again."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.planted import PLANTED, PLANTED_IN_REPLICAS
from tests.faults.replicated import SharedDatabase
from tests.postgresql import PostgresqlServer


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: much of what goes wrong is meant to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", PLANTED)
def test_a_history_shows_the_defect_and_nothing_without_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PLANTED[name]
    assert not planted.breaks(planted.shrunk, None)
    planted.plant(monkeypatch, None)
    assert planted.breaks(planted.shrunk, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED_IN_REPLICAS)
def test_a_history_of_replicas_shows_the_defect_and_nothing_without_it(
    name: str, monkeypatch: pytest.MonkeyPatch, postgresql: PostgresqlServer
) -> None:
    planted, database = PLANTED_IN_REPLICAS[name], SharedDatabase(postgresql)
    assert not planted.breaks(planted.shrunk, database)
    planted.plant(monkeypatch, database)
    assert planted.breaks(planted.shrunk, database)


@pytest.mark.slow
def test_a_search_finds_and_shrinks_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED["acknowledged without a commit"]
    planted.plant(monkeypatch, None)
    assert planted.find(None) == planted.shrunk
