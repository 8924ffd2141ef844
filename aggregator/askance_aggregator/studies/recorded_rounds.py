"""Rounds as a transcript records them: the same requests and users, whichever process asks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.encoding import read_terms
from askance_aggregator.studies.cohorts import Cohort, Permutation, permutation_of
from askance_aggregator.studies.rounds import Group, Round
from askance_aggregator.studies.tallies import group_leaf_key
from askance_aggregator.studies.transcript import Asked, Header, MemoryLog, Transcript
from askance_client.codec import decode_request, digest_of
from askance_client.messages import SignedStudy


def recorded_round(
    study: SignedStudy,
    header: Header,
    asked: Asked,
    permutation: Permutation,
    leaf_key: bytes | None,
) -> Round:
    """Return a round as it was recorded, to be asked.

    `permutation` is that of the header's users by its seed; `leaf_key` the study's secret, from
    which the leaves' salts follow (None: this process does not close the round).
    """
    schema = read_terms(study.study).schema
    ranges = {(group.start, group.stop) for group in asked.groups}
    cohorts = {range_: Cohort(permutation, *range_) for range_ in ranges}
    groups = []
    for group in asked.groups:
        request = decode_request(group.payload, schema)
        digest = digest_of(group.payload)
        groups.append(
            Group(
                payload=group.payload,
                digest=digest,
                query=request.query,
                randomizer=request.randomizer,
                nano_nats=group.nano_nats,
                cohort=cohorts[group.start, group.stop],
                leaf_key=None if leaf_key is None else group_leaf_key(leaf_key, digest),
            )
        )
    return Round(asked.round, study, header.study_digest, tuple(groups), header.epoch)


def last_round(
    study: SignedStudy, lines: Sequence[str], users: NDArray[np.int64] | None = None
) -> tuple[Header, Round] | None:
    """Return the round that a transcript records last; None if it has closed, or there is none.

    `lines` are the first line of the transcript and its last; `users` are ordinals of the study's
    users, sorted; None: all devices that were enrolled.
    """
    log = MemoryLog()
    for line in lines:
        log.append(line)
    match Transcript(log).recorded:
        case (Header() as header, Asked() as asked):
            permutation = permutation_of(header.cohort_seed, header.population, users)
            return header, recorded_round(study, header, asked, permutation, None)
    return None
