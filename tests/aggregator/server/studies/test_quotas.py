"""Quotas per analyst, start times, and plans of studies that are not submitted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.server.studies import SubmissionLimits, SubmissionRefused
from askance_aggregator.server.studies.quotas import Quota, Quotas
from askance_aggregator.store import StudyState
from askance_aggregator.studies.schedule import START, parse_start, time_text
from askance_client.errors import InvalidParameter
from askance_client.messages import Repeat, SignedStudy
from tests.aggregator.server.studies.conftest import RunIn, study
from tests.aggregator.server.studies.test_epochs import all_check_in, charges
from tests.faults.deployment import Deployment
from tests.faults.people import NOW_S, PUBLIC, WEEK_S

NAT, DAY_S = 10**9, 86_400
SECOND = Ed25519PrivateKey.from_private_bytes(bytes([77]) * 32)
SECOND_PUBLIC = SECOND.public_key().public_bytes_raw()


def limits(**quota: int) -> SubmissionLimits:
    return SubmissionLimits(quotas=Quotas(Quota(**quota)))


def refusal(deployment: Deployment, signed: SignedStudy) -> str:
    """Return the message of a refusal; nothing may be stored by it."""
    before = deployment.disk.store.studies()
    with pytest.raises(SubmissionRefused) as caught:
        deployment.manager.submit(signed)
    assert caught.value.reason == "over-quota"
    assert deployment.disk.store.studies() == before
    return str(caught.value)


def started(start_s: int, nonce: int = 9, **changes: Any) -> SignedStudy:
    parameters = (("column", "smoker"), (START, str(start_s)))
    return study(nonce, parameters=parameters, **{"expires_unix_s": start_s + WEEK_S, **changes})


def test_open_studies_of_one_analyst(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(study(1))
        await deployment.settle()
        assert refusal(deployment, study(2)) == (
            "quota open_studies: expected at most 1 open studies of one analyst, got 2 with this"
            " one; 0 left (one is free when a study ends)"
        )
        deployment.manager.submit(study(3, key=SECOND))
        await deployment.settle()
        await all_check_in(deployment)
        deployment.manager.submit(study(2))
        await deployment.settle()

    run_in(scenario, limits=limits(open_studies=1), analysts=frozenset({PUBLIC, SECOND_PUBLIC}))


def test_studies_per_day_are_free_again_on_the_next(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        for nonce in (1, 2):
            deployment.manager.submit(study(nonce))
            await deployment.settle()
            await all_check_in(deployment)
        assert deployment.manager.submit(study(2))  # the same again
        message = refusal(deployment, study(3))
        assert "at most 2 studies on 2023-11-14, got 3 with this one; 0 left" in message
        assert message.endswith("(free again on 2023-11-15)")
        await deployment.restart()
        assert refusal(deployment, study(3)) == message
        deployment.clock.advance(DAY_S)
        deployment.manager.submit(study(3))
        await deployment.settle()

    run_in(scenario, limits=limits(studies_per_day=2))


def test_a_day_is_one_of_utc_and_not_the_last_24_hours(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(study(1))
        await deployment.settle()
        deployment.clock.advance(DAY_S - NOW_S % DAY_S - 1)
        assert "got 2 with this one" in refusal(deployment, study(2))
        deployment.clock.advance(1)  # the first second of the next day
        deployment.manager.submit(study(2))
        await deployment.settle()

    run_in(scenario, limits=limits(studies_per_day=1))


def test_the_epoch_under_way_counts_on_the_day_of_submission(run_in: RunIn) -> None:
    """Users are asked from now on, though the epoch began on an earlier day."""
    weeks = Repeat(7, 2, NOW_S // WEEK_S)
    assert weeks.first * 7 < NOW_S // DAY_S

    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(
            study(1, budget_nano_nats=2 * NAT, repeat=weeks, expires_unix_s=NOW_S + 9 * WEEK_S)
        )
        await deployment.settle()
        message = refusal(deployment, study(2, budget_nano_nats=2 * NAT))
        assert "studies of 2023-11-14, got 2 more; 1 left" in message

    run_in(scenario, limits=limits(day_nano_nats=3 * NAT))


def test_epsilon_per_user_and_day(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(study(1, budget_nano_nats=2 * NAT))
        await deployment.settle()
        message = refusal(deployment, study(2, budget_nano_nats=NAT + 1))
        assert "at most 3 nats per user for the studies of 2023-11-14" in message
        assert "got 1.000000001 more; 1 left (free again on 2023-11-15)" in message
        deployment.manager.submit(study(3, budget_nano_nats=NAT))
        tomorrow = (NOW_S // DAY_S + 1) * DAY_S
        deployment.manager.submit(started(tomorrow, 4, budget_nano_nats=3 * NAT))
        message = refusal(deployment, started(tomorrow, 5, budget_nano_nats=NAT))
        assert "studies of 2023-11-15, got 1 more; 0 left (free again on 2023-11-16)" in message
        await deployment.settle()

    run_in(scenario, limits=limits(day_nano_nats=3 * NAT))


def test_a_later_epoch_counts_on_its_first_day(run_in: RunIn) -> None:
    first = NOW_S // WEEK_S
    weeks = Repeat(7, 3, first)

    async def scenario(deployment: Deployment) -> None:
        deployment.manager.submit(
            study(1, budget_nano_nats=2 * NAT, repeat=weeks, expires_unix_s=NOW_S + 9 * WEEK_S)
        )
        await deployment.settle()
        later = (first + 2) * WEEK_S
        message = refusal(deployment, started(later, 2, budget_nano_nats=2 * NAT))
        assert "studies of 2023-11-23, got 2 more; 1 left" in message
        deployment.manager.submit(started(later + DAY_S, 3, budget_nano_nats=2 * NAT))
        await deployment.settle()

    run_in(scenario, limits=limits(day_nano_nats=3 * NAT))


def test_users_per_study_and_a_quota_of_ones_own(run_in: RunIn) -> None:
    own = Quotas(Quota(users_per_study=5), {SECOND_PUBLIC: Quota(users_per_study=6)})

    async def scenario(deployment: Deployment) -> None:
        message = refusal(deployment, study(1))
        assert "a study of at most 5 users, got one of 6" in message
        deployment.manager.submit(study(2, key=SECOND))
        await deployment.settle()

    analysts = frozenset({PUBLIC, SECOND_PUBLIC})
    run_in(scenario, limits=SubmissionLimits(quotas=own), analysts=analysts)


def test_a_plan_stores_nothing_and_needs_no_signature(run_in: RunIn) -> None:
    """An unsigned study cannot be run by the aggregator that plans it."""

    async def scenario(deployment: Deployment) -> None:
        unsigned = replace(study(1), signature=b"")
        planned = deployment.manager.plan(unsigned)
        assert (planned.feasible, planned.users_needed, planned.n_users) == (True, 6, 6)
        assert deployment.disk.store.studies() == {}
        assert deployment.disk.store.management.submissions(PUBLIC) == []
        with pytest.raises(SubmissionRefused, match="signature"):
            deployment.manager.submit(unsigned)
        deployment.manager.submit(study(2))
        await deployment.settle()
        with pytest.raises(SubmissionRefused) as caught:
            deployment.manager.plan(unsigned)
        assert caught.value.reason == "over-quota"

    run_in(scenario, limits=limits(open_studies=1))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_study_begins_at_its_start(run_in: RunIn, restarted: bool) -> None:
    start_s = NOW_S + 2 * DAY_S

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(started(start_s))
        await deployment.settle()
        await all_check_in(deployment)
        if restarted:
            await deployment.restart()
        status = deployment.manager.status(digest, PUBLIC)
        assert (status.state, status.reason) == (StudyState.OPEN, "scheduled")
        assert status.message == f"the study begins at {time_text(start_s)}"
        assert charges(deployment) == [[]] * 6
        deployment.clock.advance(2 * DAY_S)
        await deployment.settle()
        await all_check_in(deployment)
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE
        assert [len(days) for days in charges(deployment)] == [1] * 6

    run_in(scenario)


def test_a_study_can_be_cancelled_before_its_start(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(started(NOW_S + DAY_S))
        await deployment.settle()
        deployment.manager.cancel(digest, PUBLIC)
        await deployment.settle()
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.CANCELLED
        assert charges(deployment) == [[]] * 6
        ended = deployment.manager.conclusion(digest, PUBLIC)
        assert ended is not None
        assert json.loads(ended.result_json)["users_asked"] == 0  # it was all six, and their cost
        assert deployment.disk.store.nano_nats_asked() == 0

    run_in(scenario)


@pytest.mark.parametrize(
    ("start", "reason"), [("soon", "malformed"), ("9" * 12, "malformed"), (None, "expired")]
)
def test_a_start_that_cannot_be_is_refused(run_in: RunIn, start: str | None, reason: str) -> None:
    text = start or str(NOW_S + WEEK_S)  # when the study expires
    signed = study(parameters=(("column", "smoker"), (START, text)))

    async def scenario(deployment: Deployment) -> None:
        with pytest.raises(SubmissionRefused) as caught:
            deployment.manager.submit(signed)
        assert caught.value.reason == reason

    run_in(scenario)


def test_a_start_is_a_time_in_utc() -> None:
    assert time_text(parse_start("2026-12-01T08:00Z")) == "2026-12-01T08:00Z"
    for bad in ("2026-12-01T08:00", "2026-12-01T08:00+01:00", "tomorrow", "1969-01-01T00:00Z", 7):
        with pytest.raises(InvalidParameter, match="expected a time in UTC such as"):
            parse_start(bad)


@pytest.mark.parametrize("name", ["open_studies", "studies_per_day", "users_per_study"])
def test_a_quota_is_not_negative(name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"quotas: expected {name} of 0 or more, got -1"):
        Quota(**{name: -1})
