"""The example of deploy/haproxy before two replicas: a study goes on when either of them dies."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from askance_aggregator.analyst import connect
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.learners import find
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import StudyState
from askance_aggregator.studies.study import Study
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, made, ran, serving
from tests.aggregator.server.process.people import SCHEMA, People
from tests.ports import free_address, free_port
from tests.postgresql import PostgresqlServer

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "haproxy" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
COUNT = 20

needs_haproxy = pytest.mark.skipif(
    not Path(HAPROXY).is_file(), reason="haproxy is not installed (apt-get install haproxy)"
)


@needs_haproxy
def test_the_example_is_a_configuration_that_haproxy_takes() -> None:
    done = subprocess.run([HAPROXY, "-c", "-f", EXAMPLE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@needs_haproxy
def test_a_study_behind_haproxy_outlives_each_of_its_replicas(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    """Submitted through the proxy, answered through it after one replica was killed."""
    devices = free_port()
    homes = _two_homes(tmp_path, postgresql.new_database(), devices)
    people = People(homes[0].analyst, COUNT)
    location = read_configuration(homes[0].configuration).store
    key = load_pem_private_key(homes[0].analyst_key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    with closing(location.open()) as store:
        store.enrol(people.enrolled())
        with (
            serving(homes[0]) as first,
            serving(homes[1]) as second,
            _proxied(tmp_path, devices, [first, second]) as address,
            connect(address, key=key, ca=homes[0].authority) as analyst,
        ):
            study = Study(find("frequency").build(SCHEMA, {"column": "habit"}), SCHEMA, epsilon="2")
            handle = analyst.submit_signed(sign_submission(study, key))
            authority = homes[0].authority.read_bytes()
            people.answer(address, authority, slice(0, COUNT // 2))
            driving = [one.name for one in store.replicas.listing() if one.drives]
            victim = {"first": first, "second": second}[driving[0]]
            victim.process.kill()
            victim.process.wait()
            people.answer(address, authority, slice(COUNT // 2, COUNT))
            result = handle.result(timeout_s=PATIENCE_S).to_json()
        addresses = [entry.event.origin for entry in store.audit.entries()]
        assert addresses == ["127.0.0.1"] * 2  # the caller's, and not the proxy's
        assert result["state"] == "done"
        assert result["answers"] == COUNT
        (request,) = people.requests
        assert len(list(store.reports(request))) == COUNT
        assert store.listing.count()[StudyState.DONE] == 1


def _two_homes(folder: Path, database: str, devices: int) -> tuple[AggregatorHome, AggregatorHome]:
    """Return two folders with the same keys, on one database with the schema.

    Their devices call the port `devices`.
    """
    first = made(folder / "first", now_s=system_now_s())
    second = AggregatorHome(folder / "second", first.analyst)
    text = first.configuration.read_text()
    text = text.replace('store = "sqlite:///store.sqlite"', f'store = "{database}"')
    stated = '# advertised = "devices.example.org:7445"'
    assert stated in text
    text = text.replace(stated, f'advertised = "127.0.0.1:{devices}"')
    senders = '# proxy_protocol = ["10.0.0.5"]'
    assert senders in text
    text = text.replace(senders, 'proxy_protocol = ["127.0.0.2"]')
    first.configuration.write_text(f'replica = "first"\n{text}')
    words = ("--replica", first.folder, "--listen", "127.0.0.1:0")
    done = ran("aggregator", "init", second.folder, *words)  # its name is the folder's: second
    assert done.returncode == 0, done.stderr
    done = ran("aggregator", "migrate", "--config", first.configuration)
    assert done.returncode == 0, done.stderr
    return first, second


@contextmanager
def _proxied(folder: Path, devices: int, replicas: Sequence[Served]) -> Iterator[str]:
    """Run the example before two replicas; yield the open address that it listens on."""
    address = free_address()
    changes = {"bind :7443": f"bind {address}", "bind :7445": f"bind 127.0.0.1:{devices}"}
    changes["maxconn 60000"] = "maxconn 500"
    changes["sc0_conn_cur gt 100"] = "sc0_conn_cur gt 500"  # all devices have one address
    changes["sc0_conn_rate gt 50"] = "sc0_conn_rate gt 5000"
    for one, (open_port, port) in zip(replicas, ((7444, 7447), (7446, 7449)), strict=True):
        mine = one.ready["certificates_port"]
        changes |= {f"127.0.0.1:{open_port}": one.address, f"127.0.0.1:{port}": f"127.0.0.1:{mine}"}
        changes[f"check port {port}"] = f"check port {mine}"
    text = EXAMPLE.read_text()
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    (folder / "haproxy.cfg").write_text(text)
    with subprocess.Popen([HAPROXY, "-db", "-q", "-f", str(folder / "haproxy.cfg")]) as process:
        try:
            until = time.monotonic() + PATIENCE_S
            while not _listens(address):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            yield address
        finally:
            process.kill()


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
