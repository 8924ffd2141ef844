"""Possible answers of a randomizer and their exact probabilities, for each truth.

A small alphabet is a table, an answer per row and a truth per column. A large one has two or three
classes of answers per truth, such as "sets with the true value": of a class the number of answers
and their probability together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

from askance_client.exact_laws import probability, valid
from askance_client.printable import fixed
from askance_client.randomizers import COIN_SPACE, Randomizer
from askance_client.randomizers.randomizer import NumberedRandomizer
from askance_client.randomizers.signed_levels import signed_levels

MOST_SHOWN = 8  # levels and answers of a table: as many columns fit a terminal
_MOST_DECIMALS = 12  # of a percentage


@dataclass(frozen=True, slots=True)
class AnswerClass:
    """Class of possible answers to one truth.

    Args:
      name: in plain words.
      answers: the number of answers in it.
      chance: the probability that the answer is one of them.
      alike: True if each has the same probability; else that holds up to the unevenness of draws,
        or the answers are only near each other.
    """

    name: str
    answers: int
    chance: Fraction
    alike: bool = True


def percent(chance: Fraction | str | None) -> str:
    """Return a probability as a percentage: two decimals, or two digits of a small one.

    None is a dash: there is no such answer to that truth.
    """
    if chance is None:
        return "–"
    chance, decimals, unit = Fraction(chance), 2, 100
    while 0 < 100 * chance * unit < 10 and decimals < _MOST_DECIMALS:
        decimals, unit = decimals + 1, 10 * unit
    return f"{fixed(100 * chance, decimals)} %" if chance else "0 %"


def table(randomizer: Randomizer) -> list[tuple[bytes, list[Fraction]]] | None:
    """Return each answer with its probability at each level; None for a large alphabet."""
    if not isinstance(randomizer, NumberedRandomizer) or randomizer.levels > MOST_SHOWN:
        return None
    if randomizer.reports > MOST_SHOWN:
        return None
    answers = [number.to_bytes(randomizer.width, "big") for number in range(randomizer.reports)]
    return [
        (answer, [probability(randomizer, level, answer) for level in range(randomizer.levels)])
        for answer in answers
        if valid(randomizer, answer)
    ]


def truths(randomizer: Randomizer) -> tuple[int, ...]:
    """Return the levels for which the classes differ by more than the place of the true value."""
    choose = _TRUTHS.get(randomizer.name)
    return (0,) if choose is None else choose(randomizer)


def classes(randomizer: Randomizer, level: int) -> tuple[AnswerClass, ...]:
    """Return the classes of answers at a level; they are disjoint and cover the alphabet."""
    return _CLASSES[randomizer.name](randomizer, level)


def _of(coins: int) -> Fraction:
    return Fraction(coins, COIN_SPACE)


def _k_ary(found: Any, _: int) -> tuple[AnswerClass, ...]:
    others = found.cells - 1
    return (
        AnswerClass("the true value", 1, _of(found.own)),
        AnswerClass("another value", others, _of(others * found.other)),
    )


def _subset(found: Any, _: int) -> tuple[AnswerClass, ...]:
    size = found.size
    return (
        AnswerClass(
            f"a set of {size} with the true value",
            comb(found.cells - 1, size - 1),
            _of(found.threshold),
        ),
        AnswerClass(
            f"a set of {size} without it",
            comb(found.cells - 1, size),
            _of(COIN_SPACE - found.threshold),
        ),
    )


def _hashing(found: Any, _: int) -> tuple[AnswerClass, ...]:
    hashes, others = found.vectors - 1, found.modulus - 1
    rest = others * found.other
    return (
        AnswerClass("a hash that fits the true value", hashes, _of(found.own), alike=False),
        AnswerClass("a hash that does not fit it", hashes * others, _of(rest), alike=False),
    )


def _hadamard(found: Any, level: int) -> tuple[AnswerClass, ...]:
    rows = 1 << found.row_bits
    if level == 2 * found.values:
        return (AnswerClass("any row and sign", 2 * rows, Fraction(1)),)
    return (
        AnswerClass("a row with the true sign", rows, _of(found.threshold)),
        AnswerClass("a row with the other sign", rows, _of(COIN_SPACE - found.threshold)),
    )


def _signed_subset(found: Any, level: int) -> tuple[AnswerClass, ...]:
    d, size = found.values, found.size
    inside = comb(d - 1, size - 1) << (size - 1)
    outside = comb(d - 1, size) << size
    _, plus, either = found.own_coins(level)
    if level == 2 * d:
        names = ("position 0, +", "position 0, -", "not position 0")
    else:
        names = ("the true position and sign", "that position, the other sign", "not that position")
    coins_of = (plus, either - plus, COIN_SPACE - either)
    parts = zip(names, (inside, inside, outside), coins_of, strict=True)
    return tuple(
        AnswerClass(f"a set of {size}: {name}", answers, _of(coins))
        for name, answers, coins in parts
        if answers
    )


def _hypercube(found: Any, _: int) -> tuple[AnswerClass, ...]:
    near, far = found.near, found.levels - found.near
    return (
        AnswerClass(
            f"signs of which at most {found.radius} differ from the true ones",
            near,
            _of(found.threshold),
        ),
        AnswerClass("other signs", far, _of(COIN_SPACE - found.threshold)),
    )


def _codebook(found: Any, _: int) -> tuple[AnswerClass, ...]:
    near, far = found.near << found.seed_bits, (found.codes - found.near) << found.seed_bits
    return (
        AnswerClass(
            f"one of the {found.near} directions nearest to the true one",
            near,
            _of(found.threshold),
            alike=False,
        ),
        AnswerClass("another direction", far, _of(COIN_SPACE - found.threshold), alike=False),
    )


def _channel(found: Any, level: int) -> tuple[AnswerClass, ...]:
    """The answers that are at least half as likely as the likeliest, and the others."""
    row = found.table[level]
    likely = [entry for entry in row if 2 * entry >= max(row)]
    others = [entry for entry in row if 2 * entry < max(row)]
    named = (("one of the likeliest answers", likely), ("another answer", others))
    return tuple(
        AnswerClass(name, len(entries), _of(sum(entries)), alike=len(set(entries)) == 1)
        for name, entries in named
        if entries
    )


def _signed_truths(found: Any) -> tuple[int, ...]:
    return (0, signed_levels(found.values) - 1)


def _table_truths(found: Any) -> tuple[int, ...]:
    return tuple(sorted({0, found.levels // 2, found.levels - 1}))


_CLASSES: Mapping[str, Callable[[Any, int], tuple[AnswerClass, ...]]] = {
    "channel": _channel,
    "codebook": _codebook,
    "hadamard-sign": _hadamard,
    "hypercube": _hypercube,
    "k-ary": _k_ary,
    "linear-hashing": _hashing,
    "signed-subset-selection": _signed_subset,
    "subset-selection": _subset,
}
_TRUTHS: Mapping[str, Callable[[Any], tuple[int, ...]]] = {
    "channel": _table_truths,
    "hadamard-sign": _signed_truths,
    "signed-subset-selection": _signed_truths,
}
