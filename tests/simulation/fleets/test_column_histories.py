"""Columns equal device objects after any history.

Histories have studies with cohorts of their own, rounds of several requests, absent and lying
devices, and records that change.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_request
from askance_aggregator.families import best_for
from askance_aggregator.learners import mean
from askance_aggregator.queries import category, predicate, real
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy, settling
from askance_client.errors import InvalidParameter
from askance_client.messages import Request
from askance_client.queries import (
    Category,
    Integer,
    Query,
    Schema,
)
from askance_client.randomizers import Randomizer
from askance_simulation.disturbances import PRESENT_AND_HONEST, Behaviour
from askance_simulation.experiments import simulate
from askance_simulation.fleets import (
    ColumnFleet,
    Devices,
    ObjectFleet,
    Threads,
    chunks,
    classes,
)
from askance_simulation.populations import Population
from askance_simulation.populations import population as population_module
from askance_simulation.randomness import Seed, SeededCoins

USERS = 40
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
ANALYSTS = frozenset((KEY.public_key().public_bytes_raw(),))
SCHEMA = Schema("people", 1, age=Integer(0, 100), kind=Category("abcdefg"))
QUESTIONS: tuple[tuple[Query, Randomizer], ...] = (
    (predicate(SCHEMA.age > 30), best_for(2, 10**9)),
    (real(SCHEMA.age), best_for(2, 10**9)),
    (category(SCHEMA.kind), best_for(7, 10**9)),
    (category(SCHEMA.kind), best_for(7, 2 * 10**9)),
)
FIELDS = ("age", "kind")
STUDIES = tuple(
    Study(mean(SCHEMA.age), SCHEMA, epsilon=epsilon, fields=FIELDS).sign(
        KEY, nonce=nonce, expires_unix_s=2**40
    )
    for nonce, epsilon in ((b"1" * 16, 2), (b"2" * 16, 3), (b"3" * 16, 4))
)


def people(shift: int) -> Population:
    return Population.from_columns(
        SCHEMA,
        {"age": (np.arange(USERS) * 5 + shift) % 110, "kind": [*"abc", None, "g"] * (USERS // 5)},
    )


class Fickle:
    """Devices of which a fixed part stays away from a round, and every fourth lies."""

    absences = True
    lies = True

    def absent(
        self, study: bytes, round_number: int, ordinals: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        away: NDArray[np.bool_] = (ordinals * 7 + round_number * 5 + study[0]) % 3 == 0
        return away

    def lying(self, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        liars: NDArray[np.bool_] = ordinals % 4 == 1
        return liars

    def lie(
        self, request: bytes, ordinal: int, query: Query, randomizer: Randomizer, level: int
    ) -> bytes:
        """Return the true level for low ordinals, else a function of the request."""
        told = level if ordinal < USERS // 2 else (request[0] + ordinal) % randomizer.levels
        coins = [(ordinal * 2**50 + told) % 2**64] * randomizer.coins
        return randomizer.randomize(told, coins)


@dataclass(frozen=True)
class Asked:
    """A round: of which study, by which cohorts' seed, and of each cohort which questions."""

    study: int
    seed: int
    cuts: tuple[int, ...]
    questions: tuple[int, ...]


ROUNDS = st.builds(
    Asked,
    study=st.integers(0, len(STUDIES) - 1),
    seed=st.integers(0, 2),
    cuts=st.lists(st.integers(0, USERS), min_size=2, max_size=4).map(lambda c: tuple(sorted(c))),
    questions=st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
)


def round_of(number: int, asked: Asked) -> Round:
    study = STUDIES[asked.study]
    digest = digest_of(study.study)
    order = Permutation(bytes([asked.seed]), USERS)
    groups: list[Group] = []
    for cut in sorted(set(pairwise(asked.cuts))):
        for question in asked.questions:
            query, randomizer = QUESTIONS[question]
            payload = encode_request(Request(digest, number, len(groups), query, randomizer))
            loss = randomizer.loss.nano_nats
            groups.append(
                Group(
                    payload,
                    digest_of(payload),
                    query,
                    randomizer,
                    loss,
                    Cohort(order, *cut),
                    bytes(32),
                )
            )
    return Round(number, study, digest, tuple(groups))


def both(
    population: Population, life: int, behaviour: Behaviour
) -> list[ObjectFleet | ColumnFleet]:
    return [
        make(
            Devices(
                population,
                Policy(ANALYSTS, life * 10**9),
                SeededCoins(Seed.of(1)),
                lambda: 1_767_225_600,
                behaviour,
            )
        )
        for make in (ObjectFleet, ColumnFleet)
    ]


