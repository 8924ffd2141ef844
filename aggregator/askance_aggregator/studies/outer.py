"""Guarantee of a study's tallies towards their readers (docs/math/two_guarantees.md).

That of all results of a repeated study, epoch by epoch, is of its section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.amplification.outer import (
    Outer,
    OuterBatch,
    cohorts_of,
    decisive_cohorts,
    local_sum,
    outer_of,
)
from askance_aggregator.amplification.several_results import (
    Cohort,
    FixedSteps,
    cohort_of,
    outer_of_epochs,
    outer_of_signed,
)
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.studies.transcript import Asked, Closed, Transcript
from askance_client.codec import decode_request, digest_of
from askance_client.messages import StudyTerms
from askance_client.queries import Schema
from askance_client.randomizers import Randomizer

Users = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EarlierAnswers:
    """Answers of a tally, by all tallies of the same question.

    Args:
        hidden: answers of the smallest atom.
        choices: the most values of tallies by which an atom may have been divided.
        other_tallies: number of tallies of the same question, beside this one.
        question: digest under which devices freeze the answer.
        own: ordinals whose answers the tally counts; None: not known.
        users: ordinals whose answers any tally of the question counts; None: not known.
    """

    hidden: int
    choices: int = 1
    other_tallies: int = 0
    question: bytes = field(default=b"", compare=False)
    own: Users | None = field(default=None, compare=False, repr=False)
    users: Users | None = field(default=None, compare=False, repr=False)


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
    asked = list(_asked_batches(transcript, schema))
    own = [batch for batch, _, _ in asked]
    if not any(reused for _, _, reused in asked):
        return outer_of(_decisive(own), delta)
    answers = [account(request, batch.answers) for batch, request, _ in asked]
    known = [each for each in answers if each is not None]
    if len(known) < len(asked):
        return None
    again = [reused > 0 for _, _, reused in asked]
    batches, chosen = _with_others(own, known, again)
    outer = outer_of(batches, delta, chosen=chosen)
    if outer is None or outer.epsilon >= _local(own):
        return None
    questions = Counter(each.question for each in known)
    others = {
        each.question: each.other_tallies + 1 - (questions[each.question] if each.question else 1)
        for each, reused in zip(known, again, strict=True)
        if reused
    }
    return replace(outer, other_tallies=sum(others.values()))


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


def _with_others(
    own: Sequence[OuterBatch], known: Sequence[EarlierAnswers], again: Sequence[bool]
) -> tuple[list[OuterBatch], set[int]]:
    """Return batches of reused answers by their atoms, in a cohort per list of a user's questions.

    A user of one group may be in an earlier tally of another group's question: so a cohort is not
    a group's. Of users with alike questions the fewest answers to each count (Lemma 1).

    Returns:
        The batches; and the cohorts of several groups' questions, which earlier tallies may have
        chosen.
    """
    steps: dict[object, tuple[OuterBatch, Users | None]] = {}
    reused = {one.question for one, is_again in zip(known, again, strict=True) if is_again}
    for at, (batch, one) in enumerate(zip(own, known, strict=True)):
        if again[at] or (one.question and one.question in reused):
            charged = replace(batch, answers=one.hidden, choices=one.choices)
            steps[one.question or at] = charged, one.users
        else:
            steps[at] = batch, one.own
    batches = [batch for batch, _ in steps.values()]
    users = [each for _, each in steps.values() if each is not None]
    if len(users) < len(batches):
        return _decisive(batches), set()
    held = np.zeros((len(users), 1 + max(int(each.max(initial=0)) for each in users)), np.bool_)
    for row, each in zip(held, users, strict=True):
        row[each] = True
    sets = np.unique(np.packbits(held, axis=0).T, axis=0)
    one_group: list[list[OuterBatch]] = []
    several_groups: list[list[OuterBatch]] = []
    for bits in np.unpackbits(sets, axis=1, count=len(users)):
        together = [batch for batch, bit in zip(batches, bits, strict=True) if bit]
        together.sort(key=lambda batch: (batch.randomizer.canonical, batch.answers))
        if together:
            several = len({batch.cohort for batch in together}) > 1
            (several_groups if several else one_group).append(together)
    fixed, chosen = decisive_cohorts(one_group), decisive_cohorts(several_groups)
    return [
        replace(batch, cohort=cohort)
        for cohort, together in enumerate((*fixed, *chosen))
        for batch in together
    ], set(range(len(fixed), len(fixed) + len(chosen)))


def _local(batches: Sequence[OuterBatch]) -> float:
    """Return the most that a user's answers to these groups have as reports."""
    return max(map(local_sum, cohorts_of(batches)), default=0.0)


def _decisive(batches: Sequence[OuterBatch]) -> list[OuterBatch]:
    """Return the batches that decide: of cohorts with one batch one per randomizer."""
    # The epsilon of many alike groups is then computed once.
    cohorts = cohorts_of(batches)
    alone = decisive_cohorts(cohort for cohort in cohorts if len(cohort) == 1)
    several = (cohort for cohort in cohorts if len(cohort) > 1)
    return [batch for cohort in (*alone, *several) for batch in cohort]


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
