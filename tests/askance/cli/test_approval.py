"""`askance study approve` and `refuse`: an analyst's study, an approver's commands, the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance.cli import main
from askance_aggregator.analyst import CallRefused, connect
from askance_aggregator.server.callers import Role
from askance_aggregator.server.studies import SubmissionLimits
from askance_aggregator.store import Conclusion, SqliteStore, StudyState
from askance_client.codec import digest_of
from tests.aggregator.server.callers.role_server import KEYS, NOW_S, served, signed_study
from tests.askance.console.consoles import console_of

RULE = SubmissionLimits(approval=True)


@pytest.fixture(autouse=True)
def the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands sign calls at the server's time."""
    monkeypatch.setattr("askance.connect", partial(connect, now_s=lambda: NOW_S))


DEFINITION = """
learner = "frequency"
epsilon = "1"
[schema.fields]
smokes = { type = "category", labels = ["yes", "no"] }
"""


def test_an_analyst_learns_that_the_study_waits(
    aggregator: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(DEFINITION)
    where = ["--aggregator", aggregator[0], "--key", key_file(tmp_path, Role.ANALYST)]
    assert main(["study", "submit", str(file), *where]) == 0
    assert "It asks no device before an approver has signed it (study approve" in (
        capsys.readouterr().out
    )
    assert main(["study", "submit", str(file), *where, "--json"]) == 0
    submitted = json.loads(capsys.readouterr().out)
    assert (submitted["state"], submitted["reason"]) == ("open", "awaiting-approval")


@pytest.fixture
def store() -> SqliteStore:
    return SqliteStore.in_memory()


@pytest.fixture
def aggregator(store: SqliteStore) -> Iterator[tuple[str, str]]:
    """An aggregator whose studies wait; yields its address and the study that waits."""
    with served(store, studies=RULE) as (address, study):
        yield address, digest_of(study.study).hex()


def key_file(tmp_path: Path, role: Role) -> str:
    path = tmp_path / f"{role}.pem"
    pem = KEYS[role].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem)
    return str(path)


