"""Uniform bits, labelled by a random concept: literals joined, or a decision list."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import (
    DecisionList,
    Disjunction,
    LiteralConjunction,
    Rule,
    labelled_bits_schema,
)
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.columns import columns_of, draws, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

Concept = LiteralConjunction | Disjunction | DecisionList


@catalogued("literal-conjunctions", "uniform bits labelled by a random conjunction with negations")
def literal_conjunctions(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y the AND of `relevant` random literals.

    `d` is 1 .. 4096 and `relevant` is 0 .. d.
    """
    variables, coins = _drawn("literal-conjunctions", seed, d, relevant)
    chosen, negated = _split(variables, coins)
    return _labelled(
        "literal-conjunctions", LiteralConjunction(d, chosen, negated), size, seed / "people"
    )


@catalogued("disjunctions", "uniform bits labelled by a random disjunction with negations")
def disjunctions(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y the OR of `relevant` random literals.

    `d` is 1 .. 4096 and `relevant` is 0 .. d.
    """
    variables, coins = _drawn("disjunctions", seed, d, relevant)
    chosen, negated = _split(variables, coins)
    return _labelled("disjunctions", Disjunction(d, chosen, negated), size, seed / "people")


@catalogued("decision-lists", "uniform bits labelled by a random decision list")
def decision_lists(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y by a list of `relevant` random rules.

    Labels alternate along the list, so that no shorter list says the same.

    `d` is 1 .. 4096 and `relevant` is 0 .. d.
    """
    variables, coins = _drawn("decision-lists", seed, d, relevant)
    first = int(coins[-1] >> np.uint64(1)) & 1
    rules = tuple(
        Rule(variable, int(coin) & 1, (first + place) % 2)
        for place, (variable, coin) in enumerate(zip(variables, coins, strict=False))
    )
    concept = DecisionList(d, rules, (first + relevant) % 2)
    return _labelled("decision-lists", concept, size, seed / "people")


def _drawn(
    name: str, seed: Seed, d: int, relevant: int
) -> tuple[tuple[int, ...], NDArray[np.uint64]]:
    """Draw the relevant variables, in random order, and a word for each variable."""
    if d < 1 or not 0 <= relevant <= d:
        raise InvalidParameter(f"{name}: expected 0 to {d} relevant bits, found {relevant}")
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
        labelled_bits_schema(concept.d),
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
