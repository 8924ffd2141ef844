"""A small world for a session's tests: a study, devices in process, fleets that break down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.learners import masked_parity
from askance_aggregator.queries import predicate
from askance_aggregator.studies import (
    Accounts,
    Cohort,
    Fleet,
    Group,
    MemoryLog,
    Outcome,
    Round,
    Session,
    Tally,
    TranscriptLog,
)
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import Entry
from askance_client.messages import Conduct, Request, SignedStudy, StudyTerms
from askance_client.queries import Query
from askance_client.randomizers import Randomizer
from askance_simulation.fleets import Devices, ObjectFleet
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.populations import Population
from askance_simulation.populations import masked_parity as masked_parity_world
from askance_simulation.randomness import Seed, SeededCoins
from tests.conftest import cohort_of

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
BUDGET = parse_epsilon("8")
LEAF_KEY = bytes(range(32))
NOW_S = 1_700_000_000


class Interrupted(Exception):
    """Interruption of a fleet."""


class Crowd(Devices):
    """Simulated devices, some of which have owners with a policy of their own."""

    def __init__(
        self, population: Population, owners: Mapping[int, Policy] | None = None, seed: int = 0
    ) -> None:
        self.policy = Policy(frozenset({KEY.public_key().public_bytes_raw()}), BUDGET)
        coins = SeededCoins(Seed.of(seed))
        super().__init__(population, self.policy, coins, lambda: NOW_S)
        self._own = {
            ordinal: Device(
                schema=population.schema,
                record=population.columns(ordinal, ordinal + 1).record(0),
                policy=policy,
                ledger=MemoryLedger(),
                coins=coins.at(ordinal),
                now_s=lambda: NOW_S,
                examiner=Examiner(),
            )
            for ordinal, policy in (owners or {}).items()
        }

    def __getitem__(self, ordinal: int) -> Device:
        return self._own.get(ordinal) or super().__getitem__(ordinal)

    def history(self) -> list[list[Entry]]:
        """Every ledger, by ordinal."""
        return [list(self[ordinal].ledger.history()) for ordinal in range(len(self))]


class Recorded:
    """Fleet that records its requests and calls `before` ahead of each."""

    def __init__(
        self, fleet: Fleet, before: Callable[[Round, Accounts], None] | None = None
    ) -> None:
        self.fleet = fleet
        self.before = before
        self.asked: list[Round] = []
        self.recalled: list[Round] = []

    @property
    def population(self) -> int:
        return self.fleet.population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        self.asked.append(round_)
        if self.before is not None:
            self.before(round_, accounts)
        return self.fleet.ask(round_, accounts)

    def recall(self, round_: Round, accounts: Accounts) -> None:
        self.recalled.append(round_)
        self.fleet.recall(round_, accounts)


class Breaking(Recorded):
    """Another fleet, which breaks down in one round after a part of the members was asked."""

    def __init__(self, fleet: Fleet, number: int, part: Fraction) -> None:
        super().__init__(fleet)
        self._number, self._part = number, part

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        if round_.number != self._number:
            return super().ask(round_, accounts)
        groups = tuple(replace(group, cohort=self._some(group.cohort)) for group in round_.groups)
        super().ask(replace(round_, groups=groups), Accounts(self.population, BUDGET))
        raise Interrupted

    def _some(self, cohort: Cohort) -> Cohort:
        return replace(cohort, stop=cohort.start + int(cohort.size * self._part))


class World:
    """Everything around a session."""

    budget = BUDGET
    interrupted = Interrupted
    recorded = Recorded
    breaking = Breaking
    crowd = Crowd

    def __init__(self, users: int = 110, d: int = 2) -> None:
        self.population = masked_parity_world(users, Seed.of(3), d)
        self.schema = self.population.schema
        self.learner = masked_parity(self.schema)

    def study(
        self,
        nonce: int = 0,
        budget: int = BUDGET,
        fields: tuple[str, ...] | None = None,
        **conduct: Any,
    ) -> SignedStudy:
        terms = StudyTerms(
            nonce.to_bytes(16, "big"),
            "test",
            1,
            (),
            self.schema,
            budget,
            NOW_S + 60,
            "a test",
            Conduct(**conduct),
            fields=tuple(sorted(self.schema.fields)) if fields is None else fields,
        )
        return sign_study(terms, KEY)

    def devices(self, owners: Mapping[int, Policy] | None = None) -> Crowd:
        return Crowd(self.population, owners)

    def policy(self, **changes: Any) -> Policy:
        """Return the policy of every owner, with these changes."""
        return replace(Policy(frozenset({KEY.public_key().public_bytes_raw()}), BUDGET), **changes)

    def session(
        self, fleet: Fleet | Devices, log: TranscriptLog | None = None, **changes: Any
    ) -> Session[Any]:
        arguments: dict[str, Any] = {
            "study": self.study(),
            "learner": self.learner,
            "fleet": ObjectFleet(fleet) if isinstance(fleet, Devices) else fleet,
            "log": MemoryLog() if log is None else log,
            "cohort_seed": b"cohorts",
            "leaf_key": LEAF_KEY,
        }
        return Session(**(arguments | changes))

    def run(
        self, fleet: Fleet | Devices, log: TranscriptLog | None = None, **changes: Any
    ) -> Outcome[Any]:
        return self.session(fleet, log, **changes).run()

    def group(
        self,
        members: Sequence[int],
        population: int,
        *,
        place: int = 0,
        query: Query | None = None,
        randomizer: Randomizer | None = None,
    ) -> Group:
        query = query or predicate(self.schema["b"] == 1)
        randomizer = randomizer or randomized_response(parse_epsilon("1"))
        payload = encode_request(
            Request(digest_of(self.study().study), 0, place, query, randomizer)
        )
        return Group(
            payload,
            digest_of(payload),
            query,
            randomizer,
            randomizer.loss.nano_nats,
            cohort_of(members, population),
            LEAF_KEY,
        )

    def round(self, *groups: Group) -> Round:
        study = self.study()
        return Round(0, study, digest_of(study.study), groups)


@pytest.fixture(scope="session")
def world() -> World:
    """Deployment without state: devices and fleets are made anew each time."""
    return World()


@pytest.fixture(scope="session")
def worlds() -> type[World]:
    """For tests that need another one."""
    return World


@pytest.fixture
def object_fleet() -> type[ObjectFleet]:
    return ObjectFleet
