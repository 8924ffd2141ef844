"""Studies from their first question to their end, over restarts, failing disks and each other."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from askance_aggregator.analyst import StudyExport, VerificationFailed, verify
from askance_aggregator.learners import hypothesis_json
from askance_aggregator.server.devices import SILENT
from askance_aggregator.server.studies import (
    StudyStatus,
    SubmissionRefused,
    UnknownStudy,
    runs,
    submissions,
)
from askance_aggregator.server.studies.approvals import ApprovalStanding
from askance_aggregator.server.studies.runs import Run
from askance_aggregator.server.studies.submissions import understand
from askance_aggregator.store import SqliteStore, StudyQuery, StudyState
from askance_aggregator.studies import local
from askance_client.codec import digest_of
from askance_client.errors import InvalidAnswer, NondeterminismError, StoreError
from askance_client.messages import StudyTerms
from askance_simulation.disturbances import Fault
from askance_simulation.disturbances.unlucky import WRITES
from tests.aggregator.server.studies.conftest import RunIn
from tests.faults.deployment import Deployment
from tests.faults.people import PARITY, PEOPLE, PUBLIC, undisturbed

OTHER = bytes(32)


async def everybody(deployment: Deployment) -> None:
    """Two check-ins each: answers of one round may open the next."""
    for _ in range(2):
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()


def runs_of_another_version(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on the catalogue's learners have another version; which were asked for."""
    asked: list[str] = []

    def refuse(terms: StudyTerms) -> Any:
        asked.append(terms.learner)
        raise SubmissionRefused("unknown-learner", f"{terms.learner}: expected version 2")

    monkeypatch.setattr(submissions, "learner_of", refuse)
    return asked


def result(deployment: Deployment, place: int = 0) -> dict[str, Any]:
    found = deployment.manager.conclusion(deployment.digest(place), PUBLIC)
    assert found is not None
    parsed: dict[str, Any] = json.loads(found.result_json)
    return parsed


