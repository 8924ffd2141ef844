"""Commands about the audit log, and the log of a process that serves."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from joserfc import jwt

from askance.cli import main
from askance_aggregator.analyst import CallRefused, connect, create_key
from askance_aggregator.clock import system_now_s
from askance_aggregator.operators import OperatorClient
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.home import STORE, AggregatorHome
from askance_aggregator.store import AuditEvent, SqliteStore, StudyState
from askance_aggregator.studies.study import Study
from tests.aggregator.server.callers.issuer import key_of
from tests.aggregator.server.callers.role_server import SCHEMA, learner
from tests.aggregator.server.process.conftest import made, serving

EVENT = AuditEvent(1_800_000_000, "ann", "admin", "Analysts/Cancel", "study 7", "::1", "done")


@pytest.fixture
def kept(tmp_path: Path) -> AggregatorHome:
    """A folder whose log has three entries."""
    home = made(tmp_path / "aggregator")
    with closing(SqliteStore.open(home.folder / STORE)) as store:
        for _ in range(3):
            store.audit.append(EVENT)
    return home


def audit(home: AggregatorHome, *words: str | Path) -> int:
    name, *rest = map(str, words)
    return main(["aggregator", "audit", name, "--config", str(home.configuration), *rest])


def test_show_has_who_what_when_and_from_where(
    kept: AggregatorHome, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(kept, "show", "--limit", "2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "outcome  time (UTC)           action        about    changed  caller       from  entry",
        "done     2027-01-15 08:00:00  study cancel  study 7  -        ann (admin)  ::1   2",
        "done     2027-01-15 08:00:00  study cancel  study 7  -        ann (admin)  ::1   3",
    ]
    assert audit(kept, "show", "--after", "0", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["number"] for entry in told["entries"]] == [1, 2, 3]
    assert told["last"] == 3


def test_an_export_is_verified_and_a_log_that_was_cut_is_found(
    kept: AggregatorHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "audit.jsonl"
    assert audit(kept, "export", file, "--json") == 0
    anchor = json.loads(capsys.readouterr().out)["digest"]
    assert audit(kept, "verify", file, "--expect", anchor) == 0
    assert capsys.readouterr().out == f"3 entries, digest {anchor}\n"
    assert audit(kept, "verify", "--expect", anchor) == 0
    assert audit(kept, "export", file) == 2  # never overwritten
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    capsys.readouterr()
    assert audit(kept, "verify", file) == 0
    assert audit(kept, "verify", file, "--expect", anchor) == 1
    assert "its end was cut off" in capsys.readouterr().err
    with closing(sqlite3.connect(kept.folder / STORE)) as connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("UPDATE audit SET line = replace(line, 'ann', 'eve') WHERE number = 2")
        connection.commit()
    capsys.readouterr()
    assert audit(kept, "verify") == 1
    assert "audit entry 2: expected the digest of its line" in capsys.readouterr().err


def test_a_digest_that_is_none_is_refused(
    kept: AggregatorHome, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(kept, "verify", "--expect", "abc") == 2
    assert "expected 64 hexadecimal digits, got 'abc'" in capsys.readouterr().err


def test_a_process_records_by_names_that_are_configured(
    fresh: AggregatorHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = create_key(tmp_path / "ops.pem")
    public = key.public_key().public_bytes_raw().hex()
    with fresh.configuration.open("a") as file:
        file.write(f'\n[[callers.keys]]\nname = "ops"\nkey = "{public}"\nrole = "operator"\n')
    with serving(fresh) as served:
        with connect(served.address, key=key, ca=fresh.authority) as aggregator:
            assert aggregator.studies() == []
            fleet = OperatorClient(aggregator).fleet()
            assert (fleet.enrolled, fleet.connected, fleet.reports) == (0, 0, 0)
            assert 0 <= fleet.now_unix_s - fleet.started_unix_s < 60
            assert fleet.store_bytes > 10_000
            assert 824 <= (fleet.certificate_ends_unix_s - fleet.now_unix_s) // 86_400 <= 825
            assert (list(fleet.rounds), fleet.costs[-1].studies) == ([], 0)
            with pytest.raises(CallRefused, match="found none"):
                aggregator.study("00" * 32).cancel()
        with (
            connect(served.address, key=fresh.analyst_key, ca=fresh.authority) as aggregator,
            pytest.raises(CallRefused, match="expected a role"),
        ):
            OperatorClient(aggregator).fleet()
        assert served.ended_by(signal.SIGTERM) == 0
        (logged,) = [one for one in served.events() if one["event"] == "audit log"]
    assert audit(fresh, "show", "--json") == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [(one["who"], one["role"], one["outcome"]) for one in entries] == [
        ("ops", "operator", "begun"),
        ("ops", "operator", "refused: unknown-study"),
        ("analyst", "analyst", "refused: not-permitted"),
    ]
    assert audit(fresh, "verify", "--expect", logged["digest"]) == 0


def test_a_token_is_in_no_log_of_a_process(
    fresh: AggregatorHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = key_of("ES256", "served")
    (fresh.folder / "jwks.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    with fresh.configuration.open("a") as file:
        file.write(
            '\n[callers.oidc]\nissuer = "https://id.example.org"\naudience = "askance"\n'
            'jwks = "jwks.json"\n[callers.oidc.roles]\nops = "operator"\n'
        )
    claims = {
        "iss": "https://id.example.org",
        "aud": "askance",
        "sub": "ann",
        "exp": system_now_s() + 600,
        "roles": "ops",
    }
    tokens = [
        jwt.encode({"alg": "ES256", "kid": key.kid}, {**claims, **changed}, key, ["ES256"])
        for changed in ({}, {"aud": "another"})
    ]
    token = tmp_path / "token"
    with serving(fresh) as served:
        token.write_text(tokens[0])
        with connect(served.address, bearer_token_file=token, ca=fresh.authority) as aggregator:
            assert OperatorClient(aggregator).fleet().enrolled == 0
            token.write_text(tokens[1])
            with pytest.raises(CallRefused) as caught:
                aggregator.studies()
            assert caught.value.reason == "bad-token"
        assert served.ended_by(signal.SIGTERM) == 0
        logged = served.log.read_text()
    assert audit(fresh, "show", "--json") == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [(one["who"], one["outcome"]) for one in entries] == [("", "refused: bad-token")]
    stored = (fresh.folder / STORE).read_bytes()
    for one in tokens:
        for part in one.split(".")[1:]:
            assert part not in logged
            assert part.encode() not in stored


def test_an_issuer_needs_its_extra(kept: AggregatorHome, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept.configuration.open("a") as file:
        file.write(
            '\n[callers.oidc]\nissuer = "i"\naudience = "a"\njwks = "jwks.json"\n'
            '[callers.oidc.roles]\nops = "operator"\n'
        )
    settings = read_configuration(kept.configuration).callers
    monkeypatch.setitem(sys.modules, "askance_aggregator.server.callers.bearer", None)
    with pytest.raises(NotOperable, match=r"callers.oidc: expected joserfc.*askance\[oidc\]"):
        settings.tokens(system_now_s)


def test_a_process_lets_a_study_wait_for_its_approver(
    fresh: AggregatorHome, tmp_path: Path
) -> None:
    key = create_key(tmp_path / "bob.pem")
    public = key.public_key().public_bytes_raw().hex()
    with fresh.configuration.open("a") as file:
        file.write("\n[approval]\nneeded = true\n[[callers.keys]]\n")
        file.write(f'name = "bob"\nkey = "{public}"\nrole = "approver"\n')
    with closing(SqliteStore.open(fresh.folder / STORE)) as store:
        store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(2_000))
    study = Study(learner(), SCHEMA, epsilon="2")
    with (
        serving(fresh) as served,
        connect(served.address, key=fresh.analyst_key, ca=fresh.authority) as ann,
        connect(served.address, key=key, ca=fresh.authority) as bob,
    ):
        handle = ann.submit(study)
        assert handle.status().reason == "awaiting-approval"
        with pytest.raises(CallRefused) as refused:
            handle.approve()
        assert refused.value.reason == "not-permitted"
        bob.study(handle.id).approve()
        assert (handle.status().reason, handle.status().approval.approver) == ("", "bob")
        assert bob.study(handle.id).refuse("asked for too much") is StudyState.CANCELLED
        ended = handle.status()
        assert (ended.reason, ended.approval.reason) == ("approval-withdrawn", "asked for too much")
