"""A repeated study on simulated users whose records change from epoch to epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.encoding import read_terms
from askance_aggregator.learners import hypothesis_json
from askance_aggregator.learners.presentation import EstimateRow, presentation_of
from askance_aggregator.names import ColumnNames, names_of
from askance_aggregator.numbers import plain_arguments
from askance_aggregator.studies import MemoryLog, Outcome, Session, Transcript
from askance_aggregator.studies.outer import outer_json, outer_series_json
from askance_aggregator.studies.results import cohort_seed, epoch_facts, time_statement
from askance_aggregator.studies.series import EpochResult, StudySeries
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Device, Policy
from askance_client.errors import InvalidParameter
from askance_client.ledger import SECONDS_PER_DAY, Ledger
from askance_client.messages import Repeat, StudyTerms
from askance_simulation.fleets import Devices, ObjectFleet
from askance_simulation.plots import Picture
from askance_simulation.plots.epochs import series_picture
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins

_FIRST_DAY = 20_454  # 2026-01-01


@dataclass(frozen=True, slots=True)
class Epoch:
    """Collection of a repeated study in one epoch."""

    index: int
    day: int
    outcome: Outcome[Any]
    transcript: Transcript

    @property
    def rows(self) -> tuple[EstimateRow, ...]:
        """Estimates with their intervals; these hold jointly, over all epochs."""
        return tuple(presentation_of(self.outcome.hypothesis).rows)

    def result(
        self, repeat: Repeat, names: ColumnNames, outer: Mapping[str, Mapping[str, Any]]
    ) -> EpochResult:
        """Return the result as a served study states it, with columns' own names.

        `outer` has its guarantees towards readers.
        """
        outcome, facts = self.outcome, epoch_facts(repeat, self.index)
        fresh = outcome.answers - outcome.reused
        return EpochResult(
            number=facts["number"],
            epoch=self.index,
            first_day=facts["first_day"],
            state="done",
            reason="done",
            message="",
            hypothesis=names.in_json(hypothesis_json(outcome.hypothesis)),
            presentation=presentation_of(outcome.hypothesis).named(names),
            fresh=fresh,
            reused=outcome.reused,
            refusals=outcome.refusals,
            time=time_statement(fresh, outcome.reused),
            max_asked_nano_nats=outcome.spending.max_asked,
            max_spent_nano_nats=outcome.spending.max_spent,
            transcript=outcome.transcript,
            outer=outer,
        )


@dataclass(frozen=True)
class EpochSeries:
    """Results of a repeated study, in order of time."""

    study: Study
    terms: StudyTerms  # as they were signed, with the epochs
    users: int
    epochs: tuple[Epoch, ...]
    ledgers: dict[int, Ledger]  # of the users, by ordinal

    @property
    def repeat(self) -> Repeat:
        """Epochs that were signed."""
        assert self.terms.repeat is not None, "a study that repeats"
        return self.terms.repeat

    @property
    def max_spent(self) -> int:
        """Most nano-nats that a user has spent in all epochs, by its own ledger."""
        totals = [ledger.totals(bytes(32), 0).life for ledger in self.ledgers.values()]
        return max(totals, default=0)

    @cached_property
    def series(self) -> StudySeries:
        """The series as a served study has it."""
        names = names_of(self.study.schema)
        delta = delta_for(max(self.users, 1))
        transcripts = [epoch.transcript for epoch in self.epochs]
        outer = [
            outer_json(transcript, self.terms.schema, delta)
            | outer_series_json(transcripts[:number], self.terms, delta)
            for number, transcript in enumerate(transcripts, 1)
        ]
        return StudySeries(
            learner=self.study.learner.name,
            fields=tuple(names.own.get(name, name) for name in self.study.fields),
            epsilon_per_epoch=self.study.epsilon,
            every_days=self.repeat.every_days,
            signed=self.repeat.epochs,
            confidence=float(self.study.confidence),
            epochs=tuple(
                epoch.result(self.repeat, names, of_readers)
                for epoch, of_readers in zip(self.epochs, outer, strict=True)
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object: that of a served study's series, and the users' spending."""
        return {**self.series.to_json(), "max_spent_nano_nats": self.max_spent}

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, one row per epoch and estimate."""
        return self.series.to_pandas()

    def picture(self) -> Picture:
        """Draw the estimates over time with their joint intervals."""
        return series_picture(self.series)

    def plot(self, path: str | Path) -> None:
        """Write `picture` to a .png or .svg file."""
        self.picture().save(path)


@plain_arguments
def simulate_epochs(
    study: Study,
    people: Callable[[int], Population],
    *,
    every_days: int,
    epochs: int,
    seed: int | Seed = 0,
    policy: Policy | None = None,
) -> EpochSeries:
    """Run a repeated study on device objects, whose ledgers last from epoch to epoch.

    Privacy: each device spends at most the study's epsilon per epoch, and its owner's budgets over
      all of them, by its own ledger.

    Args:
      study: what every epoch asks; `epsilon` is per epoch, `confidence` joint over all epochs.
      people: the same users' records in an epoch, by its number from 0.
      every_days: days of an epoch, 1 or more.
      epochs: their number, 1 or more.
      seed: of keys, coins and cohorts.
      policy: the owners'; its analysts are replaced by the study's. None: every refresh is allowed,
        and budgets that hold all epochs.

    Raises:
      InvalidParameter: epochs that cannot be, or populations of different sizes.
      PlanRefused: too few users or too little epsilon; no user was asked.
    """
    root = seed if isinstance(seed, Seed) else Seed.of(seed)
    repeat = Repeat(every_days, epochs, -(-_FIRST_DAY // every_days))
    key = Ed25519PrivateKey.from_private_bytes((root / "analyst").key)
    end_s = (repeat.first + epochs) * every_days * SECONDS_PER_DAY
    nonce = (root / "nonce").key[:16]
    study = study.bound(people(0).schema)
    signed = study.sign(key, nonce=nonce, expires_unix_s=end_s, repeat=repeat)
    owner = _owner(policy, signed.public_key, epochs * study.nano_nats)
    ledgers: dict[int, Ledger] = {}
    found: list[Epoch] = []
    size = people(0).size
    for place, index in enumerate(repeat.indices):
        population = people(place)
        if population.size != size:
            raise InvalidParameter(
                f"people: expected the {size} users of the first epoch, got {population.size}"
            )
        day = index * every_days
        devices = _LastingDevices(population, owner, SeededCoins(root / "coins"), day, ledgers)
        session: Session[Any] = Session(
            study=signed,
            learner=study.learner,
            fleet=ObjectFleet(devices),
            log=MemoryLog(),
            cohort_seed=cohort_seed(digest_of(signed.study), index),
            leaf_key=(root / "leaves").key,
            design=study.design,
            epoch=index,
        )
        found.append(Epoch(index, day, session.run(), session.transcript))
    return EpochSeries(study, read_terms(signed.study), size, tuple(found), ledgers)


class _LastingDevices(Devices):
    """Devices of one epoch, on the ledgers of the epochs before."""

    def __init__(
        self,
        population: Population,
        policy: Policy,
        coins: SeededCoins,
        day: int,
        ledgers: dict[int, Ledger],
    ) -> None:
        super().__init__(population, policy, coins, lambda: day * SECONDS_PER_DAY)
        self._ledgers = ledgers

    def booted(self, ordinal: int, ledger: Ledger) -> Device:
        return super().booted(ordinal, self._ledgers.setdefault(ordinal, ledger))


def _owner(policy: Policy | None, analyst: bytes, life: int) -> Policy:
    analysts = frozenset((analyst,))
    if policy is None:
        return Policy(analysts, life, refresh_days=1)
    return replace(policy, analysts=analysts)