class TestStatus:
    def test_it_follows_a_study(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            digest, open_ = deployment.digest(0), StudyState.OPEN
            manager = deployment.manager
            start = StudyStatus(
                *(digest, PUBLIC, "frequency", open_, 0, 6, 0, 0, "", "", None),
                *("Frequency of colour", deployment.clock.now, 0, 6),
            )
            assert manager.status(digest, PUBLIC) == start
            await deployment.phones[3].check_in()
            assert manager.status(digest, PUBLIC).answered == 1
            assert manager.conclusion(digest, PUBLIC) is None
            deployment.clock.advance(90)
            await everybody(deployment)
            end = replace(
                start,
                state=StudyState.DONE,
                round=1,
                asked=0,
                rounds_closed=1,
                reason="done",
                ended_unix_s=start.submitted_unix_s + 90,
            )
            assert manager.status(digest, PUBLIC) == end
            assert manager.page(StudyQuery(), PUBLIC).studies == (end,)
            await deployment.restart()  # now it is read from the store
            assert deployment.manager.status(digest, PUBLIC) == end
            assert deployment.manager.page(StudyQuery(), PUBLIC).studies == (end,)

        run_in(scenario)

    def test_another_analyst_sees_nothing_of_it(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            digest = deployment.digest(0)
            for ended in (False, True):
                manager = deployment.manager
                assert manager.page(StudyQuery(), OTHER).studies == ()
                for call in (manager.status, manager.conclusion, manager.export, manager.cancel):
                    for asked, key in ((digest, OTHER), (bytes(32), PUBLIC)):
                        with pytest.raises(UnknownStudy, match="one of this analyst's"):
                            call(asked, key)
                if not ended:
                    await everybody(deployment)
            assert result(deployment)["state"] == "done"  # and no other caller has cancelled it

        run_in(scenario)


class TestRestarts:
    def test_an_open_study_goes_on_where_it_broke_off(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            for phone in deployment.phones[:2]:
                await phone.check_in()
            await deployment.restart()
            status = deployment.manager.status(deployment.digest(0), PUBLIC)
            assert (status.state, status.asked, status.answered) == (StudyState.OPEN, 6, 2)
            await everybody(deployment)
            assert result(deployment)["transcript"] == undisturbed(PEOPLE, 0).transcript

        run_in(scenario)

    def test_a_study_whose_analyst_is_known_no_more_waits(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            deployment.analysts = frozenset()
            await deployment.restart()
            await everybody(deployment)
            digest = deployment.digest(0)
            assert deployment.manager.status(digest, PUBLIC).state is StudyState.OPEN
            assert deployment.hub.outstanding == 0
            deployment.analysts = frozenset({PUBLIC})
            await deployment.restart()
            await everybody(deployment)
            assert result(deployment)["state"] == "done"

        run_in(scenario)

    def test_a_study_submitted_before_the_manager_resumes_is_run_once(self, run_in: RunIn) -> None:
        """The service listens before: two runs of a study would end it, each in the other's way."""

        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            begun = deployment.manager._runs[deployment.digest(0)]
            assert deployment.manager.resume() == 1
            assert deployment.manager._runs[deployment.digest(0)] is begun
            await everybody(deployment)
            assert result(deployment)["state"] == "done"

        run_in(scenario)

    def test_an_ended_study_is_not_run_again(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await everybody(deployment)
            signed, lines, *rest = deployment.manager.export(deployment.digest(0), PUBLIC)
            before = [signed, list(lines), *rest]
            await deployment.restart()
            assert deployment.manager.resume() == 0
            signed, lines, *rest = deployment.manager.export(deployment.digest(0), PUBLIC)
            assert [signed, list(lines), *rest] == before

        run_in(scenario)


class TestCancelling:
    def test_it_is_durable_and_nobody_is_asked_any_more(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await deployment.phones[0].check_in()
            await deployment.cancel(0)
            assert deployment.cancelled == {deployment.digest(0)}
            for _ in range(2):
                assert result(deployment)["reason"] == "cancelled"
                await everybody(deployment)
                spent = [len(list(_ledger(deployment, o).history())) for o in range(6)]
                assert spent == [1, 0, 0, 0, 0, 0]
                await deployment.restart()
                await deployment.submit(0)  # known, and ended
            digest = deployment.digest(0)
            assert deployment.manager.cancel(digest, PUBLIC) is StudyState.CANCELLED

        run_in(scenario)

    def test_an_ended_study_stays_as_it_ended(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await everybody(deployment)
            assert deployment.manager.cancel(deployment.digest(0), PUBLIC) is StudyState.DONE
            assert result(deployment)["state"] == "done"

        run_in(scenario)

    def test_a_study_that_cannot_go_on_can_be_cancelled(
        self, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else it would count against the users' budget, and among the open ones, for ever."""

        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await deployment.phones[0].check_in()
            asked = runs_of_another_version(monkeypatch)
            await deployment.restart()
            assert (asked, deployment.hub.outstanding) == (["frequency"], 0)
            await deployment.cancel(0)
            assert deployment.cancelled == {deployment.digest(0)}
            told = result(deployment)
            assert (told["state"], told["reason"]) == ("cancelled", "cancelled")
            assert told["epsilon"]["max_asked_nano_nats"] == 2 * 10**9
            assert told["privacy"].endswith("nobody was asked for more than 2 nats by this study.")
            assert deployment.manager.status(deployment.digest(0), PUBLIC).state is (
                StudyState.CANCELLED
            )

        run_in(scenario)

    def test_it_says_what_was_asked_of_whom_it_has_not_heard(self, run_in: RunIn) -> None:
        """The spending of a device whose answer was lost is in no account but its own."""

        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            deployment.phones[0].link.faults.extend([Fault.NONE, Fault.LOST_REQUEST])
            await deployment.phones[0].check_in()
            await deployment.cancel(0)
            told = result(deployment)
            assert _ledger(deployment, 0).totals(deployment.digest(0), 0).study == 2 * 10**9
            assert told["epsilon"]["max_spent"] == 0
            assert "nobody was asked for more than 2 nats" in told["privacy"]

        run_in(scenario)

    def test_four_slow_cancels_block_no_other_analyst(
        self, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            cancel = deployment.hub.cancel
            monkeypatch.setattr(deployment.hub, "cancel", lambda _: None)  # it takes its time
            manager, digest, loop = (
                deployment.manager,
                deployment.digest(0),
                asyncio.get_running_loop(),
            )
            with ThreadPoolExecutor(4) as threads:
                cancels = [
                    loop.run_in_executor(threads, manager.cancel, digest, PUBLIC) for _ in range(4)
                ]
                listing = loop.run_in_executor(threads, manager.page, StudyQuery(), PUBLIC)
                async with asyncio.timeout(10):
                    assert [one.digest for one in (await listing).studies] == [digest]
                    assert await asyncio.gather(*cancels) == [StudyState.OPEN] * 4
            cancel(digest)
            await everybody(deployment)
            assert result(deployment)["state"] == "cancelled"

        run_in(scenario)


class TestBounds:
    def test_what_has_ended_is_dropped_from_memory(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await everybody(deployment)
            await deployment.submit(2)
            await deployment.cancel(2)
            await deployment.settle()
            assert result(deployment)["state"] == "done"
            assert deployment.cancelled == {deployment.digest(2)}
            hub = deployment.hub
            async with asyncio.timeout(10):
                while len(hub._phases):  # the hub is told by the event loop, a turn later
                    await asyncio.sleep(0.01)
            assert (deployment.manager._runs, len(hub._phases), hub._rounds) == ({}, 0, {})

        run_in(scenario)

    def test_a_call_about_one_study_reads_no_other(
        self, run_in: RunIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def all_of_them(_: Any) -> Any:
            raise AssertionError("expected a query, found all studies read")

        async def scenario(deployment: Deployment) -> None:
            for name in ("studies", "conclusions"):
                monkeypatch.setattr(SqliteStore, name, all_of_them)
            await deployment.submit(0)
            digest, manager = deployment.digest(0), deployment.manager
            assert manager.status(digest, PUBLIC).state is StudyState.OPEN
            assert [one.digest for one in manager.page(StudyQuery(), PUBLIC).studies] == [digest]
            assert manager.conclusion(digest, PUBLIC) is None
            assert manager.export(digest, PUBLIC)[2] == ""
            await deployment.restart()
            await deployment.cancel(0)
            assert deployment.manager.status(digest, PUBLIC).state is StudyState.CANCELLED

        run_in(scenario, folder=tmp_path)


class TestFailingDisks:
    @pytest.mark.parametrize("kept", [False, True])
    @pytest.mark.parametrize("write", sorted(WRITES - {"add_study", "commit"}))
    def test_a_disk_that_fails_ends_no_study(
        self, run_in: RunIn, monkeypatch: pytest.MonkeyPatch, write: str, *, kept: bool
    ) -> None:
        monkeypatch.setattr(runs, "_DISK_S", 0.001)

        async def scenario(deployment: Deployment) -> None:
            deployment.life.fail_at(write, kept=kept)
            await deployment.submit(0)
            await everybody(deployment)
            await everybody(deployment)
            told = result(deployment)
            assert (told["state"], told["reconciled"]) == ("done", True)
            assert told["transcript"] == undisturbed(PARITY, 0).transcript

        run_in(scenario, PARITY)

    def test_an_end_that_was_kept_all_the_same_is_the_end(
        self, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next run asks no device, so its account differs."""
        monkeypatch.setattr(runs, "_DISK_S", 0.001)

        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await deployment.phones[0].check_in()
            deployment.life.fail_at("conclude", kept=True)
            await deployment.cancel(0)
            assert deployment.cancelled == {deployment.digest(0)}
            assert result(deployment)["epsilon"]["max_spent"] == 2.0
            status = deployment.manager.status(deployment.digest(0), PUBLIC)
            assert status.state is StudyState.CANCELLED

        run_in(scenario)

    def test_a_study_that_cannot_be_read_holds_up_no_other(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Suspend a study whose transcript is damaged.

        Its devices were asked to deliver again later, reports to other studies included, for as
        long as the transcript was damaged.
        """
        monkeypatch.setattr(runs, "_DISK_S", 0.001)
        suspended = threading.Event()

        class Fleet:
            population = 1

            def suspend(self, digest: bytes) -> None:
                assert tries >= runs._TRIES
                suspended.set()

        tries = 0

        def conclusion(_: bytes) -> None:
            nonlocal tries
            tries += 1
            raise StoreError("transcript: expected line 1, found another")

        store, fleet = SqliteStore.in_memory(), cast(Any, Fleet())
        monkeypatch.setattr(store, "conclusion", conclusion)
        submission = understand(PEOPLE.signed(0), frozenset({PUBLIC}))
        run = Run(
            *(submission, store, fleet, SILENT, lambda _: None),
            now_s=lambda: 0,
            needs_approval=False,
            may_approve=lambda *_: ApprovalStanding.UNKNOWN,
        )
        run.start()
        assert suspended.wait(30)
        assert run.conclusion is None
        run.stop()
        run.join(30)

    def test_a_study_that_could_not_be_kept_was_not_taken_in(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            deployment.life.fail_at("add_study", kept=False)
            await deployment.submit(0)
            assert deployment.manager.page(StudyQuery(), PUBLIC).studies == ()
            await deployment.submit(0)
            await everybody(deployment)
            assert result(deployment)["state"] == "done"

        run_in(scenario)

    def test_one_that_was_kept_all_the_same_is_run_when_it_is_submitted_again(
        self, run_in: RunIn
    ) -> None:
        async def scenario(deployment: Deployment) -> None:
            deployment.life.fail_at("add_study", kept=True)
            await deployment.submit(0)
            await deployment.submit(0)
            await everybody(deployment)
            assert result(deployment)["state"] == "done"

        run_in(scenario)


def test_two_studies_share_the_devices(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await deployment.submit(2)
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()
        for place in (0, 2):
            told = result(deployment, place)
            expected = undisturbed(PEOPLE, place)
            assert told["transcript"] == expected.transcript
            assert told["epsilon"]["total_spent_nano_nats"] == expected.spending.total_spent
        spent = [entry.nano_nats for entry in _ledger(deployment, 0).history()]
        assert sorted(spent) == [2 * 10**9, 3 * 10**9]

    run_in(scenario)


def test_the_result_is_that_of_a_simulation_of_the_same_study(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await everybody(deployment)
        told, expected = result(deployment), undisturbed(PARITY, 0)
        hypothesis = json.loads(json.dumps(hypothesis_json(expected.hypothesis)))
        assert {key: told[key] for key in told if key not in ("influence", "privacy")} == {
            "study": deployment.digest(0).hex(),
            "learner": "masked-parity",
            "state": "done",
            "reason": "done",
            "message": "",
            "hypothesis": hypothesis,
            "bounds": [bounds.to_json() for bounds in expected.bounds],
            "unasked": [1.0, 0.5],  # of a sign, and of a share
            "confidence": float(Fraction(95, 100)),
            "fields": ["b", "i", "x", "y"],
            "rounds": 2,
            "queries": 2,
            "answers": expected.answers,
            "fresh": expected.answers,
            "reused": 0,
            "answers_by_round": [
                {"fresh": tallies[0].answered, "reused": 0} for tallies in expected.tallies
            ],
            "time": "Every answer describes its user at the time of this study.",
            "refusals": {},
            "users": PARITY.users,
            "users_asked": expected.users_used,
            "epsilon": {
                "budget": 8.0,
                "max_spent": expected.spending.max_spent / 10**9,
                "mean_spent": expected.spending.total_spent / PARITY.users / 10**9,
                "max_asked_nano_nats": expected.spending.max_asked,
                "max_spent_nano_nats": expected.spending.max_spent,
                "total_spent_nano_nats": expected.spending.total_spent,
            },
            "reconciled": True,
            "overspent": 0,
            "transcript": expected.transcript,
        }
        assert [(item["round"], item["question"]) for item in told["influence"]] == [(0, 0), (1, 0)]
        answers = [tallies[0].answered for tallies in expected.tallies]
        assert [item["answers"] for item in told["influence"]] == answers
        assert all(item["one_report_moves_by"] > 0 for item in told["influence"])
        for item, bounds in zip(told["influence"], told["bounds"], strict=True):  # one wave each
            assert item.items() <= bounds.items()
        assert told["privacy"].startswith("Every device's reports are 8-locally")

    run_in(scenario, PARITY)


def test_an_export_is_what_was_signed_the_transcript_and_the_result(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        digest = deployment.digest(0)
        signed, lines, text, _ = deployment.manager.export(digest, PUBLIC)
        assert (signed, text) == (PEOPLE.signed(0), "")
        assert [json.loads(line)["kind"] for line in lines] == ["header", "asked"]
        await everybody(deployment)
        signed, lines, text, _ = deployment.manager.export(digest, PUBLIC)
        assert digest_of(signed.study) == digest
        assert [json.loads(line)["kind"] for line in lines] == ["header", "asked", "closed"]
        assert json.loads(text) == result(deployment)

    run_in(scenario)


def test_what_breaks_an_end_is_told_in_words_and_not_in_a_traceback(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(deployment: Deployment) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("a secret of the machine")

        monkeypatch.setattr("askance_aggregator.estimation.laws.estimate", broken)
        await deployment.submit(0)
        await everybody(deployment)
        told = result(deployment)
        assert (told["state"], told["reason"]) == ("failed", "failed")
        assert told["message"] == "a fault of the aggregator"
        assert told["hypothesis"] is None
        assert told["epsilon"]["max_spent"] == 2.0  # what was answered is charged all the same

    run_in(scenario)


def test_answers_that_a_learner_cannot_conclude_from_end_its_study_and_are_verified(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(deployment: Deployment) -> None:
        def contradictory(*_: Any, **__: Any) -> Any:
            raise InvalidAnswer("question 0: expected another, found this")

        monkeypatch.setattr("askance_aggregator.estimation.laws.estimate", contradictory)
        await deployment.submit(0)
        await everybody(deployment)
        told = result(deployment)
        assert (told["state"], told["reason"]) == ("failed", "invalid-answer")
        assert told["message"] == "question 0: expected another, found this"
        signed, lines, text, _ = deployment.manager.export(deployment.digest(0), PUBLIC)
        export = StudyExport(signed, tuple(lines), json.loads(text))
        assert verify(export).state == "failed"
        monkeypatch.undo()
        with pytest.raises(VerificationFailed, match="expected the reason invalid-answer where"):
            verify(export)

    run_in(scenario)


def _ledger(deployment: Deployment, ordinal: int) -> Any:
    return deployment.disk.ledger(ordinal)


def test_a_learner_that_has_changed_ends_its_study_and_what_was_asked_counts(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay breaks off before, so the accounts are not charged that far.

    A user's budget that was asked for is not given back.
    """

    def changed(*_: Any) -> None:
        raise NondeterminismError("round 0: expected question 0 as recorded, found another")

    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await deployment.phones[0].check_in()
        monkeypatch.setattr(local, "_same", changed)
        await deployment.restart()
        ended = deployment.manager.conclusion(deployment.digest(0), PUBLIC)
        assert ended is not None
        told = json.loads(ended.result_json)
        assert (told["state"], told["reason"]) == ("failed", "nondeterminism")
        assert ended.max_asked_nano_nats == told["epsilon"]["max_asked_nano_nats"] == 2 * 10**9
        assert told["privacy"].endswith("nobody was asked for more than 2 nats by this study.")

    run_in(scenario)
