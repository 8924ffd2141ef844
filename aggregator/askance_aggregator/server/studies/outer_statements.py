"""Statements of a result about its readers, from the store: what one alone cannot know."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from askance_aggregator.amplification.outer import DELTA, delta_for
from askance_aggregator.store import Store
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.outer import outer_json
from askance_aggregator.studies.outer_series import outer_series_json
from askance_client.messages import StudyTerms


def delta_of_results(store: Store) -> Fraction:
    """Return the delta that results state: the account's, and less if more devices are enrolled.

    Devices that a study does not ask count too: the rule is about a person of any study.
    """
    terms = store.outer.terms()
    return delta_for(max(store.population(), 1), DELTA if terms is None else terms.delta)


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
    found = outer_json(transcript, terms.schema, delta)
    if terms.repeat is not None:
        earlier = [
            Transcript(store.log(study_digest, one)) for one in terms.repeat.indices if one < epoch
        ]
        found |= outer_series_json([*earlier, transcript], terms, delta)
    return found
