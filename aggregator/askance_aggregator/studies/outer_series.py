"""Guarantee of all results of a repeated study towards their readers, epoch by epoch.

Statements and proofs: docs/math/two_guarantees.md, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from askance_aggregator.amplification.outer import Outer, cohorts_of
from askance_aggregator.amplification.several_results import (
    Cohort,
    FixedSteps,
    cohort_of,
    outer_of_epochs,
    outer_of_signed,
)
from askance_aggregator.studies.outer import batches_of, may_be_bounded
from askance_aggregator.studies.transcript import Asked, Transcript
from askance_client.codec import decode_request
from askance_client.messages import StudyTerms
from askance_client.queries import Schema
from askance_client.randomizers import Randomizer


def outer_series_json(
    transcripts: Sequence[Transcript], terms: StudyTerms, delta: Fraction
) -> dict[str, Any]:
    """Return the keys `outer_so_far` and `outer_signed` of an epoch's result, where they hold.

    Args:
        transcripts: of the epochs that have ended, in order of time, this one's the last.
        terms: of the study, which repeats.
        delta: of a person over all releases (see `delta_for`).

    Returns:
        `outer_so_far`: of all epochs that have tallies. `outer_signed`: of all signed epochs, as
        long as each has the signed `least_answers` in every group.
    """
    if terms.repeat is None:
        raise ValueError("series: expected a study that repeats")
    if not all(map(may_be_bounded, transcripts)):
        return {}
    signed, least = terms.repeat.epochs, terms.conduct.least_answers
    fixed = _fixed_steps(transcripts, terms.schema, least)
    cohorts = [_cohorts(transcript, terms.schema) for transcript in transcripts]
    with_tallies = [one for one in cohorts if one]
    found: dict[str, Any] = {}
    so_far = outer_of_epochs(with_tallies, signed, fixed, delta)
    found |= _keys("outer_so_far", so_far, len(with_tallies))
    if signed > 1 and all(fixed.cover(cohort) for one in with_tallies for cohort in one):
        found |= _keys("outer_signed", outer_of_signed(signed, fixed, delta), signed)
    return found


def _keys(name: str, outer: Outer | None, results: int) -> dict[str, Any]:
    return {} if outer is None else {name: {**outer.to_json(), "results": results}}


def _fixed_steps(
    transcripts: Sequence[Transcript], schema: Schema, least_answers: int
) -> FixedSteps:
    """Return the steps of the first round that was asked at all: no tally had chosen them."""
    events = (event for transcript in transcripts for event in transcript.recorded)
    asked = next((event for event in events if isinstance(event, Asked)), None)
    cohorts: dict[tuple[int, int], list[Randomizer]] = {}
    for group in () if asked is None else asked.groups:
        randomizer = decode_request(group.payload, schema).randomizer
        cohorts.setdefault((group.start, group.stop), []).append(randomizer)
    return FixedSteps.of(cohorts.values(), least_answers)


def _cohorts(transcript: Transcript, schema: Schema) -> list[Cohort]:
    """Return the cohorts of an epoch that have tallies."""
    return [cohort_of(one) for one in cohorts_of(batches_of(transcript, schema))]
