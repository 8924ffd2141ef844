"""Uniform bits, labelled by a random concept: literals, a decision list, or a parity.

MASKED-PARITY and PARITY are those of KLNRS08, sections 5 and 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator import learners
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_simulation.populations.columns import columns_of, draws, parity_of, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness import Seed, keystream

Concept = learners.LiteralConjunction | learners.Disjunction | learners.DecisionList


@catalogued("literal-conjunctions", "uniform bits labelled by a random conjunction with negations")
def literal_conjunctions(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y the AND of `relevant` random literals.

    `d` is 1 .. 4096 and `relevant` is 0 .. d.
    """
    variables, coins = _drawn("literal-conjunctions", seed, d, relevant)
    chosen, negated = _split(variables, coins)
    return _labelled(
        "literal-conjunctions",
        learners.LiteralConjunction(d, chosen, negated),
        size,
        seed / "people",
    )


@catalogued("disjunctions", "uniform bits labelled by a random disjunction with negations")
def disjunctions(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y the OR of `relevant` random literals.

    `d` is 1 .. 4096 and `relevant` is 0 .. d.
    """
    variables, coins = _drawn("disjunctions", seed, d, relevant)
    chosen, negated = _split(variables, coins)
    return _labelled(
        "disjunctions", learners.Disjunction(d, chosen, negated), size, seed / "people"
    )


@catalogued("decision-lists", "uniform bits labelled by a random decision list")
def decision_lists(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y by a list of `relevant` random rules.

    Labels alternate along the list, so that no shorter list says the same.

    `d` is 1 .. 4096 and `relevant` is 0 .. d.
    """
    variables, coins = _drawn("decision-lists", seed, d, relevant)
    first = int(coins[-1] >> np.uint64(1)) & 1
    rules = tuple(
        learners.Rule(variable, int(coin) & 1, (first + place) % 2)
        for place, (variable, coin) in enumerate(zip(variables, coins, strict=False))
    )
    concept = learners.DecisionList(d, rules, (first + relevant) % 2)
    return _labelled("decision-lists", concept, size, seed / "people")


def _drawn(
    name: str, seed: Seed, d: int, relevant: int
) -> tuple[tuple[int, ...], NDArray[np.uint64]]:
    """Draw the relevant variables, in random order, and a word for each variable."""
    if d < 1 or not 0 <= relevant <= d:
        raise InvalidParameter(f"{name}: expected 0 to {d} relevant bits, got {relevant}")
    words = keystream((seed / "concept").key[:16], 0, 2 * d)
    order = np.argsort(words[:d], kind="stable")
    return tuple(int(j) for j in order[:relevant]), words[d:]


def _split(
    variables: tuple[int, ...], coins: NDArray[np.uint64]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the variables as they are and those to be negated, by a fair coin each."""
    pairs = list(zip(variables, coins, strict=False))
    return (
        tuple(sorted(variable for variable, coin in pairs if int(coin) & 1)),
        tuple(sorted(variable for variable, coin in pairs if not int(coin) & 1)),
    )


def _labelled(name: str, concept: Concept, size: int, people: Seed) -> Population:
    columns = _columns(concept, people)
    return Population(
        name,
        learners.labelled_bits_schema(concept.d),
        size,
        columns,
        target=concept,
        unseen=lambda rows: columns(size, size + rows),
    )


def _columns(concept: Concept, people: Seed) -> Callable[[int, int], EncodedColumns]:
    d = concept.d

    def columns(start: int, stop: int) -> EncodedColumns:
        x = words_of_bits(draws(people, start, stop, (d + 63) // 64), d)
        return columns_of({"x": x, "y": concept.predict(columns_of({"x": x}))})

    return columns


_MAX_BITS = 4096


@dataclass(frozen=True, slots=True)
class Parity:
    """The function c_r(x) = <r, x> mod 2.

    Args:
      r: d values {0, 1}.
    """

    r: tuple[int, ...]

    def __call__(self, x: ArrayLike) -> NDArray[np.int64]:
        """The labels of x of shape (n, d), values {0, 1}; shape (n,)."""
        table = np.asarray(x)
        if table.ndim != 2 or table.shape[1] != len(self.r) or not np.isin(table, (0, 1)).all():
            raise InvalidRecord(f"x: expected rows of {len(self.r)} zeros and ones, got others")
        return table.astype(np.int64) @ np.array(self.r, dtype=np.int64) % 2

    def to_json(self) -> dict[str, Any]:
        """{"r": "0110..."}; the leftmost bit is r_0."""
        return {"r": "".join(map(str, self.r))}


@catalogued("parities", "uniform bits labelled by a random parity")
def parities(size: int, seed: Seed, d: int = 8) -> Population:
    """Make `size` users with x uniform on d bits, y = <r, x> mod 2, r uniform by the seed.

    No local learner finds r with few users (section 5); a trusted curator's does. Labels that are
    wrong with some chance are `population.label_noise`.
    `d` is 1 .. 4096.
    """
    if not 1 <= d <= _MAX_BITS:
        raise InvalidParameter(f"parities: expected 1 to {_MAX_BITS} bits, got {d}")
    width = (d + 63) // 64
    secret = words_of_bits(draws(seed / "concept", 0, 1, width), d)
    mask = np.array([int(word[0]) for word in secret], np.int64)
    r = tuple(int(mask[j // 32]) >> (j % 32) & 1 for j in range(d))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        x = words_of_bits(draws(people, start, stop, width), d)
        return columns_of({"x": x, "y": parity_of(x, mask)})

    return Population("parities", learners.labelled_bits_schema(d), size, columns, target=Parity(r))


@catalogued("conjunctions", "uniform bits labelled by a random monotone conjunction")
def conjunctions(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y the AND of `relevant` of them, by the seed.

    `d` is 1 .. 4096 and `relevant` is 0 .. d (few: a fraction 2^-relevant is positive).
    """
    if not 0 <= relevant <= d:
        raise InvalidParameter(f"conjunctions: expected 0 to {d} relevant bits, got {relevant}")
    order = np.argsort(keystream((seed / "concept").key[:16], 0, d), kind="stable")
    variables = tuple(sorted(int(j) for j in order[:relevant]))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        x = words_of_bits(draws(people, start, stop, (d + 63) // 64), d)
        y = np.ones(stop - start, np.int64)
        for j in variables:
            y &= (x[j // 32] >> (j % 32)) & 1
        return columns_of({"x": x, "y": y})

    target = learners.Conjunction(d, variables)
    return Population("conjunctions", learners.conjunctions_schema(d), size, columns, target=target)


@catalogued("masked-parity", "uniform (x, i, b) labelled by a random MASKED-PARITY concept")
def masked_parity(size: int, seed: Seed, d: int = 8) -> Population:
    """Make `size` users of MASKED-PARITY.

    x is uniform on d bits, i uniform on 0..d-1, b a fair bit, y = c_{r,a}(x,i,b). A chance of i
    is 1/d to within 2^-63, and exactly 1/d where d is a power of two.

    The concept (r, a) is uniform and drawn from the seed too.
    `d` is 2 .. 1024.
    """
    schema = learners.masked_parity_schema(d)
    law, people = seed / "concept", seed / "people"
    secret = draws(law, 0, 1, d // 64 + 2)[0]
    r = tuple(int(secret[j // 64] >> np.uint64(j % 64)) & 1 for j in range(d))
    a = int(secret[-1]) & 1
    mask = np.array(
        [
            sum(bit << (j % 32) for j, bit in enumerate(r) if j // 32 == w)
            for w in range((d + 31) // 32)
        ],
        dtype=np.int64,
    )
    answers = np.array(r, dtype=np.int64)

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, (d + 63) // 64 + 1)
        x = words_of_bits(words, d)
        last = words[:, -1]
        b = (last & np.uint64(1)).astype(np.int64)
        i = ((last >> np.uint64(1)) % np.uint64(d)).astype(np.int64)
        minus = np.where(b == 1, answers[i], parity_of(x, mask) ^ a)
        return columns_of({"x": x, "i": i, "b": b, "y": minus})  # label 0 is +1, label 1 is -1

    return Population("masked-parity", schema, size, columns, target=learners.MaskedParity(r, a))
