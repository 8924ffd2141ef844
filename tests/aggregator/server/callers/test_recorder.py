"""Audit log of a server: what is recorded, what a replay and a full disk lead to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.server.callers import AuditRecorder, Role, record_command
from askance_aggregator.server.callers.recorder import MAX_REFUSALS
from askance_aggregator.store import (
    AuditEntry,
    AuditEvent,
    AuditLog,
    SqliteStore,
    StudyState,
    verify_entries,
)
from askance_client.codec import digest_of
from askance_client.errors import StoreFailed
from tests.aggregator.server.callers.role_server import (
    CALLS,
    KEYS,
    NOW_S,
    OWNER,
    UNKNOWN,
    metadata,
    outcome,
    public,
    request,
    served,
)


def events(store: SqliteStore) -> list[AuditEvent]:
    entries = store.audit.entries()
    verify_entries(entries)
    return [entry.event for entry in entries]


def test_a_change_is_recorded_before_and_after() -> None:
    store = SqliteStore.in_memory()
    with served(store) as (address, study):
        digest = digest_of(study.study)
        with_ = metadata(Call("Analysts/Cancel"), KEYS[Role.OPERATOR], digest, b"")
        assert outcome(address, Call("Analysts/Cancel"), b"", with_) == ""
    subject = f"study {digest.hex()}"
    assert events(store) == [
        AuditEvent(
            NOW_S, "operator", "operator", "study cancel", subject, "127.0.0.1", done, began=began
        )
        for done, began in (("begun", 0), ("done", 1))
    ]


CHANGES: list[tuple[Call, str, list[str]]] = [  # calls, their words, and their entries
    (Call("Analysts/Submit"), "study submit", ["begun", "done"]),
    (Call("Analysts/Pause"), "study pause", ["begun", "done"]),
    (Call("Analysts/Resume"), "study resume", ["begun", "done"]),
    (Call("Analysts/DeleteReports"), "study delete", ["begun", "refused: open"]),
    (Call("Analysts/Cancel"), "study cancel", ["begun", "done"]),
    (Call("Analysts/DeleteReports"), "study delete", ["begun", "done"]),
    (Call("Analysts/DeleteResults"), "study delete --results", ["begun", "done"]),
    (Call("Operators/TagDevices"), "device tag", ["begun", "done"]),
    (Call("Operators/RevokeDevices"), "device revoke", ["begun", "done"]),
    (Call("Operators/RestoreDevices"), "device restore", ["begun", "done"]),
]
# Refused in version 1, which has no nonce.
ONCE = [
    call
    for call in CALLS
    if call.method in ("Analysts/Pause", "Analysts/Resume") or "Operators" in call.method
]


@pytest.mark.parametrize("version", [1, 2])
def test_every_change_is_recorded_when_it_begins_and_when_it_has_ended(version: int) -> None:
    store, key, expected = SqliteStore.in_memory(), KEYS[Role.ADMIN], []
    with served(store) as (address, study):
        for number, (call, words, entries) in enumerate(CHANGES):
            subject, data = request(call, key, study)
            nonce = bytes([number]) * 16 if version == 2 else b""
            signed = sign_call(call, subject, key, NOW_S, body=data, nonce=nonce)
            outcome(address, call, data, call_metadata(signed))
            if version == 1 and call in ONCE:
                entries = ["refused: nonce-missing"]
            expected += [(words, entry) for entry in entries]
    assert [(one.action, one.outcome) for one in events(store)] == expected


def test_a_read_is_not_recorded() -> None:
    store = SqliteStore.in_memory()
    with served(store) as (address, study):
        for call in (
            Call("Analysts/List"),
            Call("Analysts/Watch"),
            Call("Analysts/Result"),
            Call("Analysts/Export"),
        ):
            subject, data = request(call, KEYS[Role.VIEWER], study)
            with_ = metadata(call, KEYS[Role.VIEWER], subject, data)
            assert outcome(address, call, data, with_) == ""
    assert not store.audit.entries()


def test_every_refusal_is_recorded_with_what_was_proven() -> None:
    store = SqliteStore.in_memory()
    with served(store) as (address, study):
        digest = digest_of(study.study)
        outcome(address, Call("Analysts/Result"), b"", ())
        outcome(
            address,
            Call("Analysts/Result"),
            b"",
            metadata(Call("Analysts/Result"), UNKNOWN, digest, b""),
        )
        stale = sign_call(Call("Analysts/Cancel"), digest, OWNER, NOW_S - 1_000)
        outcome(address, Call("Analysts/Cancel"), b"", call_metadata(stale))
        viewer = KEYS[Role.VIEWER]
        outcome(
            address,
            Call("Analysts/Cancel"),
            b"",
            metadata(Call("Analysts/Cancel"), viewer, digest, b""),
        )
        analyst = KEYS[Role.ANALYST]
        outcome(
            address,
            Call("Analysts/Result"),
            b"",
            metadata(Call("Analysts/Result"), analyst, digest, b""),
        )
        outcome(
            address,
            Call("Analysts/Cancel"),
            b"",
            metadata(Call("Analysts/Cancel"), analyst, digest, b""),
        )
    found = [(one.who, one.action, one.outcome) for one in events(store)]
    assert found == [
        ("", "study result", "refused: malformed"),
        ("", "study result", "refused: untrusted-key"),
        ("", "study cancel", "refused: stale-call"),
        ("viewer", "study cancel", "refused: not-permitted"),
        ("analyst", "study result", "refused: unknown-study"),
        ("analyst", "study cancel", "begun"),
        ("analyst", "study cancel", "refused: unknown-study"),
    ]


def test_a_change_is_made_once_per_nonce_after_a_restart_too() -> None:
    store = SqliteStore.in_memory()
    with served(store) as (address, study):
        key = KEYS[Role.ADMIN]
        subject, data = request(Call("Analysts/Submit"), key, study)
        with_ = metadata(Call("Analysts/Submit"), key, subject, data)
        assert outcome(address, Call("Analysts/Submit"), data, with_) == ""
        assert outcome(address, Call("Analysts/Submit"), data, with_) == "replayed"
    with served(store) as (address, study):
        assert outcome(address, Call("Analysts/Submit"), data, with_) == "replayed"
    assert [one.outcome for one in events(store)] == [
        "begun",
        "done",
        "refused: replayed",
        "refused: replayed",
    ]


def test_a_change_that_began_has_its_end_however_many_calls_are_refused() -> None:
    """A flood of refusals is counted in one entry; the end of a change is an entry of its own."""
    store, key = SqliteStore.in_memory(), KEYS[Role.ADMIN]
    with served(store) as (address, study):
        subject, data = request(Call("Analysts/DeleteReports"), key, study)
        for number in range(MAX_REFUSALS + 2):
            nonce = number.to_bytes(16, "big")
            signed = sign_call(
                Call("Analysts/DeleteReports"), subject, key, NOW_S, body=data, nonce=nonce
            )
            assert (
                outcome(address, Call("Analysts/DeleteReports"), data, call_metadata(signed))
                == "open"
            )
    assert [one.outcome for one in events(store)] == ["begun", "refused: open"] * (MAX_REFUSALS + 2)


class FullLog(AuditLog):
    """A log on a disk that is full after a number of entries."""

    room = 0

    def append(self, event: AuditEvent, nonce: bytes = b"") -> AuditEntry:
        if len(self.entries()) >= self.room:
            raise StoreFailed("store: nothing was acknowledged: disk full")
        return super().append(event, nonce)


class FullStore(SqliteStore):
    """A store whose audit log has room for a number of entries."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.audit = self.full_log = FullLog(self._dialect)


