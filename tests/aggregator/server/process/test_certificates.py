"""Devices with certificates and an aggregator, as processes: enrolled, asked, renewed, refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.home import AggregatorHome
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, made, ran, serving
from tests.aggregator.server.process.people import LABELS, submit
from tests.client.process.conftest import ENVIRONMENT

LIFE_S = 12  # renewed after 8 seconds
PEOPLE = f'name = "people"\n[fields]\nhabit = {{ type = "category", labels = {list(LABELS)} }}\n'


def with_certificates(folder: Path, life_s: int = LIFE_S) -> AggregatorHome:
    """An aggregator whose devices' certificates are short-lived."""
    home = made(folder, now_s=system_now_s())
    text = home.configuration.read_text()
    assert "\nlife_s = 2592000\n" in text
    text = text.replace("life_s = 2592000", f"life_s = {life_s}")
    text = text.replace('# authority = "ca.pem"', 'authority = "ca.pem"')
    home.configuration.write_text(text)
    return home


def token(home: AggregatorHome) -> str:
    done = ran("aggregator", "token", "--config", home.configuration, "--devices", "9", "--json")
    return str(json.loads(done.stdout)["token"])


class Edge:
    """A device's folder of one user, whose commands are processes."""

    def __init__(self, path: Path, served: Served) -> None:
        path.mkdir()
        (path / "people.toml").write_text(PEOPLE)
        (path / "people.csv").write_text(f"id,habit\na,{LABELS[0]}\nb,{LABELS[1]}\n")
        self.path = path / "device"
        there = ("--aggregator", served.address, "--ca", str(served.home.authority))
        policy = ("--analyst", served.home.analyst.hex(), "--life-epsilon", "8")
        files = ("--schema", str(path / "people.toml"), "--data", str(path / "people.csv"))
        done = self.command("init", *there, *policy, *files, "--key", "id")
        assert done.returncode == 0, done.stderr
        told = self.path / "device.toml"
        told.write_text(told.read_text().replace("# release_ms = 1000", "release_ms = 20"))

    @property
    def certificate(self) -> Path:
        return self.path / "certificate.json"

    def command(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that has come to its end."""
        return subprocess.run(
            [sys.executable, "-m", "askance_client", name, str(self.path), *words],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=PATIENCE_S,
            check=False,
        )

    def enroll(self, home: AggregatorHome) -> dict[str, Any]:
        done = self.command("enroll", "--token", token(home), "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @contextmanager
    def running(self) -> Iterator[Path]:
        """Run until the end of the block; where its log goes."""
        log = self.path / "run.log"
        with (
            log.open("a") as stderr,
            subprocess.Popen(
                [sys.executable, "-m", "askance_client", "run", str(self.path)],
                stderr=stderr,
                env=ENVIRONMENT,
            ) as process,
        ):
            try:
                yield log
            finally:
                process.terminate()
                process.wait(timeout=PATIENCE_S)


def until(met: Callable[[], bool], shown: Callable[[], str]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline, shown()
        time.sleep(0.05)


def ended(served: Served, digest: bytes) -> bool:
    """Return whether a study has ended."""
    return any(
        event["event"] == "a study has ended" and event["study"] == digest.hex()[:16]
        for event in served.events()
    )


def asked(served: Served) -> None:
    """Ask all users, and wait for their answers."""
    key = load_pem_private_key(served.home.analyst_key.read_bytes(), None)
    with served.channel() as channel:
        digest = submit(channel, key)
    until(lambda: ended(served, digest), served.log.read_text)


@pytest.mark.slow
def test_a_gateway_enrols_answers_renews_and_is_refused_with_anothers_certificate(
    tmp_path: Path,
) -> None:
    """Over its stream it answers a study before and after it renewed its certificate."""
    home = with_certificates(tmp_path / "aggregator")
    with serving(home) as served:
        assert served.ready["certificates_port"]
        edge, other = Edge(tmp_path / "one", served), None
        assert edge.enroll(home)["certificate_ends_unix_s"] <= system_now_s() + LIFE_S
        assert edge.certificate.stat().st_mode & 0o777 == 0o600
        first = edge.certificate.read_bytes()
        with edge.running() as log:
            asked(served)
            until(lambda: edge.certificate.read_bytes() != first, log.read_text)
            asked(served)
            assert "certificate:" not in log.read_text()
        other = Edge(tmp_path / "other", served)
        other.enroll(home)
        edge.certificate.write_bytes(other.certificate.read_bytes())
        done = edge.command("run", "--once", "--json")
        assert json.loads(done.stdout)["failed"] == 2
        assert "the caller's own certificate, got one of another holder" in done.stderr
        edge.certificate.unlink()  # as in a folder that was made by an earlier version
        assert json.loads(edge.command("run", "--once", "--json").stdout)["failed"] == 0
        assert edge.certificate.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_devices_renew_onto_a_new_authority_and_the_old_one_is_retired(tmp_path: Path) -> None:
    """A gateway answers before, within and after the overlap; its process is not started again."""
    home = with_certificates(tmp_path / "aggregator", 2 * LIFE_S)
    config = ("--config", home.configuration)

    def issuer(edge: Edge) -> x509.Name:
        chain = json.loads(edge.certificate.read_text())["chain"]
        return x509.load_pem_x509_certificate(chain.encode()).issuer

    with serving(home) as served:
        edge = Edge(tmp_path / "one", served)
        edge.enroll(home)
        first = issuer(edge)
        with edge.running() as log:
            asked(served)
            assert ran("aggregator", "certificates", "rotate", *config).returncode == 0
            assert ran("aggregator", "certificates", "renew", *config).returncode == 0
            assert ran("aggregator", "reload", *config).returncode == 0
            asked(served)
            until(lambda: issuer(edge) != first, log.read_text)
            until(
                lambda: ran("aggregator", "certificates", "retire", *config).returncode == 0,
                served.log.read_text,
            )
            assert ran("aggregator", "reload", *config).returncode == 0
            until(
                lambda: served.log.read_text().count("the configuration was read again") == 2,
                served.log.read_text,
            )
            asked(served)
            assert "certificate:" not in log.read_text()
        assert json.loads(edge.command("run", "--once", "--json").stdout)["failed"] == 0
