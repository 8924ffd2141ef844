"""Devices that stay away or lie, by rates and a seed, and the attacks of those that lie.

All of it is a pure function of the study, the round and the ordinal, with chances from a seed of
its own: the same devices are absent, and the same lies are sent, on every fleet and in any order.

The attacks are published ones, and the one that attains the influence bound. Every report is of
the alphabet, so that no check can distinguish it from an honest one. The shift of an answer by m of
them is bounded by m x `estimation.influence`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational, plain
from askance_client.errors import InvalidParameter
from askance_client.queries import Query, QueryKind
from askance_client.randomizers import Randomizer
from askance_simulation.families.favouring import Weights, favour, index, uniform, words_below
from askance_simulation.randomness import Seed, below, read_chance, threshold, words

Ordinals = NDArray[np.int64]
Which = NDArray[np.bool_]


class Behaviour(Protocol):
    """Behaviour of a fleet's devices beyond the protocol."""

    @property
    def absences(self) -> bool:
        """True if a device may be absent; a fleet without absences does less work."""
        ...

    @property
    def lies(self) -> bool:
        """True if a device may lie."""
        ...

    def absent(self, study: bytes, round_number: int, ordinals: Ordinals) -> Which:
        """Return which of these devices are absent from a whole round of a study (its digest).

        An absent device is asked and does not answer. It is charged nothing and keeps
        nothing of the round.
        """
        ...

    def lying(self, ordinals: Ordinals) -> Which:
        """Return which of these devices lie in every answer."""
        ...

    def lie(
        self, request: bytes, ordinal: int, query: Query, randomizer: Randomizer, level: int
    ) -> bytes:
        """Return a liar's report in place of its honest one to a request (its digest).

        The report belongs to the alphabet, since it would not be counted otherwise. The
        liar's ledger is charged as for an honest report, and keeps the lie: asked the same
        question by another request, the device repeats its first report. `level` is its
        true one.
        """
        ...


@dataclass(frozen=True, slots=True)
class Occasion:
    """Inputs of a liar's report to a request.

    Args:
      targets: the levels that liars push, of those that the question has; may be empty.
      key: what its coins come from: the behaviour's seed, the request and the ordinal.
    """

    query: Query
    randomizer: Randomizer
    targets: tuple[int, ...]
    key: bytes

    def words(self, count: int) -> tuple[int, ...]:
        """Return the liar's coins, uniform in 0..2^64-1."""
        stream = hashlib.shake_256(b"askance lie v1\0" + self.key).digest(8 * count)
        return struct.unpack(f"<{count}Q", stream)

    @property
    def pushed(self) -> tuple[int, ...]:
        """Target levels; by default the last level with a meaning of its own.

        That is "yes", the last cell, the greatest value, the plus of the last signed value, or +
        at every component.
        """
        neutral = self.query.kind is QueryKind.SIGNED
        return self.targets or (self.randomizer.levels - 1 - 2 * neutral,)


Attack = Callable[[Occasion], bytes]


def random_report(occasion: Occasion) -> bytes:
    """Draw a uniform report: no knowledge and no aim; it pulls every estimate towards the middle.

    Source: Cao, Jia and Gong, arXiv:1911.02046, section 4.1 (RPA); the uniform message of Cheu,
      Smith and Ullman, arXiv:1909.09630.
    """
    randomizer = occasion.randomizer
    count = words_below(randomizer.levels) + randomizer.coins
    return uniform(randomizer, occasion.words(count))


def random_item(occasion: Occasion) -> bytes:
    """Return an honest report of a level that is not the liar's: one of the targets, or any at all.

    Source: Cao, Jia and Gong, arXiv:1911.02046, section 4.1 (RIA); what Cheu, Smith and Ullman,
      arXiv:1909.09630, call manipulation of the input. Deviation: without targets, any level.
    """
    randomizer = occasion.randomizer
    targets = occasion.targets
    size = len(targets) or randomizer.levels
    first = words_below(size)
    words = occasion.words(first + randomizer.coins)
    place = index(words, size)
    return randomizer.randomize(targets[place] if targets else place, words[first:])


def most_gain(occasion: Occasion) -> bytes:
    """Return the report that favours the targets' shares together the most.

    Subset selection: a set of the right size with all targets in it, filled up at random; k-ary
    response: a target; a table: the symbol that is decoded to the most.

    Source: Cao, Jia and Gong, arXiv:1911.02046, section 4.1 (MGA).
    """
    weights = tuple((level, 1) for level in sorted(occasion.pushed))
    return _favouring(occasion, weights)


def extreme_message(occasion: Occasion) -> bytes:
    """Return the one message that moves one value of the answer the most: it attains the influence.

    The value is the first target's: its share, the mean, or the signed value, whose other cell is
    kept out of the report. It goes up; down for a target below the middle of a mean, or a minus.

    Source: Cheu, Smith and Ullman, arXiv:1909.09630, section 3: a message of the greatest weight,
      whatever the input.
    """
    return _favouring(occasion, _value(occasion))


def _value(occasion: Occasion) -> Weights:
    """Return the answer's value as weights of levels."""
    target, levels = occasion.pushed[0], occasion.randomizer.levels
    match occasion.query.kind:
        case QueryKind.REAL:
            sign = 1 if 2 * target >= levels - 1 else -1
            return tuple((level, sign * level) for level in range(levels))
        case QueryKind.SIGNED if target < levels - 1:
            return tuple(sorted([(target, 1), (target ^ 1, -1)]))
        case _:
            return ((target, 1),)


def _favouring(occasion: Occasion, weights: Weights) -> bytes:
    return favour(occasion.randomizer, weights, occasion.words)


ATTACKS: dict[str, Attack] = {
    "rpa": random_report,
    "ria": random_item,
    "mga": most_gain,
    "extreme": extreme_message,
}
"""The strategies by the names that a person gives."""


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
      attack: what liars send: rpa, ria, mga or extreme (see `ATTACKS`).
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
            object.__setattr__(self, name, read_chance(getattr(self, name), name))
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


PRESENT_AND_HONEST: Behaviour = Misbehaviour()(Seed.of(0))
"""Devices that are always there and do what they should."""
