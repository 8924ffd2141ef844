"""Strategies of lying devices: published ones, and the one that attains the influence bound.

Each is a pure function of one occasion; every report is of the alphabet, so that no check can
distinguish it from an honest one. The shift of an answer by m of them is bounded by
m x `estimation.influence`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from askance_client.queries import Query, QueryKind
from askance_client.randomizers import Randomizer
from askance_simulation.families.favouring import (
    Weights,
    favour,
    index,
    uniform,
    words_below,
)


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
