"""Submission of studies: accepted ones, and refusals with their codes; a refusal stores nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.server.studies import StudyManager, SubmissionLimits, SubmissionRefused
from askance_aggregator.server.studies.submissions import LEAST_DEADLINE_S
from askance_aggregator.store import StudyQuery, StudyState
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter
from askance_client.messages import Conduct, Repeat, SignedStudy
from tests.aggregator.server.studies.conftest import RunIn, study
from tests.faults.deployment import Deployment
from tests.faults.people import KEY, NOW_S, PEOPLE, PUBLIC, WEEK_S

STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(32))
NAT = 10**9


def refusal(manager: StudyManager, signed: SignedStudy) -> tuple[str, str]:
    with pytest.raises(SubmissionRefused) as caught:
        manager.submit(signed)
    return caught.value.reason, str(caught.value)


def garbage() -> SignedStudy:
    signed = b"\xff not a study"
    return SignedStudy(signed, PUBLIC, KEY.sign(b"askance study v1\0" + signed))


REFUSED: dict[str, tuple[Callable[[], SignedStudy], str, str]] = {
    "a stranger's": (lambda: study(key=STRANGER), "untrusted-key", "known analyst"),
    "one signed by another": (
        lambda: replace(study(key=STRANGER), public_key=PUBLIC),
        "bad-signature",
        "signature",
    ),
    "one that was changed": (
        lambda: replace(study(), signature=study(nonce=8).signature),
        "bad-signature",
        "signature",
    ),
    "no study": (garbage, "malformed", "expected"),
    "one that has expired": (lambda: study(expires_unix_s=NOW_S), "expired", "not expired"),
    "one whose epochs are all over": (
        lambda: study(repeat=Repeat(7, 2, NOW_S // WEEK_S - 2)),
        "expired",
        "repeat: expected an epoch that is not over, got none",
    ),
    "an unknown learner": (lambda: study(learner="oracle"), "unknown-learner", "no learner"),
    "a learner of another version": (
        lambda: study(learner_version=1),
        "unknown-learner",
        "mean: expected version 2, found 1",
    ),
    "a parameter that there is not": (
        lambda: study(parameters=(("colour", "red"),)),
        "unknown-learner",
        "no parameter 'colour'",
    ),
    "a column that does not suit": (
        lambda: study(parameters=(("column", "colour"),)),
        "unknown-learner",
        "column: expected a number or a bit, got 'colour'",
    ),
    "one for more users than there are": (
        lambda: study(parameters=(("column", "smoker"), ("tau", "0.01"))),
        "plan-refused",
        "the population has 6",
    ),
    "one that wants more answers than there are users": (
        lambda: study(conduct=Conduct(least_answers=7)),
        "plan-refused",
        "least_answers: expected at most 6, the number of users, got 7",
    ),
    "one that asks a user in more epochs than answers are signed": (
        lambda: study(repeat=Repeat(7, 3, NOW_S // WEEK_S), most_answers=2),
        "plan-refused",
        "most_answers: expected 3 or more, for 1 answers of a user in each of 3 epochs, got 2",
    ),
    "one whose rounds close before a device can answer": (
        lambda: study(conduct=Conduct(round_deadline_s=LEAST_DEADLINE_S - 1)),
        "plan-refused",
        "deadline_s: expected 7 seconds or more",
    ),
    "one that does not sign what its learner asks about": (
        lambda: study(fields=("colour",)),
        "missing-fields",
        "fields: expected all that mean asks about, got none named smoker",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(run_in: RunIn, what: str) -> None:
    make, reason, said = REFUSED[what]

    async def scenario(deployment: Deployment) -> None:
        word, message = refusal(deployment.manager, make())
        assert word == reason
        assert said in message
        assert "\n" not in message
        assert deployment.disk.store.studies() == {}

    run_in(scenario)


def test_a_study_is_good_until_the_second_before_it_expires(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(study(expires_unix_s=NOW_S + 1))
        await deployment.settle()
        assert len(deployment.disk.store.studies()) == 1

    run_in(scenario)


def test_with_nobody_enrolled_nothing_can_work(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        word, message = refusal(deployment.manager, study())
        assert (word, message) == (
            "plan-refused",
            "study: expected enrolled devices, got none",
        )

    run_in(scenario, replace(PEOPLE, users=0))


def test_the_same_study_again_is_one_study(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        manager = deployment.manager
        first = manager.submit(study())
        await deployment.settle()
        assert manager.submit(study()) == first
        deployment.clock.advance(10**9)
        assert manager.submit(study()) == first  # it is in, so nothing is asked of it again
        await deployment.restart()
        assert deployment.manager.submit(study()) == first
        assert list(deployment.disk.store.studies()) == [first]
        assert [
            status.digest for status in deployment.manager.page(StudyQuery(), PUBLIC).studies
        ] == [first]

    run_in(scenario)


def test_so_many_at_one_time_and_no_more(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digests = [deployment.manager.submit(study(nonce)) for nonce in range(2)]
        await deployment.settle()
        assert refusal(deployment.manager, study(2))[0] == "too-many-studies"
        assert deployment.manager.submit(study(1)) == digests[1]
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()  # both have ended
        deployment.manager.submit(study(2))
        await deployment.settle()

    run_in(scenario, limits=SubmissionLimits(open_studies=2))


class TestAUsersBudgetOverAllStudies:
    def test_open_studies_count_with_all_of_theirs(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            deployment.manager.submit(study(0, budget_nano_nats=2 * NAT))
            word, message = refusal(deployment.manager, study(1, budget_nano_nats=NAT + 1))
            assert word == "over-user-budget"
            assert message.startswith("study: expected at most 1 nats a user")
            deployment.manager.submit(study(1, budget_nano_nats=NAT))
            assert (
                refusal(deployment.manager, study(2, budget_nano_nats=NAT // 100))[0]
                == "over-user-budget"
            )
            await deployment.settle()

        run_in(scenario, limits=SubmissionLimits(user_nano_nats=3 * NAT))

    def test_a_repeated_one_counts_with_all_its_epochs(self, run_in: RunIn) -> None:
        repeat = Repeat(7, 3, NOW_S // WEEK_S)
        expires = NOW_S + 9 * WEEK_S

        async def scenario(deployment: Deployment) -> None:
            word, message = refusal(
                deployment.manager,
                study(0, budget_nano_nats=NAT + 1, repeat=repeat, expires_unix_s=expires),
            )
            assert word == "over-user-budget"
            assert message.endswith("found 3.000000003")
            deployment.manager.submit(
                study(0, budget_nano_nats=NAT, repeat=repeat, expires_unix_s=expires)
            )
            assert refusal(deployment.manager, study(1))[0] == "over-user-budget"
            await deployment.settle()

        run_in(scenario, limits=SubmissionLimits(user_nano_nats=3 * NAT))

    def test_ended_ones_with_what_they_asked_for(self, run_in: RunIn) -> None:
        """The study was cancelled before any answer: its users were asked all the same."""

        async def scenario(deployment: Deployment) -> None:
            await deployment.submit(0)
            await deployment.cancel(0)
            (ended,) = deployment.disk.store.conclusions().values()
            assert ended.state is StudyState.CANCELLED
            assert refusal(deployment.manager, study(1, budget_nano_nats=NAT + 1))[0] == (
                "over-user-budget"
            )
            await deployment.restart()
            assert refusal(deployment.manager, study(1, budget_nano_nats=NAT + 1))[0] == (
                "over-user-budget"
            )
            deployment.manager.submit(study(1, budget_nano_nats=NAT))
            await deployment.settle()

        run_in(scenario, limits=SubmissionLimits(user_nano_nats=3 * NAT))

    def test_nobody_has_spent_more_on_their_own_ledger(self, run_in: RunIn) -> None:
        async def scenario(deployment: Deployment) -> None:
            for nonce in range(5):
                try:
                    deployment.manager.submit(study(nonce, parameters=(("column", "smoker"),)))
                except SubmissionRefused:
                    assert nonce >= 3
                await deployment.settle()
                for phone in deployment.phones:
                    await phone.check_in()
                await deployment.settle()
            for phone in deployment.phones:
                entries = deployment.disk.ledger(phone.ordinal).history()
                assert sum(entry.nano_nats for entry in entries) <= 3 * NAT

        run_in(scenario, limits=SubmissionLimits(user_nano_nats=3 * NAT))


@pytest.mark.parametrize("bad", [{"open_studies": 0}, {"user_nano_nats": -1}, {"deadline_s": -1}])
def test_limits_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=r"^manager: expected"):
        SubmissionLimits(**bad)


def test_one_that_another_analyst_was_quicker_to_submit_is_said_to_be(run_in: RunIn) -> None:
    """A study's digest does not name its analyst.

    An analyst that signs another's bytes gets no handle on the study, and the second to submit
    it is not answered as if a study had been accepted that it will never see.
    """

    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(study())
        told = refusal(deployment.manager, study(key=STRANGER))
        assert told == (
            "untrusted-key",
            "study: expected one of this analyst's, found another analyst's",
        )
        assert deployment.manager.submit(study()) == digest_of(study().study)
        await deployment.settle()

    stranger = STRANGER.public_key().public_bytes_raw()
    run_in(scenario, analysts=frozenset({PUBLIC, stranger}))


@pytest.mark.parametrize("deadline_s", [0, LEAST_DEADLINE_S])
def test_the_shortest_deadline_and_none_are_accepted(run_in: RunIn, deadline_s: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        conduct = Conduct(round_deadline_s=deadline_s)
        assert deployment.manager.submit(study(conduct=conduct))

    run_in(scenario)
