"""Studies that have been run and are kept in a store, with hostile names, for pages about them."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst.submission import Every, StudyDefinition, sign_submission
from askance_aggregator.encoding import read_terms
from askance_aggregator.learners import Learner, decision_tree, frequency, mean, ranges
from askance_aggregator.learners.masked_parity import masked_parity
from askance_aggregator.names import named_schema
from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore, StudyState
from askance_aggregator.studies import Session
from askance_aggregator.studies.outer import outer_json
from askance_aggregator.studies.results import End, cohort_seed, conclusion
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.queries import Category, Integer, Label, Schema
from askance_simulation.fleets import ColumnFleet, Devices
from askance_simulation.populations import Population
from askance_simulation.populations import masked_parity as parity_people
from askance_simulation.randomness import Seed, SeededCoins
from tests.aggregator.server.callers.role_server import KEYS, NOW_S, public

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
ANALYST = KEYS[Role.ANALYST]
_DAY_S = 86_400
_LABELS = (HOSTILE, "ordinary")


def add_shares(store: SqliteStore, key: Ed25519PrivateKey = ANALYST) -> bytes:
    """Run a study of shares whose purpose and value are markup; return its digest."""
    schema = Schema(HOSTILE, 1, habit=Category(_LABELS))
    people = Population.from_columns(schema, {"habit": [_LABELS[0]] * 700 + [_LABELS[1]] * 1_300})
    return add_run(store, frequency(schema.habit), people, key)


def add_named(store: SqliteStore) -> bytes:
    """Run a study of shares of a column whose name no field can have; return its digest."""
    schema = named_schema(Schema("people", 1, Gr__e=Category(["S", "L"])), {"Gr__e": "Größe <b>"})
    people = Population.from_columns(schema, {"Gr__e": ["S"] * 700 + ["L"] * 1_300})
    return add_run(store, frequency(schema.Gr__e), people, ANALYST, purpose="sizes")


def add_parity(store: SqliteStore, key: Ed25519PrivateKey = ANALYST) -> bytes:
    """Run a study of two rounds that concludes a mask; return its digest."""
    people = parity_people(300, Seed.of(5), 4)
    return add_run(store, masked_parity(people.schema), people, key)


def add_poor(store: SqliteStore) -> dict[str, bytes]:
    """Add a tree that is a constant, ranges that are hardly told apart, and a mean."""
    rng = np.random.default_rng(6)
    schema = Schema(
        "people",
        1,
        age=Integer(17, 90),
        education=Label(("school", "college", "university")),
    )
    columns = {
        "age": rng.integers(17, 91, 3_000).tolist(),
        "education": [("school", "college", "university")[n] for n in rng.integers(0, 3, 3_000)],
    }
    people = Population.from_columns(schema, columns)
    learners = {
        "constant tree": (decision_tree(schema), "Decision tree of education"),
        "ranges": (ranges(schema, "age"), "Ages of our users"),
        "mean": (mean(schema["age"]), "Mean age of our users"),
    }
    return {
        name: add_run(store, learner, people, ANALYST, purpose=purpose, epsilon="0.5")
        for name, (learner, purpose) in learners.items()
    }


def add_run(
    store: SqliteStore,
    learner: Learner[Any],
    people: Population,
    key: Ed25519PrivateKey,
    *,
    purpose: str = HOSTILE,
    every: Every | None = None,
    place: int = 0,
    epsilon: str = "4",
) -> bytes:
    """Run a study on simulated devices, keep its record and its result, and return its digest.

    Args:
      store: where it is kept.
      learner: what asks.
      people: records of the devices.
      key: the analyst's.
      purpose: of the study; with the learner it makes the study's nonce.
      every: its epochs, the last of which is today's; None: it collects once.
      place: of the epoch that is run, from 0; the study stays open.
      epsilon: of the study, 4 at most.
    """
    study = Study(learner, people.schema, epsilon=epsilon, purpose=purpose, least_answers=1)
    nonce = sha256(f"{learner.name} {purpose}".encode()).digest()
    began_s = NOW_S if every is None else NOW_S - every.days * (every.epochs - 1) * _DAY_S
    signed = sign_submission(
        StudyDefinition(study, every=every),
        key,
        now_s=lambda: began_s,
        nonce=lambda size: nonce[:size],
    )
    digest, terms = digest_of(signed.study), read_terms(signed.study)
    epoch = 0 if terms.repeat is None else terms.repeat.first + place
    day_s = NOW_S if terms.repeat is None else epoch * terms.repeat.every_days * _DAY_S
    policy = Policy(frozenset({public(key)}), 4 * 10**9, refresh_days=1)
    store.add_study(digest, signed)
    store.management.note_submission(digest, began_s)
    session = Session(
        study=signed,
        learner=learner,
        fleet=ColumnFleet(Devices(people, policy, SeededCoins(Seed.of(1)), lambda: day_s)),
        log=store.log(digest, epoch),
        cohort_seed=cohort_seed(digest, epoch),
        leaf_key=bytes(32),
        epoch=epoch,
    )
    store.listing.note_users(digest, session.population)
    outcome = session.run()
    done = End(StudyState.DONE, "done")
    store.conclude(
        digest,
        conclusion(
            *(digest, terms, session.transcript, session.accounts, done, outcome),
            epoch,
            readers=outer_json(session.transcript, terms.schema, Fraction(1, 10**6)),
        ),
        epoch,
        NOW_S + 60,
    )
    return digest
