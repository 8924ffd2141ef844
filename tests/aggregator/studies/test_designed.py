"""Designed decode values in a session: recorded with the group, and no replay designs them anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst import StudyExport, VerificationFailed, verify
from askance_aggregator.learners import find
from askance_aggregator.planning import designed
from askance_aggregator.store import StudyState
from askance_aggregator.studies import MemoryLog, Session, Transcript
from askance_aggregator.studies.results import End, cohort_seed, conclusion
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Asked
from askance_aggregator.table_design import Conditional, design_sample, design_table
from askance_client.codec import decode_request, decode_study, digest_of
from askance_client.device import Policy
from askance_client.errors import StoreError
from askance_client.messages import SignedStudy
from askance_simulation.fleets import Devices, ObjectFleet
from askance_simulation.populations import Population
from askance_simulation.populations.population import build
from askance_simulation.randomness import Seed, SeededCoins

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NOW_S = 1_700_000_000
USERS = 60
NATS = 4
SETTINGS = {"objective": "conditional", "missing": "default"}


def signed_study(population: Population) -> SignedStudy:
    entry = find("mean")
    made = entry.build(population.schema, SETTINGS)
    learner = replace(made, parameters=entry.spell(made, population.schema))
    study = Study(learner, population.schema, epsilon=NATS)
    return study.sign(KEY, nonce=bytes(16), expires_unix_s=NOW_S + 60)


def session(log: MemoryLog) -> Session[Any]:
    population = build("numbers", USERS, Seed.of(1), {})
    signed = signed_study(population)
    policy = Policy(frozenset({signed.public_key}), NATS * 10**9)
    fleet = ObjectFleet(Devices(population, policy, SeededCoins(Seed.of(2)), lambda: NOW_S))
    return Session(
        study=signed,
        learner=find("mean").build(population.schema, SETTINGS),
        fleet=fleet,
        log=log,
        cohort_seed=cohort_seed(digest_of(signed.study)),
        leaf_key=bytes(32),
    )


def asked(log: MemoryLog) -> Asked:
    event = Transcript(log).recorded[1]
    assert isinstance(event, Asked)
    return event


def test_the_decode_values_are_recorded_exactly_with_the_table_that_is_sent() -> None:
    log = MemoryLog()
    one = session(log)
    outcome = one.run()
    (group,) = asked(log).groups
    table = design_sample(NATS * 10**9)
    schema = build("numbers", 1, Seed.of(1), {}).schema
    assert decode_request(group.payload, schema).randomizer == table.channel
    assert group.decode == table.values
    assert outcome.hypothesis.of == "sample"
    (bounds,) = outcome.bounds
    assert bounds.answers == USERS
    assert bounds.least_users is None
    assert bounds.within == pytest.approx((outcome.hypothesis.high - outcome.hypothesis.low) / 2)


def test_a_replay_needs_the_same_values_from_no_designer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a later version would design: here, by other levels."""
    log = MemoryLog()
    before = session(log).run()
    other = design_table(4, NATS * 10**9, Conditional())
    monkeypatch.setattr(designed, "design_sample", lambda _: other)
    again = session(log).run()
    assert again.hypothesis == before.hypothesis
    assert again.bounds == before.bounds


@pytest.mark.parametrize(
    "decode", ["1/2", [1, 2], ["1/0"], ["x"], [None]], ids=["text", "numbers", "zero", "x", "none"]
)
def test_what_is_no_list_of_fractions_is_no_transcript(decode: object) -> None:
    log = MemoryLog()
    session(log).run()
    lines = list(log.lines())
    item = json.loads(lines[1])
    item["groups"][0]["decode"] = decode
    broken = MemoryLog()
    broken.append(lines[0])
    broken.append(json.dumps(item))
    with pytest.raises(StoreError, match="at line 2"):
        Transcript(broken)


@pytest.fixture
def export() -> StudyExport:
    """A study that is done."""
    log = MemoryLog()
    one = session(log)
    outcome = one.run()
    signed = signed_study(build("numbers", 1, Seed.of(1), {}))
    done = conclusion(
        digest_of(signed.study),
        decode_study(signed.study),
        one.transcript,
        one.accounts,
        End(StudyState.DONE, "done"),
        outcome,
    )
    return StudyExport(signed, tuple(log.lines()), json.loads(done.result_json))


def test_an_export_with_decode_values_is_verified(export: StudyExport) -> None:
    assert verify(export).state == "done"
    assert export.result is not None
    assert export.result["influence"][0].items() <= export.result["bounds"][0].items()


def doubled(values: list[str]) -> list[str]:
    return [str(2 * Fraction(value)) for value in values]


def one_less(values: list[str]) -> list[str]:
    return values[1:]


def mirrored(values: list[str]) -> list[str]:
    return values[::-1]


@pytest.mark.parametrize("change", [doubled, one_less, mirrored])
def test_decode_values_that_do_not_suit_their_table_are_found(
    export: StudyExport, change: Callable[[list[str]], list[str]]
) -> None:
    lines = list(export.lines)
    item = json.loads(lines[1])
    item["groups"][0]["decode"] = change(item["groups"][0]["decode"])
    lines[1] = json.dumps(item, sort_keys=True, separators=(",", ":"))
    with pytest.raises(VerificationFailed, match="decode values"):
        verify(replace(export, lines=tuple(lines), result=None))


def test_bounds_that_are_not_as_replayed_are_found(export: StudyExport) -> None:
    assert export.result is not None
    with pytest.raises(VerificationFailed, match="expected bounds as replayed"):
        verify(replace(export, result={**export.result, "bounds": []}))
