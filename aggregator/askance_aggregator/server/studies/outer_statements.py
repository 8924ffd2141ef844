"""Statements of a result about its readers, from the store: what one alone cannot know."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from askance_aggregator.amplification.atoms import ALONE, MOST_CHOICES, Atoms
from askance_aggregator.amplification.outer import DELTA, delta_for
from askance_aggregator.store import Store
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.outer import EarlierAnswers, outer_json, outer_series_json
from askance_client.codec import parse
from askance_client.codec.randomizers import decode_randomizer
from askance_client.messages import StudyTerms
from askance_protos.v1 import randomizer_pb2


def delta_of_results(store: Store) -> Fraction:
    """Return the delta that results state: the account's, and less if more devices are enrolled.

    Devices that a study does not ask count too: the rule is about a person of any study.
    """
    terms = store.outer.terms()
    return delta_for(max(store.population(), 1), DELTA if terms is None else terms.delta)


def earlier_answers(store: Store, request: bytes, answers: int) -> EarlierAnswers | None:
    """Return the smallest atom of a tally's question over all its releases so far.

    Users of the other releases count too: a reader of both who takes one tally from the other
    learns of those who are in one alone.

    Args:
        store: the account's.
        request: digest of the tally's request.
        answers: of the tally.

    Returns:
        None where a user's answer is from before the account, or was drawn a second time, so that
        it hides among none; or where tallies have too many values to follow what they may have led
        to.
    """
    releases = store.outer.of_question(request)
    if not releases:
        return None
    first = releases[0]
    atoms = Atoms(decode_randomizer(parse(randomizer_pb2.Randomizer, first.randomizer)))
    for release in releases:
        atoms.release(release.users, release.again)
    (own,) = (release for release in releases if release.request == request)
    found = atoms.held()
    choices = max(atom.choices for atom in found)
    if len(own.users) != answers or ALONE in found or choices >= MOST_CHOICES:
        return None
    return EarlierAnswers(
        min(atom.size for atom in found),
        choices,
        len(releases) - 1,
        own.question,
        own.users,
        atoms.users,
    )


def outer_statements(
    store: Store, study_digest: bytes, terms: StudyTerms, transcript: Transcript, epoch: int = 0
) -> dict[str, Any]:
    """Return the keys of a result that state a guarantee towards readers; none where none holds.

    Args:
        store: the account's, with the transcripts of earlier epochs.
        study_digest: of the study.
        terms: of the study.
        transcript: of the study, or of its epoch; the tallies' releases are in the account.
        epoch: index of the epoch; 0 for a study that collects once.
    """
    delta = delta_of_results(store)
    found = outer_json(transcript, terms.schema, delta, partial(earlier_answers, store))
    if terms.repeat is not None:
        earlier = [
            Transcript(store.log(study_digest, one)) for one in terms.repeat.indices if one < epoch
        ]
        found |= outer_series_json([*earlier, transcript], terms, delta)
    return found
