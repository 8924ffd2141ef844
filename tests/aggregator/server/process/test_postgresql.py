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
from tests.aggregator.server.process.conftest import Served, interpreting, ran, serving
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
    with interpreting(on_postgresql) as served, served.channel() as channel:
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


def test_an_aggregator_moves_to_a_database_and_its_devices_stay_enrolled(
    fresh: AggregatorHome, postgresql: PostgresqlServer
) -> None:
    """The drill of docs/operating.md: with a running aggregator it is refused, then whole."""
    people = People(fresh.analyst, 5)
    before = fresh.configuration.read_text()
    with closing(read_configuration(fresh.configuration).store.open()) as store:
        store.enrol(people.enrolled())
        token = _token(fresh)
    (fresh.folder / "password").write_text(SECRET)
    words = ("aggregator", "migrate", "--config", fresh.configuration)
    address = postgresql.new_database()
    to = ("--to", address, "--to-password-file", fresh.folder / "password")
    with closing(read_configuration(fresh.configuration).store.open()):
        refused = ran(*words, *to)
    assert refused.returncode == 1
    assert "found it in use: stop that process first" in refused.stderr
    done = ran(*words, *to)
    assert done.returncode == 0, done.stderr
    assert ": 5 devices, 0 studies, 0 reports\n" in done.stdout
    assert f'set store = "{address}" in {fresh.configuration}' in done.stdout
    assert SECRET not in done.stdout + done.stderr
    again = ran(*words, *to)
    assert again.returncode == 1
    assert f"found one that was moved to {address}" in again.stderr
    refused = ran("aggregator", "serve", "--config", fresh.configuration)
    assert refused.returncode == 1
    assert f"found one that was moved to {address}" in refused.stderr
    moved = before.replace('store = "sqlite:///store.sqlite"', f'store = "{address}"')
    fresh.configuration.write_text(moved)
    with serving(fresh) as served, served.channel() as channel:
        people.enrol(channel, token)  # of known devices: nothing changes
        assert "askance_devices 5.0" in _page(served)
        assert served.ended_by(signal.SIGTERM) == 0
    back = fresh.folder / "back.sqlite"
    done = ran(*words, "--to", f"sqlite:///{back}", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tables"]["devices"]["rows"] == 5
    fresh.configuration.write_text(before.replace("store.sqlite", "back.sqlite"))
    log = ran("aggregator", "audit", "verify", "--config", fresh.configuration)
    assert log.returncode == 0, log.stderr


def test_options_of_a_move_are_checked_before_anything_is_held(fresh: AggregatorHome) -> None:
    words = ("aggregator", "migrate", "--config", fresh.configuration)
    for more, told in (
        (("--to", "mysql://db"), "--to: expected sqlite:///FILE or postgresql://"),
        (("--to-password-file", "x"), "--to-password-file: expected --to as well"),
        (("--to", "sqlite:///x", "--to-password-file", "x"), "expected none for a SQLite store"),
    ):
        done = ran(*words, *more)
        assert done.returncode == 2, done.stderr
        assert told in done.stderr


def _token(home: AggregatorHome) -> str:
    done = ran("aggregator", "token", "--config", home.configuration, "--json")
    token: str = json.loads(done.stdout)["token"]
    return token