def asked_by(fleet: ObjectFleet | ColumnFleet, round_: Round) -> tuple[object, ...]:
    accounts, recalled = Accounts(USERS, 10**12), Accounts(USERS, 10**12)
    tallies = fleet.ask(round_, accounts)
    fleet.recall(round_, recalled)
    return tallies, accounts.spending(), accounts.reconciled(), recalled.spending()


@pytest.mark.parametrize(
    ("behaviour", "drifts"),
    [
        pytest.param(PRESENT_AND_HONEST, False, id="honest-steady"),
        pytest.param(PRESENT_AND_HONEST, True, id="honest-drifting", marks=pytest.mark.slow),
        pytest.param(Fickle(), False, id="fickle-steady", marks=pytest.mark.slow),
        pytest.param(Fickle(), True, id="fickle-drifting"),
    ],
)
@settings(max_examples=25, deadline=None)
@given(
    rounds=st.lists(ROUNDS, min_size=1, max_size=6),
    life=st.integers(1, 9),
    again=st.booleans(),
)
def test_any_sequence_of_rounds(
    behaviour: Behaviour, drifts: bool, rounds: list[Asked], life: int, again: bool
) -> None:
    population = people(0)
    if drifts:
        object.__setattr__(population, "drift", lambda number: people(number * 31))
    objects, columns = both(population, life, behaviour)
    made = [round_of(number, asked) for number, asked in enumerate(rounds)]
    for round_ in [*made, *made] if again else made:
        assert asked_by(columns, round_) == asked_by(objects, round_)


def test_past_the_limit_of_refusals_no_report_comes_from_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling, "MAX_REFUSALS", 2)
    assert heard_of_refusals((0, 0, 0)) == [[USERS] * 3, [USERS, 0, 0], [USERS, 0, 0]]


def test_studies_past_the_number_with_a_count_of_their_own_share_one_in_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns counted each study by itself, however many there were."""
    monkeypatch.setattr(settling, "MAX_REFUSALS", 3)
    monkeypatch.setattr(settling, "_MAX_COUNTED", 1)
    assert heard_of_refusals((0, 1, 2)) == [[USERS] * 3, [USERS] * 3, [USERS, USERS, 0]]


def heard_of_refusals(studies: tuple[int, ...]) -> list[list[int]]:
    """Ask all users three questions per study, and return the numbers of reports that left."""
    objects, columns = both(people(0), 1, PRESENT_AND_HONEST)
    answered = []
    for number, study in enumerate(studies):
        asked = Asked(study=study, seed=0, cuts=(0, USERS), questions=(0, 1, 2))
        round_ = round_of(number, asked)
        found = asked_by(columns, round_)
        assert found == asked_by(objects, round_)
        tallies: Any = found[0]
        answered.append([tally.answered + sum(n for _, n in tally.refusals) for tally in tallies])
    return answered


def test_the_behaviour_is_worth_its_test() -> None:
    """Else the sequences above would say nothing of it."""
    everybody = Asked(0, 0, (0, USERS), (0,))
    honest, fickle = (
        both(people(0), 9, behaviour)[1].ask(round_of(0, everybody), Accounts(USERS, 10**12))[0]
        for behaviour in (PRESENT_AND_HONEST, Fickle())
    )
    assert honest.answered == honest.asked == fickle.asked == USERS
    assert 0 < fickle.answered < USERS
    assert honest.root != fickle.root


@pytest.mark.parametrize("workers", [2, 3])
def test_how_many_threads_there_are_changes_nothing(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven chunks and a part, blocks that do not divide a chunk, two cohorts."""
    monkeypatch.setattr(chunks, "_BLOCK", 1000)
    monkeypatch.setattr(chunks, "_FEWEST", 1000)
    users = 7 * 2**16 + 123
    population = Population.generated("numbers", users)
    field = population.schema["number"]
    study = Study(mean(field), population.schema, epsilon=2)
    signed = study.sign(KEY, nonce=bytes(16), expires_unix_s=2**40)
    digest = digest_of(signed.study)
    order = Permutation(b"seed", users)
    groups = []
    for place, cohort in enumerate((Cohort(order, 5, 100_000), Cohort(order, 100_000, 130_000))):
        query, randomizer = real(field), best_for(2, 10**9)
        payload = encode_request(Request(digest, 0, place, query, randomizer))
        groups.append(
            Group(payload, digest_of(payload), query, randomizer, 10**9, cohort, bytes(32))
        )
    round_ = Round(0, signed, digest, tuple(groups))
    found = []
    for count in (1, workers):
        devices = Devices(
            population, Policy(ANALYSTS, 2 * 10**9), SeededCoins(Seed.of(1)), lambda: 1_767_225_600
        )
        told: list[int] = []
        accounts = Accounts(users, 2 * 10**9)
        tallies = ColumnFleet(devices, told.append, Threads(count)).ask(round_, accounts)
        assert sum(told) == 129_995
        found.append((tallies, accounts.spending()))
    assert found[0] == found[1]
    one, other = found[0][0]
    assert (one.answered, other.answered) == (99_995, 30_000)


