"""Settings that change while an aggregator serves, and secrets that no log has."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc_health.v1 import health_pb2, health_pb2_grpc

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.certificates import self_made
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.tokens import read_tokens
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, ran, serving
from tests.aggregator.server.process.people import People, submit

READ, NOT_READ = "the configuration was read again", "the configuration was not read again"


def awaited(served: Served, event: str, times: int = 1) -> dict[str, Any]:
    """The last event of a name, when it was logged so often."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = [one for one in served.events() if one["event"] == event]
        if len(found) >= times:
            return found[-1]
        time.sleep(0.05)
    raise AssertionError(served.log.read_text())


def reload(home: AggregatorHome) -> None:
    done = ran("aggregator", "reload", "--config", home.configuration)
    assert done.returncode == 0, done.stderr


def serves(served: Served, authority: Path) -> bool:
    """Return whether a new connection that pins an authority is answered."""
    with served.channel(authority) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        except grpc.RpcError:
            return False
    return True


def until_served(served: Served, authority: Path) -> None:
    """Wait until new connections see a certificate: it goes by a pipe to the outer process."""
    deadline = time.monotonic() + PATIENCE_S
    while not serves(served, authority):
        assert time.monotonic() < deadline, served.log.read_text()
        time.sleep(0.05)


def test_certificates_keys_and_limits_change_under_an_open_stream(
    fresh: AggregatorHome, tmp_path: Path
) -> None:
    """The stream is served before and after; a bad file and a bad key change nothing."""
    people, text = People(fresh.analyst, 1), fresh.configuration.read_text()
    token = read_tokens(fresh.folder / "enrolment.key", system_now_s).issue(1, 1).text
    authority, server = self_made([], system_now_s())
    other, new = tmp_path / "other.pem", Ed25519PrivateKey.generate()
    other.write_bytes(authority.certificate)
    assert ran("aggregator", "reload", "--config", fresh.configuration).returncode == 1
    with serving(fresh) as served, ExitStack() as held:
        with served.channel() as channel:
            people.enrol(channel, token)
        pinned = fresh.authority.read_bytes()
        stream = people.stream(held.enter_context(people.channel(served.address, pinned)))
        (fresh.folder / "server.pem").write_bytes(server.certificate)
        served.process.send_signal(signal.SIGHUP)
        assert "expected the certificate's key" in awaited(served, NOT_READ)["message"]
        assert serves(served, fresh.authority)
        (fresh.folder / "server.key").write_bytes(server.key)
        public = new.public_key().public_bytes_raw().hex()
        changed = text.replace(fresh.analyst.hex(), public).replace("127.0.0.1:0", "127.0.0.1:1", 1)
        changed = changed.replace("idle_s = 600", "idle_s = 60")
        assert '{ analyst = "' in changed
        fresh.configuration.write_text(changed.replace('{ analyst = "', '{ bob = "'))
        (fresh.folder / "enrolment.key").write_bytes(bytes(32))
        reload(fresh)
        awaited(served, READ)
        waiting = awaited(served, "settings that wait for a restart")
        assert waiting["settings"] == ["listen", "limits.idle_s"]
        until_served(served, other)
        assert not serves(served, fresh.authority)
        with served.channel(other) as channel:
            with pytest.raises(grpc.RpcError) as refused:
                people.enrol(channel, token)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            with pytest.raises(grpc.RpcError):
                submit(channel, load_pem_private_key(fresh.analyst_key.read_bytes(), None))
            submit(channel, new)
        assert next(stream)  # the study reaches the stream that was open before
        fresh.configuration.write_text("nonsense")
        served.process.send_signal(signal.SIGHUP)
        awaited(served, NOT_READ, 2)
        assert serves(served, other)
    fresh.configuration.write_text(text)
    shown = ran("aggregator", "audit", "show", "--json", "--config", fresh.configuration)
    found = [(one["who"], one["outcome"]) for one in json.loads(shown.stdout)["entries"]]
    assert found == [("", "refused: untrusted-key"), ("bob", "begun"), ("bob", "done")]


def test_secrets_of_the_environment_serve_and_stand_in_no_log(
    fresh: AggregatorHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = (fresh.folder / "server.key").read_text(), os.urandom(32)
    monkeypatch.setenv("A_TLS_KEY", key)
    monkeypatch.setenv("AN_ENROLMENT_KEY", secret.hex())
    text = fresh.configuration.read_text().replace('level = "info"', 'level = "debug"')
    text = text.replace('key = "server.key"', 'key_env = "A_TLS_KEY"')
    text = text.replace('key = "enrolment.key"', 'key_env = "AN_ENROLMENT_KEY"')
    fresh.configuration.write_text(text)
    (fresh.folder / "server.key").unlink()
    (fresh.folder / "enrolment.key").unlink()
    people = People(fresh.analyst, 1)
    done = ran("aggregator", "token", "--config", fresh.configuration)
    with serving(fresh) as served:
        with served.channel() as channel:
            assert people.enrol(channel, done.stdout.strip()) == (1, 0)
            with pytest.raises(grpc.RpcError):
                people.enrol(channel, "nothing")
        served.process.send_signal(signal.SIGHUP)
        awaited(served, READ)
        assert served.ended_by(signal.SIGTERM) == 0
    log = served.log.read_text()
    secrets = [secret.hex(), done.stdout.strip(), *people.secrets(), *key.splitlines()[1:-1]]
    assert not [one for one in secrets if one in log]
    monkeypatch.delenv("A_TLS_KEY")
    refused = ran("aggregator", "serve", "--config", fresh.configuration)
    assert refused.returncode == 1
    assert "key $A_TLS_KEY: cannot be read: it is not set" in refused.stderr
