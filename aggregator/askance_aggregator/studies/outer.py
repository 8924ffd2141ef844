"""Guarantee of a study's tallies towards their readers (docs/math/two_guarantees.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from askance_aggregator.amplification.outer import Outer, OuterBatch, outer_of
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.studies.transcript import Asked, Closed, Transcript
from askance_client.codec import decode_request, digest_of
from askance_client.queries import Schema
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True)
class EarlierAnswers:
    """Reused answers of a tally, by all tallies of them.

    Args:
        hidden: answers of the smallest atom.
        choices: the most values of tallies by which an atom may have been divided.
        other_tallies: number of tallies of the same question, beside this one.
    """

    hidden: int
    choices: int = 1
    other_tallies: int = 0


Account = Callable[[bytes, int], EarlierAnswers | None]
"""Return what is known of a tally's answers by its request's digest and their number; None: they
are not all in tallies that are known."""


def no_account(request: bytes, answers: int) -> None:
    """Know of no tally."""


def outer_of_transcript(
    transcript: Transcript, schema: Schema, delta: Fraction, account: Account = no_account
) -> Outer | None:
    """Bound what a reader of a transcript's tallies, who sees no report, learns of any one user.

    Privacy: as of one reading of these tallies, and of all tallies of those answers that were given
        before; other answers of the same users are in the operator's account.

    Args:
        transcript: of a study, or of one of its epochs.
        schema: of the users' records.
        delta: of a person over all releases (see `delta_for`).
        account: of the tallies of reused answers.

    Returns:
        None where no less than the local epsilon holds: a tally is too small, has answers from
        before the account, or a root from which single answers can be guessed.
    """
    if any(tally.guessable for tally in _tallies(transcript)):
        return None
    batches, others = [], 0
    for batch, request, reused in _asked_batches(transcript, schema):
        if reused:
            known = account(request, batch.answers)
            if known is None:
                return None
            batches.append(replace(batch, answers=known.hidden, choices=known.choices))
            others += known.other_tallies
        else:
            batches.append(batch)
    outer = outer_of(_least(batches), delta)
    return None if outer is None else replace(outer, other_tallies=others)


def outer_json(
    transcript: Transcript, schema: Schema, delta: Fraction, account: Account = no_account
) -> dict[str, Any]:
    """Return the key `outer` of a result; empty where it does not hold."""
    outer = outer_of_transcript(transcript, schema, delta, account)
    return {} if outer is None else {"outer": outer.to_json()}


def may_be_bounded(transcript: Transcript) -> bool:
    """Return whether all answers are fresh, and none can be guessed from a root."""
    return not any(tally.reused or tally.guessable for tally in _tallies(transcript))


def batches_of(transcript: Transcript, schema: Schema) -> Iterator[OuterBatch]:
    """Yield the closed groups; users of one range of the permutation are one cohort."""
    return (batch for batch, _, _ in _asked_batches(transcript, schema))


def _tallies(transcript: Transcript) -> Iterator[Tally]:
    for event in transcript.recorded:
        if isinstance(event, Closed):
            yield from event.tallies


def _asked_batches(
    transcript: Transcript, schema: Schema
) -> Iterator[tuple[OuterBatch, bytes, int]]:
    """Yield the closed groups with their requests' digests and their reused answers."""
    asked = {event.round: event for event in transcript.recorded if isinstance(event, Asked)}
    cohorts: dict[tuple[int, int], int] = {}
    for event in transcript.recorded:
        if not isinstance(event, Closed):
            continue
        for group, tally in zip(asked[event.round].groups, event.tallies, strict=True):
            cohort = cohorts.setdefault((group.start, group.stop), len(cohorts))
            if tally.answered:
                randomizer = decode_request(group.payload, schema).randomizer
                batch = OuterBatch(randomizer, tally.answered, cohort)
                yield batch, digest_of(group.payload), tally.reused


def _least(batches: list[OuterBatch]) -> list[OuterBatch]:
    """Return the batches that decide: of cohorts with one batch the smallest of each randomizer.

    More answers never hurt (Lemma 1), so that the epsilon of many alike groups is asked for once.
    """
    together: dict[int, list[OuterBatch]] = {}
    for batch in batches:
        together.setdefault(batch.cohort, []).append(batch)
    alone: dict[tuple[Randomizer, int], OuterBatch] = {}
    several: list[OuterBatch] = []
    for group in together.values():
        if len(group) > 1:
            several += group
            continue
        (batch,) = group
        kind = batch.randomizer, batch.choices
        least = alone.setdefault(kind, batch)
        if batch.answers < least.answers:
            alone[kind] = batch
    return [*alone.values(), *several]
