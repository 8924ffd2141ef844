"""The columns fleet gives the same rounds with kernels as without, at any number of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request
from askance_aggregator.families import (
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import frequency
from askance_aggregator.queries import category, predicate, real, signed, vector
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round, Tally
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.messages import Request
from askance_client.queries import Category, Integer, Real, Schema
from askance_client.randomizers import Channel, Randomizer
from askance_simulation.disturbances import PRESENT_AND_HONEST, Misbehaviour
from askance_simulation.families import fused
from askance_simulation.fleets import ColumnFleet, Devices, Threads
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins

USERS = (1 << 16) + 1357  # a chunk, and a part of one that no block of coins divides
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
SCHEMA = Schema(
    "people", 1, age=Integer(-20, 100), kind=Category("abcdefg"), x=Real(-1, 1, 9), y=Real(0, 3, 20)
)
HALF = 1 << 63
LADDER = Channel(tuple(tuple(HALF if x == y else HALF // 4 for y in range(5)) for x in range(5)))
QUESTIONS: dict[str, tuple[Any, Randomizer]] = {
    "predicate": (predicate(SCHEMA.age > 30), randomized_response(10**9)),
    "one bit": (real(SCHEMA.age), randomized_response(10**9)),
    "five levels": (real(SCHEMA.age), LADDER),
    "narrower than its field": (real(SCHEMA.age, 18, 65), LADDER),
    "a fine grid": (real(SCHEMA.y), LADDER),
    "k-ary": (category(SCHEMA.kind), k_ary_response(7, 10**9)),
    "sets": (category(SCHEMA.kind), subset_selection(7, 10**9)),
    "hash": (category(SCHEMA.kind), linear_hashing(7, 10**9)),
    "Hadamard": (signed(SCHEMA.kind), hadamard_sign(3, 10**9)),
    "signed sets": (signed(SCHEMA.kind), signed_subset_selection(3, 10**9)),
    "sign patterns": (vector([SCHEMA.x, SCHEMA.age]), hypercube_response(2, 10**9)),
}


def people(kinds: list[str | None]) -> Population:
    """Return users, of whom those of kind None have no answer to a question about it."""
    place = np.arange(USERS)
    columns = {
        "age": place % 121 - 20,
        "kind": [kinds[row % len(kinds)] for row in range(USERS)],
        "x": place % 1000 / 499.5 - 1,
        "y": place % 3001 / 1000,
    }
    return Population.from_columns(SCHEMA, columns)


ALL = people([*"abcdefg"])
SOME = people([*"ab", None, "g"])


def tally_of(name: str, population: Population, cohort: Cohort, lies: bool) -> Tally:
    """Ask one question of a cohort."""
    query, randomizer = QUESTIONS[name]
    study = Study(frequency(SCHEMA.kind), SCHEMA, epsilon=3, fields=tuple(SCHEMA.fields))
    signed_study = study.sign(KEY, nonce=bytes(16), expires_unix_s=2**40)
    digest = digest_of(signed_study.study)
    payload = encode_request(Request(digest, 0, 0, query, randomizer))
    nano = randomizer.loss.nano_nats
    group = Group(payload, digest_of(payload), query, randomizer, nano, cohort, bytes(32))
    policy = Policy(frozenset((KEY.public_key().public_bytes_raw(),)), 3 * 10**9)
    behaviour = Misbehaviour(liars="0.001")(Seed.of(3)) if lies else PRESENT_AND_HONEST
    devices = Devices(population, policy, SeededCoins(Seed.of(1)), lambda: 0, behaviour)
    fleet = ColumnFleet(devices, runner=Threads(1))
    (tally,) = fleet.ask(Round(0, signed_study, digest, (group,)), Accounts(USERS, 10**12))
    return tally


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Return a function that turns kernels on or off for populations of any size."""
    pytest.importorskip("numba")
    return lambda on: monkeypatch.setattr(fused, "LEAST_USERS", 0 if on else USERS + 1)


EVERYBODY = Cohort(Permutation(b"", USERS), 0, USERS)
PART = Cohort(Permutation(b"seed", USERS), 1000, 40_123)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_round_of_a_part_is_the_same_with_kernels(
    kernels: Callable[[bool], None], name: str
) -> None:
    """Some have no answer."""
    check_same(kernels, name, PART, SOME)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("k-ary", "one bit") else [pytest.mark.slow])
        for name in QUESTIONS
    ],
)
def test_a_round_of_all_is_the_same_with_kernels(
    kernels: Callable[[bool], None], name: str
) -> None:
    check_same(kernels, name, EVERYBODY, ALL)


def check_same(
    kernels: Callable[[bool], None], name: str, cohort: Cohort, population: Population
) -> None:
    kernels(False)
    plain = tally_of(name, population, cohort, lies=False)
    kernels(True)
    assert tally_of(name, population, cohort, lies=False) == plain
    assert plain.answered == cohort.size


@pytest.mark.parametrize("name", ["predicate", "sets"])
def test_lies_are_counted_with_kernels_as_without(
    kernels: Callable[[bool], None], name: str
) -> None:
    kernels(False)
    plain = tally_of(name, ALL, EVERYBODY, lies=True)
    kernels(True)
    assert tally_of(name, ALL, EVERYBODY, lies=True) == plain
    assert tally_of(name, ALL, EVERYBODY, lies=False) != plain
