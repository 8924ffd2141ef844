"""A study asks about the fields that its analyst signed, and about no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request
from askance_aggregator.families import randomized_response
from askance_aggregator.learners import Adaptive, Batch, Learning, NonAdaptive, Question, adaptive
from askance_aggregator.queries import predicate
from askance_aggregator.studies import Accounts, Fleet, Group, MemoryLog, Round
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Asked, Closed, Header, Stopped
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_study, digest_of
from askance_client.device import Policy
from askance_client.errors import InvalidParameter, PlanExceeded
from askance_client.messages import Reason, Request, SignedStudy
from askance_client.queries import (
    Bit,
    Expression,
    Integer,
    Schema,
)
from askance_simulation.fleets import ColumnFleet, Devices, ObjectFleet
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins
from tests.conftest import cohort_of

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

USERS = 20
SCHEMA = Schema("patients", 1, age=Integer(0, 127), hiv=Bit(), smokes=Bit())
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
YES = Question(predicate(SCHEMA["hiv"] == 1), tau="1/5")
OLD = Question(predicate(SCHEMA["age"] > 60), tau="1/5")


def asks(*batches: Batch) -> Adaptive[int]:
    def run() -> Learning[int]:
        for batch in batches:
            _ = yield batch
        return len(batches)

    return Adaptive(name="asks", version=1, parameters={}, schema=SCHEMA, factory=run)


def signed(study: Study) -> SignedStudy:
    return study.sign(KEY, nonce=bytes(16), expires_unix_s=2**40)


def devices() -> Devices:
    columns = {"age": [40] * USERS, "hiv": [1] * USERS, "smokes": [0] * USERS}
    policy = Policy(frozenset({KEY.public_key().public_bytes_raw()}), 10**10)
    people = Population.from_columns(SCHEMA, columns)
    return Devices(people, policy, SeededCoins(Seed.of(1)), lambda: 1_000)


@pytest.mark.parametrize("fleet", [ObjectFleet, ColumnFleet])
def test_a_study_about_age_that_asks_hiv_is_refused_by_every_device_and_charges_none(
    fleet: Callable[[Devices], Fleet],
) -> None:
    """The aggregator is hostile: it sends what no session of the study would."""
    study = signed(Study(asks(Batch([OLD])), SCHEMA, epsilon=1))
    assert decode_study(study.study).fields == ("age",)
    digest, randomizer = digest_of(study.study), randomized_response(parse_epsilon("1"))
    payload = encode_request(Request(digest, 0, 0, YES.query, randomizer))
    cohort = cohort_of(range(USERS), USERS)
    group = Group(payload, digest_of(payload), YES.query, randomizer, 10**9, cohort, bytes(32))
    accounts = Accounts(USERS, 10**9)
    accounts.reserve(cohort, 10**9)
    people = devices()
    (tally,) = fleet(people).ask(Round(0, study, digest, (group,)), accounts)
    assert tally.refusals == ((Reason.FIELD_NOT_ALLOWED, USERS),)
    assert tally.answered == 0
    assert accounts.spending().total_spent == 0
    if fleet is ObjectFleet:
        assert not any(list(people[ordinal].ledger.history()) for ordinal in range(USERS))


def test_the_signed_fields_are_those_of_the_rehearsal_and_of_the_arguments() -> None:
    @adaptive("either")
    def either(first: Expression, others: list[Expression]) -> Learning[int]:
        (answer,) = yield Batch([Question(predicate(first), tau="1/5")])
        yield Batch([Question(predicate(others[answer.value > 0.5]), tau="1/5")])
        return 0

    learner = either(SCHEMA["hiv"] == 1, [SCHEMA["smokes"] == 1, SCHEMA["age"] > 60])
    assert Study(learner, SCHEMA, epsilon=1).fields == ("age", "hiv", "smokes")
    assert Study(asks(Batch([YES])), epsilon=1).fields == ("hiv",)

    @adaptive("named")
    def named(schema: Schema, column: str) -> Learning[int]:
        yield Batch([Question(predicate(schema["hiv"] == 1))])
        return 0

    assert Study(named(SCHEMA, "age"), epsilon=1).fields == ("age", "hiv")


def test_what_is_not_adaptive_signs_its_one_batch_alone() -> None:
    learner = NonAdaptive(
        name="alone", version=1, parameters={"column": "age"}, schema=SCHEMA,
        batch=Batch([YES]), conclude=lambda answers: answers,
    )  # fmt: skip
    assert Study(learner, epsilon=1).fields == ("hiv",)


def test_fields_may_be_given_and_cover_what_the_learner_needs() -> None:
    learner = asks(Batch([YES]), Batch([OLD]))
    given = Study(learner, epsilon=1, fields=["smokes", "hiv", "age", "hiv"])
    assert given.fields == ("age", "hiv", "smokes")
    with pytest.raises(InvalidParameter, match=r"^fields: expected all .* got none named hiv$"):
        signed(Study(learner, epsilon=1, fields=["age"]))
    with pytest.raises(
        InvalidParameter, match="fields: expected one of the fields age, hiv, smokes, got 'HIV'"
    ):
        Study(learner, epsilon=1, fields=["HIV"])


def test_a_run_that_turns_to_a_field_that_is_not_signed_stops_before_it_is_asked(
    world: World,
) -> None:
    log = MemoryLog()
    allowed = [Question(predicate(world.schema["b"] == 1), tau="1/5")]
    unsigned = [Question(predicate(world.schema["i"] == 1), tau="1/5")]
    learner = asks(Batch(allowed), Batch(unsigned))
    study = world.study(fields=("b",))
    fleet = world.recorded(ObjectFleet(world.devices()))
    session = world.session(fleet, log, learner=learner, study=study)
    with pytest.raises(PlanExceeded, match=r"round 2: .* signs, got i; .* users .* stay charged"):
        session.run()
    kinds = [type(event) for event in session.transcript.recorded]
    assert kinds == [Header, Asked, Closed, Stopped]
    assert len(fleet.asked) == 1
