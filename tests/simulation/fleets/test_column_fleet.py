"""Columns are device objects: request by request, whatever was asked before and of whom."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.encoding import encode_request
from askance_aggregator.families import (
    best_for,
    hadamard_sign,
    linear_hashing,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import mean
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
)
from askance_aggregator.studies import Accounts, Group, Round
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.messages import Reason, Request, SignedStudy
from askance_client.queries import (
    Category,
    Integer,
    Query,
    Schema,
)
from askance_simulation.experiments import simulate
from askance_simulation.fleets import ColumnFleet, Devices, ObjectFleet
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins
from tests.conftest import cohort_of

USERS, NOW_S = 40, 1_767_225_600
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OWNER = Policy(frozenset((KEY.public_key().public_bytes_raw(),)), 3_000_000_000)
SCHEMA = Schema("people", 1, age=Integer(0, 100), kind=Category("abcdefg"))
PEOPLE = Population.from_columns(
    SCHEMA, {"age": np.arange(USERS) * 5 % 110, "kind": [*"abc", None, "g"] * (USERS // 5)}
)
QUESTIONS = (
    (predicate(SCHEMA.age > 30), best_for(2, 10**9)),
    (real(SCHEMA.age), best_for(2, 10**9)),
    (category(SCHEMA.kind), best_for(7, 10**9)),
    (category(SCHEMA.kind), best_for(7, 2 * 10**9)),
    (category(SCHEMA.kind), linear_hashing(7, 10**9)),
    (signed(SCHEMA.kind), hadamard_sign(3, 10**9)),
    (signed(SCHEMA.kind), signed_subset_selection(3, 10**9)),
    (predicate(SCHEMA.age > 30), subset_selection(2, 10**9)),
)
FIELDS = ("age", "kind")
STUDIES = tuple(
    Study(mean(SCHEMA.age), SCHEMA, epsilon=2, fields=FIELDS).sign(
        KEY, nonce=nonce, expires_unix_s=2**40
    )
    for nonce in (b"1" * 16, b"2" * 16)
)


@dataclass(frozen=True)
class Ask:
    """A request: of which study, which question, of whom."""

    study: int
    question: int
    members: tuple[int, ...]


ASKS = st.builds(
    Ask,
    study=st.integers(0, 1),
    question=st.integers(0, len(QUESTIONS) - 1),
    members=st.lists(st.integers(0, USERS - 1), unique=True).map(lambda some: tuple(sorted(some))),
)


def round_of(number: int, ask: Ask, signed: SignedStudy | None = None) -> Round:
    study = signed or STUDIES[ask.study]
    query: Query
    query, randomizer = QUESTIONS[ask.question]
    digest = digest_of(study.study)
    payload = encode_request(Request(digest, number, 0, query, randomizer))
    group = Group(
        payload,
        digest_of(payload),
        query,
        randomizer,
        randomizer.loss.nano_nats,
        cohort_of(ask.members, USERS),
        bytes(32),
    )
    return Round(number, study, digest, (group,))


class Pair:
    """The same users twice, and what the same rounds lead to."""

    def __init__(self, policy: Policy = OWNER) -> None:
        self.fleets = tuple(
            make(Devices(PEOPLE, policy, SeededCoins(Seed.of(1)), lambda: NOW_S))
            for make in (ObjectFleet, ColumnFleet)
        )

    def asked(self, round_: Round) -> tuple[object, object]:
        """Return the tallies and the accounts, by objects and by columns."""
        found = []
        for fleet in self.fleets:
            accounts = Accounts(USERS, 10**12)
            tallies = fleet.ask(round_, accounts)
            recalled = Accounts(USERS, 10**12)
            fleet.recall(round_, recalled)
            found.append((tallies, accounts.spending(), recalled.spending().total_spent))
        return found[0], found[1]


@settings(max_examples=60, deadline=None)
@given(asks=st.lists(ASKS, min_size=1, max_size=7), again=st.booleans())
def test_any_sequence_of_requests(asks: list[Ask], again: bool) -> None:
    """Tallies, refusals and reported spending are the same.

    Budgets run out, questions are frozen under other requests and studies, and rounds are asked
    twice.
    """
    pair = Pair()
    rounds = [round_of(number, ask) for number, ask in enumerate(asks)]
    for round_ in [*rounds, *rounds] if again else rounds:
        one, other = pair.asked(round_)
        assert one == other


def test_the_sequences_meet_what_they_are_for() -> None:
    """A budget of 3 nats: 1 + 2 fit, one more does not.

    The first question again costs nothing.
    """
    everyone = tuple(range(USERS))
    fleet = Pair().fleets[1]
    refusals, spent = [], []
    for number, (study, question) in enumerate([(0, 0), (1, 3), (0, 1), (1, 0)]):
        accounts = Accounts(USERS, 10**12)
        (tally,) = fleet.ask(round_of(number, Ask(study, question, everyone)), accounts)
        refusals.append(dict(tally.refusals))
        spent.append(accounts.spending().max_spent)
    assert refusals == [{}, {}, {Reason.OVER_LIFE_BUDGET: USERS}, {}]
    assert spent == [10**9, 2 * 10**9, 0, 0]  # a refusal and a reused answer report no sum


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"analysts": frozenset((bytes(32),))}, Reason.UNKNOWN_STUDY),
        ({"fields": frozenset(("kind",))}, Reason.FIELD_NOT_ALLOWED),
        ({"study_nano_nats": 5}, Reason.OVER_STUDY_BUDGET),
        ({"day_nano_nats": 5}, Reason.OVER_DAY_BUDGET),
        ({"life_nano_nats": 5}, Reason.OVER_LIFE_BUDGET),
    ],
)
def test_what_every_owner_refuses(changes: dict[str, object], reason: Reason) -> None:
    pair = Pair(replace(OWNER, **changes))  # type: ignore[arg-type]  # any of its fields
    one, other = pair.asked(round_of(0, Ask(0, 0, (1, 5, 9))))
    assert one == other
    (tally,) = pair.fleets[1].ask(round_of(0, Ask(0, 0, (1, 5, 9))), Accounts(USERS, 10**12))
    assert dict(tally.refusals) == {reason: 3}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"study_answers": 1}, Reason.OVER_STUDY_BUDGET),
        ({"study_work": 30}, Reason.OVER_DAY_BUDGET),
    ],
)
def test_answers_and_work_that_every_owner_limits_per_study(
    changes: dict[str, int], reason: Reason
) -> None:
    """Question 0 has a weight of 6, and 16 of a draw: there is no room for another one."""
    pair = Pair(replace(OWNER, **changes))  # type: ignore[arg-type]  # two of its fields
    everyone, refusals = tuple(range(USERS)), []
    for number, (study, question) in enumerate([(0, 0), (0, 4), (1, 4), (1, 0)]):
        round_ = round_of(number, Ask(study, question, everyone))
        one, other = pair.asked(round_)
        assert one == other
        (tally,) = pair.fleets[1].ask(round_, Accounts(USERS, 10**12))
        refusals.append(dict(tally.refusals))
    assert refusals == [{}, {reason: USERS}, {}, {}]


def test_an_expired_study() -> None:
    study = Study(mean(SCHEMA.age), SCHEMA, epsilon=2)
    signed = study.sign(KEY, nonce=bytes(16), expires_unix_s=NOW_S)
    one, other = Pair().asked(round_of(0, Ask(0, 0, (1, 2)), signed))
    assert one == other


def test_more_than_one_chunk_of_ordinals() -> None:
    people = Population.generated("numbers", 2**16 + 300)
    study = Study(mean(people.schema["number"]), people.schema, epsilon=1)
    digests = {
        simulate(study, people, fleet=fleet, seed=3).transcript.digest
        for fleet in ("objects", "columns")
    }
    assert len(digests) == 1
