"""Devices that stay away or lie, by rates and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational, plain, rational
from askance_client.errors import InvalidParameter
from askance_client.queries import Query
from askance_client.randomizers import Randomizer
from askance_simulation.disturbances.attacks import ATTACKS, Occasion
from askance_simulation.disturbances.behaviour import Ordinals, Which
from askance_simulation.randomness.chances import below, threshold, words
from askance_simulation.randomness.seeds import Seed


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """Chances of absence and lying; called with a seed, the behaviour of each device.

    Every choice is independent of every other and of the users' records. Chances are exact to
    within 2^-64; a float stands for the decimal that Python prints for it.

    Args:
      absent: the chance that a device misses a round, for each round anew.
      dropout: the chance, between two rounds of a study, that a device does not come back to it:
        round r finds it there with probability (1 - dropout)^r.
      offline: the share of devices that are never there.
      liars: the share of devices that lie, always.
      attack: what liars send: rpa, ria, mga or extreme (see `attacks`).
      targets: the levels that liars push, of the questions that have them.

    Raises:
      InvalidParameter: a chance outside [0, 1], no such attack, or targets that are no levels.

    Example:
      >>> people = ask.Population.generated("categories", users=3_000, cells=4)
      >>> learner = ask.learners.frequency("category")
      >>> study = ask.Study(learner, people.schema, epsilon=2)
      >>> away = ask.Misbehaviour(absent="1/10")
      >>> result = ask.simulate(study, people, fleet="columns", behaviour=away)
      >>> result.to_json()["answers"] < 3_000
      True
    """

    absent: Rational = 0
    dropout: Rational = 0
    offline: Rational = 0
    liars: Rational = 0
    attack: str = "mga"
    targets: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name in ("absent", "dropout", "offline", "liars"):
            chance = rational(getattr(self, name), name)
            if not 0 <= chance <= 1:
                raise InvalidParameter(
                    f"{name}: expected a chance from 0 to 1, found {float(chance):g}"
                )
            object.__setattr__(self, name, chance)
        if self.attack not in ATTACKS:
            raise unknown_name("attack", self.attack, ATTACKS)
        object.__setattr__(self, "targets", _levels(self.targets))

    def __call__(self, seed: Seed) -> Misbehaving:
        """Make the behaviour from a seed."""
        return Misbehaving(self, seed)


@dataclass(frozen=True, slots=True)
class Misbehaving:
    """The `Behaviour` of a `Misbehaviour` under a seed: values only, so that it travels."""

    spec: Misbehaviour
    seed: Seed

    @property
    def absences(self) -> bool:
        """True if a device may be absent."""
        return any((self.spec.absent, self.spec.dropout, self.spec.offline))

    @property
    def lies(self) -> bool:
        """True if a device may lie."""
        return bool(self.spec.liars)

    def absent(self, study: bytes, round_number: int, ordinals: Ordinals) -> Which:
        """Return which devices are offline for good, have dropped out, or miss only this round."""
        spec = self.spec
        away = np.zeros(len(ordinals), np.bool_)
        if spec.offline:
            away |= below(words(self.seed / "offline", ordinals), _bound(spec.offline))
        if spec.dropout and round_number:  # one word for all rounds: a user who has left stays away
            lot = words(self.seed / "dropout" / study.hex(), ordinals)
            away |= ~below(lot, _staying(spec.dropout, round_number))
        if spec.absent:
            lot = words(self.seed / "absent" / study.hex() / round_number, ordinals)
            away |= below(lot, _bound(spec.absent))
        return away

    def lying(self, ordinals: Ordinals) -> Which:
        """Return which devices lie in every answer."""
        if not self.spec.liars:
            return np.zeros(len(ordinals), np.bool_)
        return below(words(self.seed / "liars", ordinals), _bound(self.spec.liars))

    def lie(
        self, request: bytes, ordinal: int, query: Query, randomizer: Randomizer, level: int
    ) -> bytes:
        """Return the attack's report; no attack depends on the true level."""
        targets = tuple(target for target in self.spec.targets if target < randomizer.levels)
        key = self.seed.key + request + ordinal.to_bytes(8, "big")
        return ATTACKS[self.spec.attack](Occasion(query, randomizer, targets, key))


def _levels(targets: Sequence[int]) -> tuple[int, ...]:
    targets = plain(targets)
    for target in targets:
        if isinstance(target, bool) or not isinstance(target, int) or target < 0:
            raise InvalidParameter(
                f"targets: expected levels, whole numbers of 0 or more, got {target!r}"
            )
    if len(set(targets)) < len(targets):
        raise InvalidParameter(f"targets: expected each level once, got {list(targets)}")
    return tuple(targets)


@lru_cache(maxsize=1024)
def _bound(chance: Rational) -> int:
    return threshold(Fraction(chance))


@lru_cache(maxsize=4096)
def _staying(dropout: Rational, rounds: int) -> int:
    return threshold((1 - Fraction(dropout)) ** rounds)
