"""Interface of a family's simulation half: functions that each family's module registers for.

Rules: a family's module here registers its draws for columns (`draw`), the law of its tally
(`draw_tally`), what an audit states of reports too many to list (`of_many`), the report that moves
an estimate furthest (`favouring.favour`) and the randomizers that `askance verify` checks
(`verified`). Where a default stands in, the function says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.randomizers import Randomizer

Levels = NDArray[np.int64]
Truths = NDArray[np.bool_]
Coins = NDArray[np.uint64]
Reports = NDArray[np.uint8]
TallyCounts = NDArray[np.int64]
Maker = Callable[[int], Randomizer]
"""Maker of the randomizer of a budget in nano-nats."""

Law = Mapping[int, Fraction]
"""Pr[level], of a record whose value is rounded at random; of others one level has 1."""

MAX_GROUP = 10**9 - 1
"""Most users of a tally that is drawn from its law: numpy's hypergeometric draws end there."""

_VERIFIED: dict[str, tuple[type[Randomizer], Mapping[str, Maker]]] = {}


@singledispatch
def draw(randomizer: Randomizer, levels: Levels | Truths, coins: Coins) -> Reports:
    """Report of users with these levels.

    Args:
      randomizer: one of the wire's.
      levels: shape (n,), of two levels booleans will do; of sign patterns (n, components), 1 for +;
        of directions (n, components), the vectors.
      coins: shape (n, randomizer.coins), as each device would draw them.

    Returns:
      Shape (n, randomizer.width).
    """
    raise InvalidParameter(f"columns: expected a randomizer of the wire, got {randomizer.name}")


@singledispatch
def draw_tally(
    randomizer: Randomizer, counts: TallyCounts, rng: np.random.Generator
) -> TallyCounts:
    """Draw the tally of a group's reports, exactly in law."""
    raise InvalidParameter(f"no law of tallies is known for the family {randomizer.name}")


@singledispatch
def draws_by_users(randomizer: Randomizer) -> bool:
    """Return whether `draw_tally` draws the reports one by one, for want of a cheaper law."""
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Events of a symbol, each with the probability that is stated for it."""

    shares: NDArray[np.float64]
    count: Callable[[Sequence[bytes]], NDArray[np.int64]]
    name: Callable[[int], str]


@singledispatch
def of_many(randomizer: Randomizer, law: Law) -> Statements:
    """Compute the probabilities of events for one record from a randomizer's integers.

    Of a set cell by cell, and that it has its size; of signed values likewise; of a sign pattern
    component by component; of a hashed cell, whether it is one that agrees with the record's or
    with the first or last. Of another family nothing, and the number of statements shows it.
    """
    return Statements(np.zeros(0), lambda symbols: np.zeros(0, dtype=np.int64), str)


@singledispatch
def probabilities(randomizer: Randomizer, level: int, symbols: Sequence[bytes]) -> list[Fraction]:
    """Compute the probability of each report at a level, by the randomizer's integers."""
    return [probability(randomizer, level, symbol) for symbol in symbols]


def verified(kind: type[Randomizer], field: str, makers: Mapping[str, Maker]) -> None:
    """Register the randomizers of a family that `askance verify` checks."""
    _VERIFIED[field] = (kind, makers)


def verified_makers(field: str) -> Mapping[str, Maker]:
    """Return the randomizers of a family that `askance verify` checks; empty if there are none."""
    return _VERIFIED[field][1] if field in _VERIFIED else {}


def verified_kind(field: str) -> type[Randomizer] | None:
    """Return the class of a family's randomizers; None if it is not registered."""
    return _VERIFIED[field][0] if field in _VERIFIED else None
