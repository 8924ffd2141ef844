"""Users and questions: small worlds whose outcome is known in advance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import sign_study
from askance_aggregator.learners import Learner, find
from askance_aggregator.studies import Accounts, Intake, MemoryLog, Outcome, Round, Session, Tally
from askance_aggregator.studies.results import cohort_seed
from askance_aggregator.studies.study import Study
from askance_client.codec import decode_request, digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import Ledger
from askance_client.messages import Request, SignedStudy
from askance_client.queries import Bit, Category, EncodedRecord, Schema
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.populations import masked_parity
from askance_simulation.randomness import Seed
from tests.conftest import add_report

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
NOW_S = 1_700_000_000
WEEK_S = 7 * 86_400
PERSON = Schema("person", 1, smoker=Bit(), colour=Category(("red", "green", "blue")))
EXAMINER = Examiner(capacity=4096)


@dataclass(frozen=True, slots=True)
class Plan:
    """A study that may be submitted.

    Args:
      learner, parameters: as the catalogue has them.
      nonce: two plans that differ in nothing else ask the same questions.
    """

    learner: str
    parameters: tuple[tuple[str, str], ...]
    nonce: int
    epsilon: int
    beta: str = "0.01"


@dataclass(frozen=True, slots=True)
class Setup:
    """A deployment before anything happens.

    Args:
      users: how many; ordinals are 0 .. users-1.
      plans: the first is submitted at once, the others when an operation says so; the second asks
        the same as the first.
      deadline_s, least_answers: of every study.
      life: what a device may spend in all, in nats.
      refresh_days: shortest `every` of a repeated study that owners answer; None: of none.
    """

    schema: Schema
    users: int
    plans: tuple[Plan, ...]
    deadline_s: int = 0
    least_answers: int = 0
    life: int = 100
    refresh_days: int | None = None

    def record(self, ordinal: int) -> EncodedRecord:
        """Return the record of this user."""
        if self.schema is PERSON:
            colour = ("red", "green", "blue")[ordinal % 3]
            return PERSON.encode({"smoker": ordinal % 2, "colour": colour})
        record: EncodedRecord = _masked_parity(self.users).columns(ordinal, ordinal + 1).record(0)
        return record

    def learner(self, plan: Plan) -> Learner[Any]:
        """Return the learner of a plan."""
        return find(plan.learner).build(self.schema, dict(plan.parameters))

    def signed(self, place: int) -> SignedStudy:
        """The study of a plan, as its analyst signs it."""
        return _signed(self, place)

    def request(self, payload: bytes) -> Request:
        """Return the request to a device."""
        return _request(self.schema, payload)

    def device(self, ordinal: int, ledger: Ledger, now_s: Callable[[], int]) -> Device:
        """A user's device, as it is when it starts."""
        return Device(
            schema=self.schema,
            record=self.record(ordinal),
            policy=Policy(frozenset({PUBLIC}), self.life * 10**9, refresh_days=self.refresh_days),
            ledger=ledger,
            coins=Coins(ordinal, ledger),
            now_s=now_s,
            examiner=EXAMINER,
        )


PEOPLE = Setup(
    PERSON,
    6,
    (
        Plan("frequency", (("column", "colour"),), 0, 2),
        Plan("frequency", (("column", "colour"),), 1, 2),
        Plan("mean", (("column", "smoker"),), 2, 3),
    ),
)
PARITY = Setup(
    masked_parity(1, Seed.of(3), 2).schema,
    34,
    (
        Plan("masked-parity", (), 0, 8, "9/10"),
        Plan("masked-parity", (), 1, 8, "9/10"),
    ),
)


class Coins:
    """Coins that are the same for every request.

    Then it does not matter which study asks first. For a request that is answered already they
    are others: a device that computes such an answer anew is detected.
    """

    def __init__(self, ordinal: int, ledger: Ledger) -> None:
        self._ordinal, self._ledger = ordinal, ledger

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        again = b"again" if self._ledger.stored(request) is not None else b""
        return tuple(
            int.from_bytes(
                hashlib.sha256(b"%d %d " % (self._ordinal, word) + again).digest()[:8], "big"
            )
            for word in range(count)
        )


@cache
def undisturbed(setup: Setup, place: int) -> Outcome[Any]:
    """Return the outcome of a study without faults, with no service in between."""
    signed = setup.signed(place)
    return Session(
        study=signed,
        learner=setup.learner(setup.plans[place]),
        fleet=AtHand([setup.device(n, MemoryLedger(), lambda: NOW_S) for n in range(setup.users)]),
        log=MemoryLog(),
        cohort_seed=cohort_seed(digest_of(signed.study)),
        leaf_key=bytes(32),
    ).run()


class AtHand:
    """Fleet of every user's device, called one after the other."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices

    @property
    def population(self) -> int:
        return len(self._devices)

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        intake = Intake(round_, accounts)
        for group in round_.groups:
            for ordinal in group.cohort.members.tolist():
                self._devices[ordinal].introduce(round_.study)
                add_report(intake, ordinal, self._devices[ordinal].answer(group.payload))
        return intake.tallies()

    def recall(self, round_: Round, accounts: Accounts) -> None:
        raise AssertionError("nothing is recorded yet")


@lru_cache(maxsize=4096)
def _request(schema: Schema, payload: bytes) -> Request:
    return decode_request(payload, schema)


@cache
def _masked_parity(users: int) -> Any:
    return masked_parity(users, Seed.of(3), 2)


@cache
def _signed(setup: Setup, place: int) -> SignedStudy:
    plan = setup.plans[place]
    learner = setup.learner(plan)
    study = Study(
        learner,
        setup.schema,
        epsilon=plan.epsilon,
        beta=plan.beta,
        round_deadline_s=setup.deadline_s,
        least_answers=setup.least_answers,
    )
    terms = study.terms(nonce=plan.nonce.to_bytes(16, "big"), expires_unix_s=NOW_S + WEEK_S)
    text = find(plan.learner).spell(learner, setup.schema)
    return sign_study(replace(terms, parameters=tuple(sorted(text.items()))), KEY)
