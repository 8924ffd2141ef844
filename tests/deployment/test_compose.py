"""From deploy/compose to a finished study."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deployment.composition import PATIENCE_S, Composition, prepared, ran
from tests.deployment.manifests import ROOT
from tests.postgresql import PostgresqlServer, missing

PEOPLE = 500
AGGREGATORS = ("aggregator-1", "aggregator-2")

needs_server = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer.running() as found:
        yield found


def await_(happened: Callable[[], bool], shown: Callable[[], str]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, shown()
        time.sleep(0.2)


def connected(services: Composition) -> int:
    """Return the devices that the aggregators have between them."""
    found = 0
    for name in AGGREGATORS:
        try:
            page = urllib.request.urlopen(f"http://{services.metrics_of(name)}/metrics", timeout=5)
        except OSError:
            continue
        lines = page.read().decode().splitlines()
        found += sum(int(float(x.split()[1])) for x in lines if x.startswith("askance_connected "))
    return found


@needs_server
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_runs(tmp_path: Path, server: PostgresqlServer) -> None:
    people = tmp_path / "people.csv"
    ran("python", ROOT / "examples" / "people.py", "schooling", str(PEOPLE), people)
    folder = prepared(tmp_path, people, ROOT / "examples" / "people.toml", "id")
    with Composition.running(folder, server) as services:

        def submitted(study: str) -> str:
            keys = ("--key", folder / "service/analyst.pem", "--ca", folder / "service/ca.pem")
            return ran("askance", "study", "submit", ROOT / "examples" / study,
                       "--aggregator", services.address, *keys, "--wait")  # fmt: skip

        services.up("haproxy")
        for name in AGGREGATORS:
            await_(lambda: services.is_healthy(name), lambda: services.log_of(name))  # noqa: B023
        assert f"{PEOPLE} " in services.finish("enroll")
        services.up("gateway")
        await_(lambda: connected(services) == PEOPLE, lambda: services.log_of("gateway"))
        services.kill("aggregator-1")  # its devices dial the other, or this one when it is back
        await_(lambda: connected(services) == PEOPLE, lambda: services.log_of("gateway"))
        assert f"Each of {PEOPLE} users answered once" in submitted("schooling.toml")
