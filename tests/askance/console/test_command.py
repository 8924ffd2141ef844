"""The command `askance console`, as a process."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from askance.cli import main
from askance.cli.console import add_arguments
from askance.console.openid import ForwardedToken
from askance_aggregator.analyst import create_key
from askance_client.addresses import Address
from tests.askance.console.consoles import Visitor
from tests.askance.console.open_id import CLIENT, SECRET, Browser, Clock, issuing


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


def test_each_token_that_can_be_forwarded_is_offered() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (offered,) = (one.choices for one in parser._actions if one.dest == "oidc_token")
    assert tuple(offered or ()) == tuple(ForwardedToken)


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


def test_a_console_of_several_people_starts_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    command = [sys.executable, "-m", "askance", "console", "--json", "--listen", "127.0.0.1:0"]
    with issuing(Clock(int(time.time()))) as issuer:
        options = ["--aggregator", "127.0.0.1:1", "--oidc-issuer", issuer.url]
        client = ["--oidc-client", CLIENT, "--oidc-client-secret-file", "secret"]
        with subprocess.Popen(
            [*command, *options, *client],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            printed = json.loads(process.stdout.readline())
            assert printed["login"] == printed["listening"] + "/login"
            browser = Browser(Address.of(printed["listening"].removeprefix("http://")))
            assert browser.get("/login?token=" + "0" * 64).status == 200
            assert browser.get(browser.begin()).status == 200
            assert browser.get("/devices").status == 502  # a session, and no aggregator
            process.send_signal(signal.SIGTERM)
            rest, errors = process.communicate(timeout=30)
        assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--oidc-issuer", "https://id"], "expected --oidc-issuer and --oidc-client, got one"),
        (["--oidc-client", "c"], "expected --oidc-issuer and --oidc-client, got one"),
        (["--oidc-issuer", "https://id", "--oidc-client", "c", "--key", "k"], "neither --key nor"),
        (["--oidc-issuer", "http://id", "--oidc-client", "c"], "--oidc-issuer: expected https"),
        (
            [
                *("--oidc-issuer", "https://id", "--oidc-client", "c"),
                *("--oidc-client-secret-file", "none"),
            ],
            "--oidc-client-secret-file: expected a file with a text",
        ),
        (["--oidc-issuer", "https://id", "--oidc-client", "c", "--listen", "0.0.0.0:0"], "TLS"),
    ],
)
def test_options_of_several_people_are_whole(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", *words]) == 2
    assert complaint in capsys.readouterr().err
