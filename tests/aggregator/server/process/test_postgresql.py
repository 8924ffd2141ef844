"""A real aggregator on PostgreSQL: its schema, an outage of the database, and no password shown."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc_health.v1 import health_pb2

from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.failures import FAILURES_TO_STOP_SERVING
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import StudyState
from askance_aggregator.store.postgresql.schema import VERSION
from tests.aggregator.server.process.conftest import Served, ran, serving
from tests.aggregator.server.process.people import People, submit
from tests.aggregator.server.process.test_failures import await_health
from tests.postgresql import PostgresqlServer

SECRET = "zzyzx-secret"
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def on_postgresql(fresh: AggregatorHome, postgresql: PostgresqlServer) -> AggregatorHome:
    """A folder whose configuration names an empty database, and a file with a password."""
    (fresh.folder / "password").write_text(SECRET)
    text = fresh.configuration.read_text()
    store = f'store = "{postgresql.new_database()}"\nstore_password_file = "password"'
    fresh.configuration.write_text(text.replace('store = "sqlite:///store.sqlite"', store))
    return fresh


def _page(served: Served) -> str:
    with urllib.request.urlopen(f"http://{served.ready['metrics']}/metrics") as reply:
        page: str = reply.read().decode()
    return page


def _await(served: Served, line: str) -> str:
    until = time.monotonic() + 60
    while line not in (page := _page(served)):
        assert time.monotonic() < until, page
        time.sleep(0.05)
    return page


def _migrate(home: AggregatorHome) -> str:
    done = ran("aggregator", "migrate", "--config", home.configuration)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_schema_is_made_by_the_operator_and_checked_at_the_start(
    on_postgresql: AggregatorHome,
) -> None:
    refused = ran("aggregator", "serve", "--config", on_postgresql.configuration)
    assert refused.returncode == 1
    assert "found none (run: askance aggregator migrate)" in refused.stderr
    assert _migrate(on_postgresql).endswith(f": schema version {VERSION}\n")
    done = ran("aggregator", "migrate", "--config", on_postgresql.configuration, "--json")
    assert json.loads(done.stdout)["schema"] == VERSION
    done = ran(
        "aggregator",
        "status",
        "--config",
        on_postgresql.configuration,
        "--json",
        "--listen",
        "127.0.0.1:1",
    )
    assert json.loads(done.stdout)["devices"] == 0


def test_a_study_outlives_an_outage_of_its_database(
    on_postgresql: AggregatorHome, postgresql: PostgresqlServer
) -> None:
    """The database is killed while the study is open: nothing is acknowledged until it is back."""
    _migrate(on_postgresql)
    location = read_configuration(on_postgresql.configuration).store
    people = People(on_postgresql.analyst, 40)
    with closing(location.open()) as store:
        store.enrol(people.enrolled())
    token = _token(on_postgresql)
    with serving(on_postgresql) as served, served.channel() as channel:
        digest = submit(channel, load_pem_private_key(on_postgresql.analyst_key.read_bytes(), None))
        _await(served, f'askance_round_asked{{study="{digest.hex()[:16]}"}} 40.0')
        with postgresql.killed():
            for _ in range(FAILURES_TO_STOP_SERVING):
                with pytest.raises(grpc.RpcError) as refused:
                    people.enrol(channel, token)
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            await_health(channel, NOT_SERVING)
            page = _page(served)
            assert "askance_devices 40.0" in page  # as last known
            assert 'askance_reports_total{status="accepted"} 0.0' in page
        await_health(channel, SERVING)
        people.answer(served.address, on_postgresql.authority.read_bytes())
        _await(served, 'askance_studies{state="done"} 1.0')
        shown = Path(f"/proc/{served.process.pid}/cmdline").read_text() + _page(served)
        assert served.ended_by(signal.SIGTERM) == 0
        assert SECRET not in shown + served.log.read_text()
    with closing(location.open()) as store:
        assert store.conclusions()[digest].state is StudyState.DONE
        (request,) = people.requests
        assert len(list(store.reports(request))) == 40


def _token(home: AggregatorHome) -> str:
    done = ran("aggregator", "token", "--config", home.configuration, "--json")
    token: str = json.loads(done.stdout)["token"]
    return token
