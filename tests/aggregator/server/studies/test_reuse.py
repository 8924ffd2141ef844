"""A result says which of its answers were reused, and that these describe an earlier time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from askance_aggregator.analyst import StudyExport, StudyResult, VerificationFailed, verify
from askance_aggregator.learners import presentation_of_json
from askance_aggregator.reports.outcomes import study_report
from askance_aggregator.store import StudyState
from askance_client.queries import EncodedRecord
from tests.aggregator.server.studies.conftest import RunIn
from tests.faults.deployment import Deployment
from tests.faults.people import PEOPLE, PERSON, PUBLIC, Setup

FRESH = "Every answer describes its user at the time of this study."
STALE = (
    "All 6 answers were reused, at no charge: each describes its user at the time of the first"
    " answer to the same question, not at the time of this study."
)


class People(Setup):
    """Users whose records all change at once."""

    changed = False

    def record(self, ordinal: int) -> EncodedRecord:
        if not type(self).changed:
            return super().record(ordinal)
        return PERSON.encode({"smoker": 1, "colour": "blue"})


async def everybody(deployment: Deployment) -> None:
    for phone in deployment.phones:
        await phone.check_in()
        await phone.check_in()
    await deployment.settle()


def result_of(deployment: Deployment, place: int) -> StudyResult:
    found = deployment.manager.conclusion(deployment.digest(place), PUBLIC)
    assert found is not None

    def fetch() -> StudyExport:
        signed, lines, ended, _ = deployment.manager.export(deployment.digest(place), PUBLIC)
        return StudyExport(signed, tuple(lines), json.loads(ended))

    return StudyResult(
        found.state.name, StudyState.DONE, "done", "", json.loads(found.result_json), fetch
    )


def told(result: StudyResult) -> Any:
    content = result.to_json()
    shown = presentation_of_json(content["learner"], content["hypothesis"])
    return study_report(content, shown, every=True, verbose=True)


def test_a_study_submitted_again_after_every_record_changed_says_that_it_is_stale(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await everybody(deployment)
        first = result_of(deployment, 0)
        monkeypatch.setattr(People, "changed", True)
        for phone in deployment.phones:
            phone.boot()
        await deployment.submit(1)  # the same question, in another study
        await everybody(deployment)
        again = result_of(deployment, 1)
        assert again.hypothesis == first.hypothesis  # whatever the records are now

        assert (first.fresh, first.reused, first.time) == (6, 0, FRESH)
        assert (again.fresh, again.reused, again.time) == (0, 6, STALE)
        assert first.content["answers_by_round"] == [{"fresh": 6, "reused": 0}]
        assert again.content["answers_by_round"] == [{"fresh": 0, "reused": 6}]
        assert STALE in told(again).warnings
        assert "round 1: 0 fresh, 6 reused" in told(again).details
        assert not any("reused" in line for line in told(first).warnings + told(first).details)
        assert again.verify().answers == 6

    run_in(scenario, People(PEOPLE.schema, PEOPLE.users, PEOPLE.plans))


def test_a_result_that_hides_its_reused_answers_is_no_result(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await everybody(deployment)
        await deployment.submit(1)
        await everybody(deployment)
        export = result_of(deployment, 1).fetch()
        verify(export)
        assert export.result is not None
        for hidden in (
            {"reused": 0},
            {"fresh": 6},
            {"time": FRESH},
            {"answers_by_round": [{"fresh": 6, "reused": 0}]},
        ):
            with pytest.raises(VerificationFailed, match="as replayed"):
                verify(replace(export, result={**export.result, **hidden}))
        many = tuple(line.replace('"reused":6', '"reused":7') for line in export.lines)
        with pytest.raises(VerificationFailed, match="at most 6 reused answers in group 0"):
            verify(replace(export, lines=many))

    run_in(scenario)


def test_some_reused_answers_are_counted_beside_the_fresh_ones(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        for phone in deployment.phones[:4]:
            await phone.check_in()
        await deployment.cancel(0)
        await deployment.submit(1)
        await everybody(deployment)
        result = result_of(deployment, 1)
        assert (result.fresh, result.reused) == (2, 4)
        assert result.time.startswith("4 of 6 answers were reused, at no charge: ")

    run_in(scenario)