@pytest.mark.parametrize(("room", "state"), [(0, StudyState.OPEN), (1, StudyState.CANCELLED)])
def test_what_cannot_be_recorded_fails(room: int, state: StudyState) -> None:
    store = FullStore.in_memory()
    store.full_log.room = room
    with served(store) as (address, study):
        digest = digest_of(study.study)
        with_ = metadata(Call("Analysts/Cancel"), OWNER, digest, b"")
        assert outcome(address, Call("Analysts/Cancel"), b"", with_) == "store-failed"
        summary = store.listing.entry(digest)
        assert summary is not None
        assert summary.state is state
    assert [entry.event.outcome for entry in store.audit.entries()] == ["begun"] * room


class TestRecorder:
    def test_a_flood_of_refusals_is_counted(self) -> None:
        log, now_s = SqliteStore.in_memory().audit, [NOW_S]
        recorder = AuditRecorder(log, lambda: now_s[0])
        refused = AuditEvent(0, "", "", "Analysts/List", "", "192.0.2.1", "refused: malformed")
        for _ in range(MAX_REFUSALS + 40):
            recorder.refuse(refused)
        assert len(log.entries()) == MAX_REFUSALS
        now_s[0] += 60
        recorder.refuse(refused)
        counts = [entry.event.count for entry in log.entries()]
        assert counts == [1] * MAX_REFUSALS + [40, 1]

    def test_callers_are_counted_apart_and_the_rest_is_recorded_at_the_end(self) -> None:
        log = SqliteStore.in_memory().audit
        recorder = AuditRecorder(log, lambda: NOW_S)
        flood = AuditEvent(0, "", "", "Analysts/List", "", "", "refused: malformed")
        for _ in range(MAX_REFUSALS + 2):
            recorder.refuse(flood)
        recorder.refuse(AuditEvent(0, "ann", "viewer", "Analysts/Cancel", "", "", "refused: x"))
        assert log.entries()[-1].event.who == "ann"
        recorder.flush()
        assert log.entries()[-1].event.who == "ann"
        recorder.flush(all_of_them=True)
        assert log.entries()[-1].event.count == 2

    def test_a_command_is_recorded_with_its_account(self) -> None:
        log = SqliteStore.in_memory().audit
        record_command(
            log, "device revoke", "1 by id", now_s=lambda: NOW_S, changed=1, user=lambda: "root"
        )
        assert log.entries()[0].event == AuditEvent(
            NOW_S, "root", "local", "device revoke", "1 by id", "local", "done", changed=1
        )


def test_no_secret_and_no_value_is_recorded() -> None:
    store = SqliteStore.in_memory()
    with served(store) as (address, study):
        key = KEYS[Role.ADMIN]
        subject, data = request(Call("Analysts/Submit"), key, study)
        outcome(
            address,
            Call("Analysts/Submit"),
            data,
            metadata(Call("Analysts/Submit"), key, subject, data),
        )
    for entry in store.audit.entries():
        content = json.loads(entry.line)
        assert set(content) - {"began"} == {
            *("number", "nonce", "at_unix_s", "who", "role"),
            *("action", "subject", "origin", "outcome", "count"),
        }
        assert public(key).hex() not in entry.line
        assert "habit" not in entry.line
