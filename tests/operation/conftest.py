"""An aggregator's folder, made once for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance.aggregator.operation.home import AggregatorHome
from askance.client.addresses import Address

NOW_S = 1_800_000_000


def made(folder: Path, *hosts: str) -> AggregatorHome:
    """A new aggregator that listens on a free port."""
    return AggregatorHome.create(folder, listen=Address("127.0.0.1", 0), hosts=hosts, now_s=NOW_S)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> AggregatorHome:
    """A folder that is read only."""
    return made(tmp_path_factory.mktemp("operation") / "aggregator", "ask.example.org", "192.0.2.7")
