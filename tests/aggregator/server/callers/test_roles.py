"""Roles of callers: every call of the services, by each role and without an identity."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256

import pytest

from askance_aggregator.analyst import connect
from askance_aggregator.analyst.calls import (
    Call,
    CallRefused,
    call_metadata,
    sign_call,
)
from askance_aggregator.server.callers import (
    RULES,
    Admitted,
    AuditRecorder,
    Caller,
    Callers,
    CallRule,
    Gate,
    Role,
    Scope,
)
from askance_aggregator.server.callers.roles import CallEffects, action_words
from askance_aggregator.server.services.analysts import AnalystsServicer
from askance_aggregator.server.services.operators import OperatorsServicer
from askance_aggregator.server.services.servicer import Servicer
from askance_aggregator.store import SqliteStore
from askance_client.codec import digest_of
from askance_client.messages import SignedStudy
from askance_client.queries import Integer, Schema
from askance_client.service import Metadata
from tests.aggregator.server.callers.role_server import (
    ABOUT_NO_STUDY,
    CALLS,
    KEYS,
    NOW_S,
    OWNER,
    SERVICES,
    UNKNOWN,
    metadata,
    outcome,
    public,
    request,
    served,
)

DELETIONS = (
    Call("Analysts/DeleteReports"),
    Call("Analysts/DeleteResults"),
)  # of a study that is open

# By hand from docs/deployment.md ("Callers and roles") and docs/console.md ("Pages by role").
REACH = {
    #                          viewer analyst operator approver admin
    "Analysts/Submit":          "none   own     none     none     own",
    "Analysts/Plan":            "none   own     none     none     own",
    "Analysts/List":            "all    own     all      all      all",
    "Analysts/Schemas":         "none   own     none     none     all",
    "Analysts/Watch":           "all    own     all      all      all",
    "Analysts/Result":          "all    own     none     all      all",
    "Analysts/Export":          "all    own     none     all      all",
    "Analysts/Cancel":          "none   own     all      none     all",
    "Analysts/Pause":           "none   own     all      none     all",
    "Analysts/Resume":          "none   own     all      none     all",
    "Analysts/Approve":         "none   none    none     all      all",
    "Analysts/Refuse":          "none   none    none     all      all",
    "Analysts/DeleteReports":   "none   own     all      none     all",
    "Analysts/DeleteResults":   "none   own     all      none     all",
    "Operators/Caller":         "all    all     all      all      all",
    "Operators/Fleet":          "all    none    all      all      all",
    "Operators/Silence":        "none   none    all      none     all",
    "Operators/Studies":        "all    none    all      all      all",
    "Operators/Audit":          "none   none    all      none     all",
    "Operators/Devices":        "none   none    all      none     all",
    "Operators/CountDevices":   "none   none    all      none     all",
    "Operators/TagDevices":     "none   none    all      none     all",
    "Operators/RevokeDevices":  "none   none    all      none     all",
    "Operators/RestoreDevices": "none   none    all      none     all",
}  # fmt: skip
# Calls that the audit log has before and after; those of ONCE need a nonce, and come once with it.
CHANGES = {"Analysts/Submit", "Analysts/Cancel", "Analysts/DeleteReports", "Analysts/DeleteResults"}
ONCE = {
    "Analysts/Pause",
    "Analysts/Resume",
    "Analysts/Approve",
    "Analysts/Refuse",
    "Operators/TagDevices",
    "Operators/RevokeDevices",
    "Operators/RestoreDevices",
}


@pytest.fixture(scope="module")
def untouched() -> Iterator[tuple[str, SignedStudy]]:
    """A service that refuses every call."""
    with served() as found:
        yield found


def reach(method: str, role: Role) -> str:
    """Return how far a role reaches with a call: "none", "own" or "all"."""
    order = (Role.VIEWER, Role.ANALYST, Role.OPERATOR, Role.APPROVER, Role.ADMIN)
    return REACH[method].split()[order.index(role)]


def expected(role: Role, call: Call) -> str:
    """Return the outcome of a call about another analyst's study, by the documents."""
    found = reach(call.method, role)
    if found == "none":
        return "not-permitted"
    if found == "own" and call not in (
        Call("Analysts/Submit"),
        Call("Analysts/Plan"),
        *ABOUT_NO_STUDY,
    ):
        return "unknown-study"
    if call == Call("Analysts/Approve"):
        return "no-approval-needed"
    return "open" if call in DELETIONS else ""


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.method)
def test_each_role_may_make_the_calls_of_its_column(call: Call) -> None:
    """A call that may change something, and comes once, is made to a service of its own."""
    with ExitStack() as held:
        shared = held.enter_context(served())
        for role, key in KEYS.items():
            wanted = expected(role, call)
            alone = call.method in CHANGES | ONCE and wanted != "not-permitted"
            address, study = held.enter_context(served()) if alone else shared
            subject, data = request(call, key, study)
            found = outcome(address, call, data, metadata(call, key, subject, data))
            assert found == wanted, role


def test_the_table_is_that_of_the_documents() -> None:
    for method, rule in RULES.items():
        for role in Role:
            assert rule.scope(role).value == reach(method, role), (method, role)
        effects = "once" if method in ONCE else "changes" if method in CHANGES else "none"
        assert rule.effects.value == effects, method


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.method)
def test_no_call_is_made_without_an_identity(
    untouched: tuple[str, SignedStudy], call: Call
) -> None:
    address, study = untouched
    subject, data = request(call, UNKNOWN, study)
    assert outcome(address, call, data, ()) == "malformed"
    assert outcome(address, call, data, metadata(call, UNKNOWN, subject, data)) == "untrusted-key"
    nonce = sha256(call.method.encode()).digest()[:16]
    forged = sign_call(call, subject, KEYS[Role.ADMIN], NOW_S, body=b"other", nonce=nonce)
    assert outcome(address, call, data, call_metadata(forged)) == "bad-signature"


def test_the_table_has_every_call_of_the_services_and_no_other() -> None:
    wire = {
        f"{name}/{method.name}"
        for name, file in SERVICES.items()
        for method in file.DESCRIPTOR.services_by_name[name].methods
    }
    assert set(RULES) == set(REACH) == wire == {call.method for call in CALLS}


@pytest.mark.parametrize("servicer", [AnalystsServicer, OperatorsServicer])
def test_each_rpc_is_a_method_of_its_servicer_by_its_name(servicer: type[Servicer]) -> None:
    names = {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in method.name)[1:]
        for method in servicer.SERVICE.methods
    }
    inherited = {"handler", "subject", "SERVICE"}
    assert {name for name in vars(servicer) if not name.startswith("_")} - inherited == names


def gate_of(rules: dict[str, CallRule]) -> Gate:
    """Return a gate that knows an administrator."""
    admin = Callers(frozenset, [Caller("root", Role.ADMIN, public(OWNER))])
    recorder = AuditRecorder(SqliteStore.in_memory().audit, lambda: NOW_S)
    return Gate(admin, recorder, ThreadPoolExecutor(1), str, lambda: NOW_S, rules)


def admit(gate: Gate, call: Call, with_: Metadata) -> Admitted:
    return gate.permit(call, *gate.identify(call, with_))


def test_a_call_that_the_table_lacks_is_refused() -> None:
    gate = gate_of({})
    with pytest.raises(CallRefused, match="got admin") as caught:
        admit(
            gate, Call("Analysts/List"), metadata(Call("Analysts/List"), OWNER, public(OWNER), b"")
        )
    assert caught.value.reason == "not-permitted"


def test_a_call_that_must_come_once_needs_a_nonce() -> None:
    once = CallRule("study cancel", Scope.NONE, Scope.OWN, Scope.ALL, Scope.ALL, CallEffects.ONCE)
    gate = gate_of({"Analysts/Cancel": once})
    old = call_metadata(sign_call(Call("Analysts/Cancel"), bytes(32), OWNER, NOW_S))
    with pytest.raises(CallRefused, match="a nonce") as caught:
        admit(gate, Call("Analysts/Cancel"), old)
    assert caught.value.reason == "nonce-missing"
    admit(gate, Call("Analysts/Cancel"), metadata(Call("Analysts/Cancel"), OWNER, bytes(32), b""))


def test_a_configured_analyst_is_an_analyst_by_default() -> None:
    known = Callers(lambda: frozenset({public(OWNER)}), [])
    caller = known.by_key(public(OWNER))
    assert caller is not None
    assert (caller.role, caller.key) == (Role.ANALYST, public(OWNER))
    assert known.by_key(public(UNKNOWN)) is None


def test_a_version_1_call_is_taken_from_an_older_client() -> None:
    with served() as (address, study):
        digest = digest_of(study.study)
        for call in (
            Call("Analysts/Watch"),
            Call("Analysts/Result"),
            Call("Analysts/Export"),
            Call("Analysts/Cancel"),
        ):
            old = call_metadata(sign_call(call, digest, OWNER, NOW_S))
            assert outcome(address, call, b"", old) == ""


def test_a_call_has_the_words_of_a_command() -> None:
    """Entries of earlier versions have them too."""
    assert all("/" not in action_words(call.method) for call in CALLS)
    for name, words in (
        ("Operators/RevokeDevices", "device revoke"),
        ("aggregator device revoke", "device revoke"),
        ("device revoke", "device revoke"),
        ("aggregator certificates rotate", "certificates rotate"),
        ("Analysts/Submit", "study submit"),
    ):
        assert action_words(name) == words


def test_registered_schemas_come_first_and_those_of_studies_that_a_caller_may_list_follow() -> None:
    registered = Schema("devices", 3, age=Integer(17, 90))
    found = {}
    with served(schemas=(registered,)) as (address, _):
        for role in (Role.ANALYST, Role.ADMIN):
            with connect(address, key=KEYS[role], now_s=lambda: NOW_S) as aggregator:
                found[role] = [(one.name, one.registered) for one in aggregator.schemas()]
    assert found == {
        Role.ANALYST: [("devices", True)],
        Role.ADMIN: [("devices", True), ("people", False)],
    }
