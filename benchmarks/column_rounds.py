"""A timed round of the columns fleet, for the benchmarks of columns and of their kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request
from askance_aggregator.learners.learner import Learner
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.messages import Request
from askance_client.queries import Query
from askance_client.randomizers import Randomizer
from askance_simulation.fleets import ColumnFleet, Devices, Threads
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
NANO_NATS = 8 * 10**9  # of a user: what one question of a benchmark costs, or more

Took = tuple[float, float]
"""Seconds on the wall, and of the processor."""


def answered(
    population: Population,
    learner: Learner[Any],
    query: Query,
    randomizer: Randomizer,
    workers: int,
) -> Took:
    """Answer a question by all users, as one round of a study of the learner."""
    study, users = Study(learner, population.schema, epsilon=8), population.size
    signed = study.sign(KEY, nonce=bytes(16), expires_unix_s=1)
    digest = digest_of(signed.study)
    payload = encode_request(Request(digest, 0, 0, query, randomizer))
    everybody = Cohort(Permutation(b"", users), 0, users)
    nano = randomizer.loss.nano_nats
    group = Group(payload, digest_of(payload), query, randomizer, nano, everybody, bytes(32))
    policy = Policy(frozenset((KEY.public_key().public_bytes_raw(),)), NANO_NATS)
    devices = Devices(population, policy, SeededCoins(Seed.of(0)), lambda: 0)
    fleet = ColumnFleet(devices, runner=Threads(workers))

    def ask() -> None:
        (tally,) = fleet.ask(Round(0, signed, digest, (group,)), Accounts(users, NANO_NATS))
        if tally.answered != users:
            raise AssertionError(f"expected {users} answers, found {tally.answered}")

    return timed(ask)


def timed(work: Callable[[], object]) -> Took:
    """Do some work and time it."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor
