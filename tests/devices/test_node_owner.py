"""The owner of a device in Node, which runs: what is decided is durable and acted on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from askance_aggregator.analyst import connect
from askance_aggregator.store import StudyState
from tests.aggregator.server.process.people import SCHEMA
from tests.devices import web_site
from tests.devices.scripted import build, missing
from tests.devices.web_site import PATIENCE_S, Site, until

_CANNOT = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CANNOT is not None, reason=_CANNOT or ""),
]


@dataclass
class Owner:
    """An owner at the command line."""

    command: Path
    home: Path

    def asks(self, *words: str) -> str:
        """Run a command to its end and return what it prints; it succeeds."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = ["node", str(self.command), *words, "--home", str(self.home)]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run the device, which is killed at the end of the block if it still runs."""
        line = ["node", str(self.command), "run", "--home", str(self.home)]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "running: 1\n"
                yield process
            finally:
                process.kill()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with web_site.web_site(tmp_path, SCHEMA) as one:
        yield one


@pytest.fixture
def owner(site: Site, tmp_path: Path) -> Owner:
    settings = json.loads((tmp_path / "settings.json").read_text())
    (tmp_path / "schema.json").write_text(json.dumps(settings.pop("schema")))
    (tmp_path / "record.json").write_text('[{"habit": "zzyzx-yes"}]')
    given = {name: value for name, value in settings.items() if name not in ("title", "about")}
    given |= {
        "ca": str(site.home.authority),
        "schema": "../schema.json",
        "records": "../record.json",
        "consent": "ask",
    }
    (tmp_path / "device.json").write_text(json.dumps(given))
    (tmp_path / "token").write_text(site.token())
    one = Owner(build() / "src" / "node" / "command.js", tmp_path / "home")
    one.asks("init", "--configuration", str(tmp_path / "device.json"))
    assert one.asks("enroll", "--token", str(tmp_path / "token")) == "enrolled: 1\n"
    return one


def test_an_owner_decides_while_the_device_runs(site: Site, owner: Owner) -> None:
    """A study is approved before the device is killed, another denied after its next start."""
    ca, key = str(site.home.authority), str(site.home.analyst_key)
    with connect(site.served.address, key=key, ca=ca) as analyst:
        with owner.running() as process:
            first = site.submitted()
            until(lambda: f"{first[:16]} waiting" in owner.asks("status"))
            other = owner.run("approve", "0" * 8)
            assert (other.returncode, other.stdout) == (1, "")
            assert "asked about, got 00000000\n" in other.stderr
            unknown = owner.run("statsu")
            assert (unknown.returncode, unknown.stdout) == (1, "")
            assert unknown.stderr.startswith("command: expected one of those below, got statsu\n")
            assert owner.asks("approve", first[:8]).startswith(
                f"study {first[:16]}: approved until "
            )
            process.send_signal(signal.SIGKILL)  # what was printed is durable
            process.wait()
        assert (owner.home / "control.sock").is_socket()
        assert f"{first[:16]} approved" in owner.asks("status")  # of a device that does not run
        with owner.running() as process:
            assert os.stat(owner.home / "control.sock").st_mode & 0o777 == 0o600
            result = analyst.study(first).result(timeout_s=PATIENCE_S)
            assert (result.state, result.content["users"]) == (StudyState.DONE, 1)
            second = site.submitted()
            until(lambda: f"{second[:16]} waiting" in owner.asks("status"))
            assert owner.asks("deny", second[:16]) == f"study {second[:16]}: denied\n"
            result = analyst.study(second).result(timeout_s=PATIENCE_S)
            assert result.content["refusals"] == {"not_approved": 1}
            assert owner.run("accept-loss").returncode == 1  # only of one that does not run
            process.terminate()
            assert process.wait(timeout=PATIENCE_S) == 0
        assert not (owner.home / "control.sock").exists()
        assert owner.asks("status").startswith("rows: 1, spent: 2 nats by all members\n")
