"""Output of the operator's commands, as text and as JSON."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from askance.cli import main
from askance.cli.aggregator.status import replica_line
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process import status as process_status
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.tokens import read_tokens
from askance_aggregator.store import ReplicaCounts, ReplicaEntry, SqliteStore
from askance_client.messages import SignedStudy


def test_init_says_what_devices_and_analysts_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["aggregator", "init", str(tmp_path / "one"), "--host", "ask.example.org", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    read = read_configuration(Path(told["configuration"]))
    assert set(read.analysts) == {bytes.fromhex(told["analyst_public_key"])}
    assert Path(told["ca"]).read_bytes().startswith(b"-----BEGIN CERTIFICATE")
    assert Path(told["analyst_key"]).is_file()
    assert main(["aggregator", "init", str(tmp_path / "two")]) == 0
    said = capsys.readouterr().out
    for name in ("aggregator.toml", "ca.pem", "analyst.pem"):
        assert str(tmp_path / "two" / name) in said


def test_a_token_stands_alone_on_stdout(
    home: AggregatorHome, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["aggregator", "token", "--config", str(home.configuration)]
    assert main([*words, "--devices", "3", "--days", "2"]) == 0
    said = capsys.readouterr()
    tokens = read_tokens(home.folder / "enrolment.key", system_now_s)
    assert tokens.verify(said.out.encode())[1] == 3
    assert said.err == "enrolls 3 devices, for 2 days\n"
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["devices"] == 1
    assert told["ends_unix_s"] - system_now_s() == pytest.approx(7 * 86_400, abs=5)
    assert tokens.verify(told["token"].encode())[1] == 1


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["people", "programs"])
def test_status_without_a_process_is_what_the_store_says(
    words: list[str], home: AggregatorHome, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nothing listens on port 1 of the loopback.
    command = ["aggregator", "status", "--config", str(home.configuration)]
    assert main([*command, "--listen", "127.0.0.1:1", *words]) == 0
    said = capsys.readouterr().out
    if words:
        told = json.loads(said)
        assert told.pop("store_bytes") > 0
        assert told.pop("certificate_ends_unix_s") > 1_800_000_000
        assert told.pop("counts_key") == (home.folder / "counts.pub").read_text().strip()
        digest = told.pop("audit_digest")  # none before the first entry
        assert digest is None or re.fullmatch("[0-9a-f]{64}", digest)
        assert told == {
            "serving": False,
            "address": "127.0.0.1:1",
            "devices": 0,
            "connected": 0,
            "open_rounds": 0,
            "studies": {"open": 0, "done": 0, "failed": 0, "cancelled": 0},
            "reports": None,
            "failures_in_a_row": None,
            "commit_failures": None,
            "oldest_round_s": None,
            "seen": [{"tag": "", "devices": 0, "today": 0, "week": 0, "month": 0, "never": 0}],
            "rounds": [],
            "replicas": [],
            "webhooks": [],
            "outer": None,
        }
    else:
        assert said.splitlines()[0] == "127.0.0.1:1: not serving"
        assert "  devices: 0" in said
        assert "  studies: none" in said
        assert "  oldest round: none" in said


def test_a_token_is_written_to_a_file_that_only_its_owner_may_read(
    fresh: AggregatorHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the shell's redirection, which documents showed before, any user could read it."""
    words = ["aggregator", "token", "--config", str(fresh.configuration), "--devices", "3"]
    file, tokens = tmp_path / "token", read_tokens(fresh.folder / "enrolment.key", system_now_s)
    before = os.umask(0)
    try:
        assert main([*words, "--out", str(file)]) == 0
    finally:
        os.umask(before)
    said = capsys.readouterr()
    token = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert tokens.verify(token.encode())[1] == 3
    assert said.out == ""
    assert token.strip() not in said.err
    assert main([*words, "--out", str(file)]) == 2
    assert f"--out: expected a new file, got {file}, which exists" in capsys.readouterr().err
    assert file.read_text() == token
    file.chmod(0o644)
    assert main([*words, "--out", str(file), "--force", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert file.read_text() != token
    assert file.stat().st_mode & 0o777 == 0o600
    assert tokens.verify(file.read_bytes())[0].hex() == told["id"]
    assert sorted(told) == ["devices", "ends_unix_s", "id", "tags"]
    assert main([*words, "--out", str(tmp_path / "nowhere" / "token")]) == 2
    assert "cannot be made: No such file or directory" in capsys.readouterr().err


def make_older(store: SqliteStore, number: int, age_s: int) -> None:
    """Let a round have been opened so many seconds earlier."""
    earlier = "UPDATE rounds SET opened_unix_s = opened_unix_s - ? WHERE number = ?"
    store._dialect.write(lambda execute: execute(earlier, (age_s, number)))


@pytest.mark.parametrize(
    ("ages_s", "shown", "at_least_s"),
    [((), "oldest round: none", None), ((61, 5), "oldest round: 6", 61)],
)
def test_facts_of_the_store_are_read_there_whatever_a_process_shows(
    ages_s: tuple[int, ...],
    shown: str,
    at_least_s: int | None,
    fresh: AggregatorHome,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A process showed what it had counted itself: ended studies as open, rounds made young."""
    with closing(SqliteStore.open_beside(fresh.folder / "store.sqlite")) as store:
        store.enrol([(b"device", bytes(32))])
        store.add_study(bytes(32), SignedStudy(b"a study", b"a key", b"a signature"))
        for number, age_s in enumerate(ages_s):
            store.open_round(bytes(32), number, [], None)
            make_older(store, number, age_s)
    page = """
askance_devices 7
askance_connected 3
askance_open_rounds 4
askance_oldest_round_age_seconds 1
askance_studies{state="open"} 0
askance_studies{state="done"} 9
askance_reports_total{status="accepted"} 40
"""
    found = list(text_string_to_metric_families(page))
    monkeypatch.setattr(process_status, "ask_health", lambda *_: True)
    monkeypatch.setattr(process_status, "read_page", lambda _: found)
    command = ["aggregator", "status", "--config", str(fresh.configuration)]
    command += ["--listen", "127.0.0.1:1"]
    assert main(command) == 0
    assert f"  {shown}" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["devices"], told["connected"], told["open_rounds"]) == (1, 3, len(ages_s))
    assert told["studies"] == {"open": 1, "done": 0, "failed": 0, "cancelled": 0}
    assert told["reports"] == {"accepted": 40}
    if at_least_s is None:
        assert told["oldest_round_s"] is None
    else:
        assert at_least_s <= told["oldest_round_s"] < at_least_s + 9


@pytest.mark.parametrize(
    ("replica", "line"),
    [
        (
            ReplicaEntry("b", "h:2", 0.4, ("3f" * 32,), 9.0, ReplicaCounts(5_000, 12, 400)),
            "replica b: h:2, seen 0 s ago, 5,000 connected, 400 reports accepted,"
            " drives 3f3f3f3f3f3f3f3f",
        ),
        (
            ReplicaEntry("b", "h:2", 61.0, (), 90.0, ReplicaCounts(5_000, 12, 400)),
            "replica b: h:2, seen 61 s ago, not counted (then 5,000 connected, 400 reports"
            " accepted), drives no study",
        ),
        (
            ReplicaEntry("b", "", 0.0, ()),
            "replica b: starting, seen 0 s ago, no counts yet, drives no study",
        ),
    ],
    ids=["serving", "died", "starting"],
)
def test_a_replica_is_shown_with_the_age_of_its_counts(replica: ReplicaEntry, line: str) -> None:
    assert replica_line(replica) == line


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("aggregator", 2),
        ("aggregator init", 2),
        ("aggregator init here --listen nowhere", 2),
        ("aggregator init here --host a_b!", 2),
        ("aggregator serve", 2),
        ("aggregator serve --config none.toml", 2),
        ("aggregator serve --store mysql://here", 2),
        ("aggregator serve --store postgresql://me:secret@here/there", 2),
        ("aggregator migrate", 2),
        ("aggregator migrate --store postgresql://me:secret@here/there", 2),
        ("aggregator token --devices 0", 2),
        ("aggregator status --config none.toml", 2),
        ("aggregator init file", 1),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    words: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    assert main([*words.split(), "--json"]) == code
    said = capsys.readouterr()
    assert json.loads(said.out)["failure"]["message"] in said.err
    assert said.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