def test_an_approver_approves_and_withdraws(
    aggregator: tuple[str, str],
    store: SqliteStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, study = aggregator
    where = ["--aggregator", address, "--key", key_file(tmp_path, Role.APPROVER)]
    key = KEYS[Role.APPROVER].public_key().public_bytes_raw().hex()

    def run(*words: str) -> str:
        assert main(["study", *words, *where]) == 0
        return capsys.readouterr().out

    (listed,) = json.loads(run("list", "--state", "awaiting-approval", "--json"))["studies"]
    assert (listed["study"], listed["reason"]) == (study, "awaiting-approval")
    assert "awaiting-approval" in run("list")
    assert run("show", study[:12]).splitlines()[-1] == (
        "awaiting-approval: the study asks no device until an approver has signed it"
    )
    assert run("approve", study[:12]).splitlines() == [
        f"study {study} is approved, and begins: frequency, 2 nats",
        "purpose: none is stated",
    ]
    assert run("list", "--state", "awaiting-approval") == "no study is awaiting-approval\n"
    shown = f"approved by approver (key {key[:16]}) at 2027-01-15T08:00Z"
    assert shown in run("show", study).splitlines()
    approval = json.loads(run("show", study, "--json"))["approval"]
    assert (approval["approver"], approval["public_key"]) == ("approver", key)
    assert run("refuse", study, "--reason", "the wrong tags") == f"study {study} is cancelled\n"
    assert {
        shown,
        "approval withdrawn by approver at 2027-01-15T08:00Z: the wrong tags",
        "approval-withdrawn: approval: withdrawn by approver: the wrong tags",
    } <= set(run("show", study).splitlines())
    logged = [entry.event for entry in store.audit.entries()]
    assert [(one.who, one.role, one.action, one.outcome) for one in logged] == [
        ("approver", "approver", "study approve", "begun"),
        ("approver", "approver", "study approve", "done"),
        ("approver", "approver", "study refuse", "begun"),
        ("approver", "approver", "study refuse", "done"),
    ]
    assert {one.subject for one in logged} == {f"study {study}"}


REFUSED = [
    (Role.VIEWER, ["approve"], "not-permitted"),
    (Role.OPERATOR, ["refuse", "--reason", "no"], "not-permitted"),
    (Role.ANALYST, ["refuse", "--reason", "no"], "not-permitted"),
    (Role.APPROVER, ["refuse", "--reason", ""], "malformed"),
    (Role.APPROVER, ["refuse", "--reason", "x" * 201], "malformed"),
]


def test_a_decision_is_refused(
    aggregator: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, study = aggregator
    for role, words, reason in REFUSED:
        where = ["--aggregator", address, "--key", key_file(tmp_path, role), "--json"]
        assert main(["study", words[0], study, *words[1:], *where]) in (1, 2)
        found = json.loads(capsys.readouterr().out)["failure"]["reason"]
        assert found == reason, (role, words)


@pytest.mark.parametrize("state", [StudyState.DONE, StudyState.FAILED])
def test_a_study_that_has_ended_is_not_refused(
    aggregator: tuple[str, str],
    store: SqliteStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    state: StudyState,
) -> None:
    address, study = aggregator
    where = ["--aggregator", address, "--key", key_file(tmp_path, Role.APPROVER)]
    store.conclude(bytes.fromhex(study), Conclusion(state, "done", "", "{}", 9))
    assert main(["study", "refuse", study, "--reason", "too late", *where]) == 1
    error = f"study: expected one that is open, got one that is {state.name.lower()}"
    assert error in capsys.readouterr().err
    assert main(["study", "approve", study, *where]) == 1
    logged = [(entry.event.action, entry.event.outcome) for entry in store.audit.entries()]
    assert logged == [
        ("study refuse", "begun"),
        ("study refuse", "refused: ended"),
        ("study approve", "begun"),
        ("study approve", "refused: ended"),
    ]


def test_an_administrator_cannot_approve_an_own_study(aggregator: tuple[str, str]) -> None:
    address, _ = aggregator
    with connect(address, key=KEYS[Role.ADMIN], now_s=lambda: NOW_S) as admin:
        handle = admin.submit_signed(signed_study(KEYS[Role.ADMIN]))
        with pytest.raises(CallRefused, match="expected another key than"):
            handle.approve()
        assert handle.status().reason == "awaiting-approval"


def test_the_console_approves_and_refuses(aggregator: tuple[str, str]) -> None:
    address, study = aggregator
    path = f"/studies/{study}"
    with console_of(Role.APPROVER, aggregator=address) as approver:
        approver.log_in()
        waiting = approver.get("/studies?state=awaiting-approval").text
        assert f'href="{path}"' in waiting
        text = approver.get(path).text
        assert "Approve and sign" in text
        assert 'action="' + path + '/cancel"' not in text  # an approver cancels nothing
        assert approver.post(f"{path}/refuse", [("reason", " ")]).status == 400
        assert approver.post(f"{path}/approve").headers["location"] == path
        text = approver.get(path).text
        assert "Approved by <strong>approver</strong>" in text
        assert "Approve and sign" not in text
        assert approver.post(f"{path}/refuse", [("reason", "too <late>")]).status == 303
        text = approver.get(path).text
        assert "Approval withdrawn by <strong>approver</strong>" in text
        assert "too &lt;late&gt;" in text


def test_the_console_offers_no_approval_to_another_role(aggregator: tuple[str, str]) -> None:
    address, study = aggregator
    for role in (Role.VIEWER, Role.OPERATOR):
        with console_of(role, aggregator=address) as visitor:
            visitor.log_in()
            text = visitor.get(f"/studies/{study}").text
            assert "awaiting-approval" in text
            assert f"/studies/{study}/approve" not in text
            assert f"/studies/{study}/refuse" not in text