def test_how_many_users_are_looked_at_together_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chunk and a part; all users and some, with absences and lies; records get wide."""
    users = 2**16 + 5_000
    population = Population.generated("numbers", users)
    query, randomizer = real(population.schema["number"]), best_for(2, 10**9)
    study = Study(mean(population.schema["number"]), population.schema, epsilon=2)
    signed = study.sign(KEY, nonce=bytes(16), expires_unix_s=2**40)
    digest = digest_of(signed.study)
    order = Permutation(b"seed", users)
    found = []
    for words in (1 << 23, 1 << 16, 1):
        monkeypatch.setattr(population_module, "_WORDS_AT_ONCE", words)
        for behaviour in (PRESENT_AND_HONEST, Fickle()):
            for cohort in (Cohort(order, 0, users), Cohort(order, 100, 40_000)):
                payload = encode_request(Request(digest, 0, 0, query, randomizer))
                group = Group(
                    payload, digest_of(payload), query, randomizer, 10**9, cohort, bytes(32)
                )
                devices = Devices(
                    population,
                    Policy(ANALYSTS, 2 * 10**9),
                    SeededCoins(Seed.of(1)),
                    lambda: 1_767_225_600,
                    behaviour,
                )
                round_ = Round(0, signed, digest, (group,))
                accounts = Accounts(users, 2 * 10**9)
                found.append((ColumnFleet(devices).ask(round_, accounts), accounts.spending()))
    assert found[:4] == found[4:8] == found[8:]
    assert len({tallies[0].root for tallies, _ in found}) == 4


def test_whether_who_is_asked_is_listed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks and a part, the second round asks some of the first one's users and others."""
    users = 2 * 2**16 + 77
    population = Population.generated("numbers", users)
    query, randomizer = real(population.schema["number"]), best_for(2, 10**9)
    study = Study(mean(population.schema["number"]), population.schema, epsilon=2)
    signed = study.sign(KEY, nonce=bytes(16), expires_unix_s=2**40)
    digest = digest_of(signed.study)
    rounds = []
    for number, seed in enumerate((b"one", b"other")):
        payload = encode_request(Request(digest, number, 0, query, randomizer))
        cohort = Cohort(Permutation(seed, users), 5, 9_000)
        group = Group(payload, digest_of(payload), query, randomizer, 10**9, cohort, bytes(32))
        rounds.append(Round(number, signed, digest, (group,)))
    found = []
    for few in (1, users):
        monkeypatch.setattr(classes, "_FEW", few)
        devices = Devices(
            population,
            Policy(ANALYSTS, 10**9),
            SeededCoins(Seed.of(1)),
            lambda: 1_767_225_600,
            Fickle(),
        )
        fleet = ColumnFleet(devices)
        accounts = [Accounts(users, 2 * 10**9) for _ in rounds]
        tallies = [fleet.ask(*asked) for asked in zip(rounds, accounts, strict=True)]
        found.append((tallies, [one.spending() for one in accounts]))
    assert found[0] == found[1]
    assert all(tally.answered > 5_000 for (tally,) in found[0][0])


def test_workers_are_told_to_a_fleet_that_has_them() -> None:
    population = Population.generated("numbers", 2**17 + 5)
    study = Study(mean(population.schema["number"]), population.schema, epsilon=1)
    digests = {
        simulate(study, population, fleet="columns", workers=workers).transcript.digest
        for workers in (None, 1, 2)
    }
    assert len(digests) == 1
    with pytest.raises(InvalidParameter, match="expected a fleet that has them"):
        simulate(study, population, fleet="objects", workers=2)
    with pytest.raises(InvalidParameter, match="workers: expected 1 or more, got 0"):
        simulate(study, population, fleet="columns", workers=0)
