"""A vector that was asked in blocks is verified block by block."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst import StudyExport, VerificationFailed, verify
from askance_aggregator.learners import mean_vector
from askance_aggregator.studies import MemoryLog, Session
from askance_aggregator.studies.results import cohort_seed
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.queries import Real, Schema
from askance_simulation.fleets import ColumnFleet, Devices
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="module")
def export() -> StudyExport:
    """An open study's, which asked four numbers two by two."""
    schema = Schema("four", 1, **{name: Real(0, 1, 16) for name in "abcd"})
    people = Population.from_columns(schema, dict.fromkeys("abcd", [0.25, 0.5] * 2_000))
    study = Study(mean_vector(schema, missing="default"), schema, epsilon=2)
    signed = study.sign(KEY, nonce=bytes(16), expires_unix_s=1)
    policy = Policy(frozenset({KEY.public_key().public_bytes_raw()}), 2 * 10**9)
    log = MemoryLog()
    Session(
        study=signed,
        learner=study.learner,
        fleet=ColumnFleet(Devices(people, policy, SeededCoins(Seed.of(1)), lambda: 0)),
        log=log,
        cohort_seed=cohort_seed(digest_of(signed.study)),
        leaf_key=bytes(32),
    ).run()
    return StudyExport(signed, tuple(log.lines()), None)


def changed(export: StudyExport, groups: slice) -> StudyExport:
    """With some of the groups, and their tallies, in another order or left out."""
    header, *events = (json.loads(line) for line in export.lines)
    for event in events:
        part = "groups" if event["kind"] == "asked" else "tallies"
        event[part] = event[part][groups]
    lines = (json.dumps(event, sort_keys=True, separators=(",", ":")) for event in events)
    return replace(export, lines=(json.dumps(header, sort_keys=True), *lines))


def test_its_blocks_are_what_the_question_has(export: StudyExport) -> None:
    assert len(json.loads(export.lines[1])["groups"]) == 2
    assert verify(export).rounds == 1


@pytest.mark.parametrize("groups", [slice(0, 1), slice(1, None), slice(None, None, -1)])
def test_a_block_left_out_or_out_of_order_is_found(export: StudyExport, groups: slice) -> None:
    with pytest.raises(VerificationFailed, match="round 1: expected"):
        verify(changed(export, groups))
