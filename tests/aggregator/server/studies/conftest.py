"""Study manager over real devices, in one thread; see `tests.faults.deployment`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from askance_aggregator.encoding import sign_study
from askance_client.messages import SignedStudy, StudyTerms
from tests.faults.deployment import Deployment
from tests.faults.people import KEY, NOW_S, PEOPLE, WEEK_S, Setup

Scenario = Callable[[Deployment], Awaitable[None]]
RunIn = Callable[..., None]


@pytest.fixture
def run_in() -> RunIn:
    """Run a scenario in a deployment in which nothing was submitted yet."""

    def run(scenario: Scenario, setup: Setup = PEOPLE, **options: Any) -> None:
        async def whole() -> None:
            deployment = Deployment(setup, **options)
            try:
                async with asyncio.timeout(60):
                    await scenario(deployment)
            finally:
                await deployment.stop()

        asyncio.run(whole())

    return run


def study(nonce: int = 9, *, key: Any = KEY, **changes: Any) -> SignedStudy:
    """A study that may come in, but for these changes."""
    terms = StudyTerms(
        nonce=nonce.to_bytes(16, "big"),
        learner="mean",
        learner_version=2,
        parameters=(("column", "smoker"),),
        schema=PEOPLE.schema,
        budget_nano_nats=10**9,
        expires_unix_s=NOW_S + WEEK_S,
        purpose="",
        fields=tuple(sorted(PEOPLE.schema.fields)),
    )
    return sign_study(replace(terms, **changes), key)
