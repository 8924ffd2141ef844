"""The command `askance console`, as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from askance_aggregator.analyst import create_key
from askance_client.addresses import Address
from tests.askance.console.consoles import Visitor


def test_a_console_starts_without_its_aggregator_and_ends_in_order(tmp_path: Path) -> None:
    create_key(tmp_path / "ops.pem")
    command = [sys.executable, "-m", "askance", "console", "--json", "--key", "ops.pem"]
    options = ["--aggregator", "127.0.0.1:1", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        assert printed["login"].startswith(printed["listening"] + "/login?token=")
        address = Address.of(printed["listening"].removeprefix("http://"))
        visitor = Visitor(address, links=[printed["login"]])
        visitor.log_in()
        answer = visitor.get("/devices")
        assert answer.status == 502
        assert "The aggregator cannot be reached" in answer.text
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("listen", "complaint"),
    [("0.0.0.0:0", "--certificate"), ("nowhere", "--listen: expected HOST:PORT, got 'nowhere'")],
)
def test_an_address_that_cannot_be_is_refused(listen: str, complaint: str, tmp_path: Path) -> None:
    create_key(tmp_path / "ops.pem")
    command = [sys.executable, "-m", "askance", "console", "--key", "ops.pem"]
    done = subprocess.run(
        [*command, "--listen", listen], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr
