"""Approval by a second person: a study that waits asks no device, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst.approvals import sign_approval
from askance_aggregator.analyst.export import SeriesExport, StudyExport
from askance_aggregator.analyst.verification import verify, verify_series
from askance_aggregator.server.studies import (
    ApprovalRefused,
    ApprovalStanding,
    Approver,
    SubmissionLimits,
    UnknownStudy,
    standing_of_approver,
)
from askance_aggregator.server.studies.runs import Run
from askance_aggregator.store import ListedState, StudyQuery, StudyState, every_entry
from askance_aggregator.store.management import Approval
from askance_aggregator.store.replicas import Replicas
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter
from askance_client.messages import Conduct
from tests.aggregator.server.studies.conftest import RunIn, study
from tests.aggregator.server.studies.test_epochs import (
    FRESH,
    all_check_in,
    charges,
    repeated,
    result,
    states,
    weeks_pass,
)
from tests.faults.deployment import Deployment
from tests.faults.people import KEY, NOW_S, PUBLIC, WEEK_S

RULE = SubmissionLimits(approval=True)
BOB_KEY = Ed25519PrivateKey.from_private_bytes(bytes([40]) * 32)
BOB = Approver("bob", BOB_KEY.public_key().public_bytes_raw())
EVE_KEY = Ed25519PrivateKey.from_private_bytes(b"e" * 32)
EVE = Approver("eve", EVE_KEY.public_key().public_bytes_raw())
ANALYST = frozenset({"ann"})


def approve(deployment: Deployment, digest: bytes) -> StudyState:
    return deployment.manager.approve(digest, BOB, sign_approval(digest, BOB_KEY), ANALYST)


def stands(deployment: Deployment, digest: bytes) -> tuple[str, str, int]:
    """Return state and reason of a study, and how many charges its devices have."""
    status = deployment.manager.status(digest, PUBLIC)
    return status.state.name, status.reason, sum(map(len, charges(deployment)))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_study_asks_no_device_before_it_is_approved(run_in: RunIn, restarted: bool) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study(conduct=Conduct(round_deadline_s=60)))
        await deployment.settle()
        await all_check_in(deployment)
        deployment.clock.advance(3_600)
        if restarted:
            await deployment.restart()
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("OPEN", "awaiting-approval", 0)
        assert list(deployment.disk.store.log(digest).lines()) == []
        waiting = StudyQuery(ListedState.AWAITING_APPROVAL)
        assert [one.digest for one in deployment.manager.page(waiting, None).studies] == [digest]
        assert approve(deployment, digest) is StudyState.OPEN
        await deployment.settle()
        if restarted:
            await deployment.restart()
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("DONE", "done", 6)
        status = deployment.manager.status(digest, PUBLIC)
        signature = sign_approval(digest, BOB_KEY)
        at_s = NOW_S + 3_600
        assert status.approval == Approval("bob", BOB.public_key, signature, at_s)
        assert deployment.manager.page(waiting, None).studies == ()

    run_in(scenario, limits=RULE)


def test_an_approval_counts_if_its_approver_may_approve_when_the_study_begins(
    run_in: RunIn,
) -> None:
    """The study waits again for another approver; one that has asked devices goes on."""

    async def scenario(deployment: Deployment) -> None:
        digest, second = (deployment.manager.submit(study(purpose=text)) for text in ("a", "b"))
        approve(deployment, second)
        await deployment.settle()
        await deployment.phones[0].check_in()
        deployment.manager.stop()
        management = deployment.disk.store.management
        stale = Approval("bob", BOB.public_key, sign_approval(digest, BOB_KEY), NOW_S)
        management.approve(digest, stale)  # by a process that did not come to begin it
        before = [entry.event.action for entry in every_entry(deployment.disk.store.audit)]
        deployment.may_approve = lambda approval, analyst: (
            ApprovalStanding.VOID
            if (approval.approver, analyst) == ("bob", PUBLIC)
            else ApprovalStanding.COUNTS
        )
        await deployment.restart()
        await all_check_in(deployment)
        assert stands(deployment, second)[:2] == ("DONE", "done")
        assert stands(deployment, digest)[:2] == ("OPEN", "awaiting-approval")
        assert deployment.manager.status(digest, PUBLIC).approval is None
        entries = [entry.event for entry in every_entry(deployment.disk.store.audit)][len(before) :]
        assert [(one.action, one.subject, one.outcome) for one in entries] == [
            ("study approval-void", f"study {digest.hex()}", "done")
        ]
        charged = sum(map(len, charges(deployment)))
        deployment.manager.approve(digest, EVE, sign_approval(digest, EVE_KEY), ANALYST)
        await deployment.settle()
        await all_check_in(deployment)
        assert stands(deployment, digest)[:2] == ("DONE", "done")
        assert charged == 6

    run_in(scenario, limits=RULE)


def test_a_study_waits_while_another_replica_has_the_rule(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stood still does not know of the rule that came meanwhile."""
    monkeypatch.setattr(Replicas, "others_need_approval", lambda _: True)

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        await deployment.settle()
        await all_check_in(deployment)
        status = deployment.manager.status(digest, PUBLIC)
        assert (status.state, status.reason) == (StudyState.OPEN, "awaiting-approval")
        assert status.message == "the study asks no device until an approver has signed it"
        assert sum(map(len, charges(deployment))) == 0

    run_in(scenario)


@pytest.mark.parametrize("decision", ["refused", "approved by another"])
def test_a_decision_that_a_run_has_not_read_yet_leaves_no_wait_for_another(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    """A decision comes through another replica; the run looks for it within a second."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        await deployment.settle()
        deployment.manager.stop()
        management = deployment.disk.store.management
        bobs = Approval("bob", BOB.public_key, sign_approval(digest, BOB_KEY), NOW_S)
        management.approve(digest, bobs)
        run = SimpleNamespace(unapproved=True, unknown_approval=bobs)
        monkeypatch.setitem(deployment.manager._runs, digest, cast(Run, run))
        assert stands(deployment, digest)[:2] == ("OPEN", "awaiting-approval")
        if decision == "refused":
            management.refuse(digest, "bob", "no", NOW_S)
        else:
            management.void(digest, bobs)
            signature = sign_approval(digest, EVE_KEY)
            management.approve(digest, Approval("eve", EVE.public_key, signature, NOW_S))
        assert stands(deployment, digest)[:2] == ("OPEN", "")
        monkeypatch.undo()

    run_in(scenario, limits=RULE)


def test_an_approver_whom_another_replica_knows_is_not_forgotten(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The replica that drives the study does not know bob: it waits, and says why once."""
    monkeypatch.setattr(Replicas, "others_need_approval", lambda _: True)

    async def scenario(deployment: Deployment) -> None:
        digest, second = (deployment.manager.submit(study(purpose=text)) for text in ("a", "b"))
        await deployment.settle()
        deployment.manager.stop()
        management = deployment.disk.store.management
        for one in (digest, second):  # through the other replica
            management.approve(
                one, Approval("bob", BOB.public_key, sign_approval(one, BOB_KEY), NOW_S)
            )
        deployment.may_approve = lambda approval, _: (
            ApprovalStanding.UNKNOWN if approval.approver == "bob" else ApprovalStanding.COUNTS
        )
        await deployment.restart()
        await all_check_in(deployment)
        deployment.clock.advance(3_600)
        await all_check_in(deployment)
        status = deployment.manager.status(digest, PUBLIC)
        found = status.approval
        assert found is not None
        assert (found.approver, sum(map(len, charges(deployment)))) == ("bob", 0)
        assert (status.state, status.reason) == (StudyState.OPEN, "awaiting-approval")
        assert "an approver whom this replica knows" in status.message
        listed = deployment.manager.page(StudyQuery(), None)
        assert {one.reason for one in listed.studies} == {"awaiting-approval"}
        warned = [one for one in caplog.records if "unknown to this replica" in one.message]
        assert [vars(one)["approver"] for one in warned] == ["bob", "bob"]
        assert {vars(one)["study"] for one in warned} == {digest.hex()[:16], second.hex()[:16]}

        deployment.manager.approve(second, EVE, sign_approval(second, EVE_KEY), ANALYST)
        await deployment.settle()
        await all_check_in(deployment)
        assert stands(deployment, second)[:2] == ("DONE", "done")
        actions = [entry.event for entry in every_entry(deployment.disk.store.audit)]
        assert ("study approval-void", f"study {second.hex()}") in {
            (a.action, a.subject) for a in actions
        }

        deployment.may_approve = lambda *_: ApprovalStanding.COUNTS
        await deployment.restart()  # with the callers of the other replica
        await all_check_in(deployment)
        assert stands(deployment, digest)[:2] == ("DONE", "done")

    run_in(scenario, limits=RULE)


def test_an_approval_of_a_study_that_has_asked_is_not_replaced(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        approve(deployment, digest)
        await deployment.settle()
        await deployment.phones[0].check_in()
        deployment.may_approve = lambda *_: ApprovalStanding.VOID
        await deployment.restart()
        deployment.manager.approve(digest, EVE, sign_approval(digest, EVE_KEY), ANALYST)
        found = deployment.manager.status(digest, PUBLIC).approval
        assert found is not None
        assert found.approver == "bob"
        await deployment.settle()

    run_in(scenario, limits=RULE)


@pytest.mark.parametrize(
    ("approver", "names", "rights", "standing"),
    [
        (BOB, {"ann"}, {("bob", BOB.public_key): True}, ApprovalStanding.COUNTS),
        (BOB, {"ann"}, {("bob", EVE.public_key): True}, ApprovalStanding.UNKNOWN),
        (BOB, {"ann"}, {}, ApprovalStanding.UNKNOWN),
        (BOB, {"ann"}, {("bob", BOB.public_key): False}, ApprovalStanding.VOID),
        (BOB, {"ann", "Bob"}, {("bob", BOB.public_key): True}, ApprovalStanding.VOID),
        (Approver("bob", PUBLIC), {"ann"}, {("bob", PUBLIC): True}, ApprovalStanding.VOID),
    ],
)
def test_an_approver_is_checked_by_the_names_and_roles_of_today(
    approver: Approver,
    names: set[str],
    rights: dict[tuple[str, bytes], bool],
    standing: ApprovalStanding,
) -> None:
    found = standing_of_approver(
        Approval(approver.name, approver.public_key, b"", 1),
        PUBLIC,
        lambda name, key: rights.get((name, key)),
        lambda key: names if key == PUBLIC else set(),
    )
    assert found is standing


REFUSALS: dict[str, tuple[Approver, Callable[[bytes], bytes], str]] = {
    "the analyst's key": (
        Approver("bob", PUBLIC),
        lambda digest: sign_approval(digest, KEY),
        "own-study",
    ),
    "the analyst's name": (
        Approver("Ann", BOB.public_key),
        lambda digest: sign_approval(digest, BOB_KEY),
        "own-study",
    ),
    "another approver's signature": (
        EVE,
        lambda digest: sign_approval(digest, BOB_KEY),
        "bad-signature",
    ),
    "a signature over another study": (
        BOB,
        lambda digest: sign_approval(bytes(32), BOB_KEY),
        "bad-signature",
    ),
    "a signature without the domain": (BOB, BOB_KEY.sign, "bad-signature"),
    "no signature": (BOB, lambda digest: b"", "bad-signature"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_an_approval_is_refused(run_in: RunIn, case: str) -> None:
    approver, sign, reason = REFUSALS[case]

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        with pytest.raises(ApprovalRefused) as refused:
            deployment.manager.approve(digest, approver, sign(digest), ANALYST)
        assert refused.value.reason == reason
        await deployment.settle()
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("OPEN", "awaiting-approval", 0)

    run_in(scenario, limits=RULE)


def test_decisions_that_cannot_be_made(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest, manager = deployment.manager.submit(study()), deployment.manager
        with pytest.raises(UnknownStudy):
            manager.approve(bytes(32), BOB, b"", ANALYST)
        with pytest.raises(ApprovalRefused, match="another person than the study's analyst"):
            manager.refuse(digest, Approver("ANN", BOB.public_key), "no", ANALYST)
        for reason in ("", "two\nlines", "x" * 201):
            with pytest.raises(InvalidParameter, match="reason: expected 1 to 200 printable"):
                manager.refuse(digest, BOB, reason, ANALYST)
        assert stands(deployment, digest) == ("OPEN", "awaiting-approval", 0)
        manager.stop()  # so that no thread ends the study meanwhile
        deployment.disk.store.management.refuse(digest, "eve", "too much", 7)
        with pytest.raises(ApprovalRefused, match="because the study was refused"):
            approve(deployment, digest)

    run_in(scenario, limits=RULE)


def test_no_study_waits_without_the_rule(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        await deployment.settle()
        with pytest.raises(ApprovalRefused) as refused:
            approve(deployment, digest)
        assert refused.value.reason == "no-approval-needed"
        waiting = StudyQuery(ListedState.AWAITING_APPROVAL)
        assert deployment.manager.page(waiting, None).studies == ()
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("DONE", "done", 6)

    run_in(scenario)


def test_a_study_that_has_asked_before_the_rule_goes_on(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        await deployment.settle()
        await deployment.phones[0].check_in()
        deployment.limits = RULE
        await deployment.restart()
        assert stands(deployment, digest) == ("OPEN", "", 1)
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("DONE", "done", 6)

    run_in(scenario)


@pytest.mark.parametrize("epochs", [0, 2])
@pytest.mark.parametrize("approved", [False, True])
def test_a_refusal_that_a_process_has_only_noted_ends_the_study_at_the_next_start(
    run_in: RunIn, epochs: int, approved: bool
) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(epochs) if epochs else study())
        await deployment.settle()
        if approved:
            approve(deployment, digest)
            await deployment.settle()
            await deployment.phones[0].check_in()
        deployment.manager.stop()  # so that no thread ends the study meanwhile
        deployment.disk.store.management.refuse(digest, "bob", "too late", 7)
        await deployment.restart()
        await all_check_in(deployment)
        reason = "approval-withdrawn" if approved else "approval-refused"
        assert stands(deployment, digest) == ("CANCELLED", reason, int(approved))

    run_in(scenario, FRESH, limits=RULE)


def test_a_study_that_goes_on_after_a_pause_waits_all_the_same(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        deployment.manager.pause(digest, PUBLIC)
        await deployment.restart()
        deployment.manager.unpause(digest, PUBLIC)
        await deployment.settle()
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("OPEN", "awaiting-approval", 0)

    run_in(scenario, limits=RULE)


def test_epochs_that_were_asked_before_the_rule_are_followed_by_others(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        await deployment.settle()
        await all_check_in(deployment)
        deployment.limits = RULE
        await deployment.restart()
        await weeks_pass(deployment)
        await all_check_in(deployment)
        assert stands(deployment, digest) == ("DONE", "done", 12)

    run_in(scenario, FRESH)


def test_a_stored_approval_with_another_signature_is_none(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        forged = Approval("bob", BOB.public_key, sign_approval(bytes(32), BOB_KEY), NOW_S)
        deployment.disk.store.management.approve(digest, forged)
        await deployment.settle()
        await deployment.restart()
        await all_check_in(deployment)
        assert sum(map(len, charges(deployment))) == 0

    run_in(scenario, limits=RULE)


EXPIRED_TEXT = (
    "approval: expected an approver's signature before the study expired, got none; no user was"
    " asked"
)
ENDS: dict[str, tuple[str, str, str, int]] = {
    "refused": ("CANCELLED", "approval-refused", "approval: refused by bob: asks too much", 0),
    "withdrawn": ("CANCELLED", "approval-withdrawn", "approval: withdrawn by bob: too late", 2),
    "expired": ("FAILED", "not-approved", EXPIRED_TEXT, 0),
    "cancelled": ("CANCELLED", "cancelled", "study: cancelled by its analyst", 0),
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("epochs", [0, 2])
@pytest.mark.parametrize("case", ENDS)
def test_a_study_ends_with_the_reason(
    run_in: RunIn, case: str, epochs: int, restarted: bool
) -> None:
    signed = repeated(epochs) if epochs else study()

    async def scenario(deployment: Deployment) -> None:
        digest, manager = deployment.manager.submit(signed), deployment.manager
        await deployment.settle()
        if case == "withdrawn":
            approve(deployment, digest)
            await deployment.settle()
            for phone in deployment.phones[:2]:
                await phone.check_in()
        if restarted:
            await deployment.restart()
            manager = deployment.manager
        match case:
            case "refused":
                manager.refuse(digest, BOB, "asks too much", ANALYST)
            case "withdrawn":
                manager.refuse(digest, BOB, "too late", ANALYST)
            case "cancelled":
                manager.cancel(digest, PUBLIC)
            case _:
                deployment.clock.advance(3 * WEEK_S)
        await deployment.settle()
        await all_check_in(deployment)
        found = manager.conclusion(digest, PUBLIC)
        assert found is not None
        state, reason, message, charged = ENDS[case]
        assert (found.state.name, found.reason, found.message) == (state, reason, message)
        assert sum(map(len, charges(deployment))) == charged
        asked = result(deployment, digest)["epsilon"]["max_asked_nano_nats"] if not epochs else 0
        assert epochs or asked == (10**9 if charged else 0)
        _verify(deployment, digest, epochs)

    run_in(scenario, FRESH, limits=RULE)


def _verify(deployment: Deployment, digest: bytes, epochs: int) -> None:
    """Verify the export of an ended study."""

    def export(epoch: int) -> StudyExport:
        signed, lines, ended, _ = deployment.manager.export(digest, PUBLIC, epoch)
        return StudyExport(signed, tuple(lines), json.loads(ended) if ended else None, epoch)

    own = export(0)
    if not epochs:
        assert own.result is not None
        assert verify(own).state == own.result["state"]
    elif ended := [one.epoch for one in deployment.disk.store.epochs(digest)]:
        assert own.result is not None
        series = SeriesExport(own.signed, tuple(map(export, ended)), own.result)
        assert verify_series(series).state == own.result["state"]


def test_epochs_that_pass_before_the_approval_are_not_asked(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated())
        await weeks_pass(deployment)
        await all_check_in(deployment)
        approve(deployment, digest)
        await deployment.settle()
        await all_check_in(deployment)
        assert states(deployment, digest) == [(0, "FAILED", "missed"), (1, "DONE", "done")]
        assert charges(deployment) == [[7]] * 6

    run_in(scenario, FRESH, limits=RULE)


def test_the_first_approval_stands(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = digest_of(study().study)
        deployment.manager.submit(study())
        approve(deployment, digest)
        deployment.clock.advance(50)
        deployment.manager.approve(digest, EVE, sign_approval(digest, EVE_KEY), ANALYST)
        found = deployment.manager.status(digest, PUBLIC).approval
        assert found is not None
        assert (found.approver, found.approved_unix_s) == ("bob", NOW_S)
        await deployment.settle()

    run_in(scenario, limits=RULE)
