"""Guarantee of a study's tallies towards their readers (docs/math/two_guarantees.md)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from askance_aggregator.amplification.outer import Outer, OuterBatch, outer_of
from askance_aggregator.studies.transcript import Asked, Closed, Transcript
from askance_client.codec import decode_request
from askance_client.queries import Schema
from askance_client.randomizers import Randomizer


def outer_of_transcript(transcript: Transcript, schema: Schema, delta: Fraction) -> Outer | None:
    """Bound what a reader of a transcript's tallies, who sees no report, learns of any one user.

    Privacy: as of one reading of these tallies; other releases of the same answers, and other
        answers of the same users, are in the operator's account.

    Args:
        transcript: of a study, or of one of its epochs.
        schema: of the users' records.
        delta: of a person over all releases (see `delta_for`).

    Returns:
        None where no less than the local epsilon holds: a tally is too small, holds answers that
        were given before, or has a root from which single answers can be guessed.
    """
    if not may_be_bounded(transcript):
        return None
    return outer_of(_least(list(batches_of(transcript, schema))), delta)


def outer_json(transcript: Transcript, schema: Schema, delta: Fraction) -> dict[str, Any]:
    """Return the key `outer` of a result; empty where it does not hold."""
    outer = outer_of_transcript(transcript, schema, delta)
    return {} if outer is None else {"outer": outer.to_json()}


def may_be_bounded(transcript: Transcript) -> bool:
    """Return whether all answers are fresh, and none can be guessed from a root."""
    closed = (event for event in transcript.recorded if isinstance(event, Closed))
    return not any(tally.reused or tally.guessable for event in closed for tally in event.tallies)


def batches_of(transcript: Transcript, schema: Schema) -> Iterator[OuterBatch]:
    """Yield the closed groups; users of one range of the permutation are one cohort."""
    asked = {event.round: event for event in transcript.recorded if isinstance(event, Asked)}
    cohorts: dict[tuple[int, int], int] = {}
    for event in transcript.recorded:
        if not isinstance(event, Closed):
            continue
        for group, tally in zip(asked[event.round].groups, event.tallies, strict=True):
            cohort = cohorts.setdefault((group.start, group.stop), len(cohorts))
            if tally.answered:
                randomizer = decode_request(group.payload, schema).randomizer
                yield OuterBatch(randomizer, tally.answered, cohort)


def _least(batches: list[OuterBatch]) -> list[OuterBatch]:
    """Return the batches that decide: of cohorts with one batch the smallest of each randomizer.

    More answers never hurt (Lemma 1), so that the epsilon of many alike groups is asked for once.
    """
    together: dict[int, list[OuterBatch]] = {}
    for batch in batches:
        together.setdefault(batch.cohort, []).append(batch)
    alone: dict[Randomizer, OuterBatch] = {}
    several: list[OuterBatch] = []
    for group in together.values():
        if len(group) > 1:
            several += group
            continue
        (batch,) = group
        least = alone.setdefault(batch.randomizer, batch)
        if batch.answers < least.answers:
            alone[batch.randomizer] = batch
    return [*alone.values(), *several]
