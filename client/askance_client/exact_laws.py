"""Alphabets of randomizers and exact probabilities, for readers of a ledger, tests and audits.

A device that answers needs none of them, so they stand outside the trusted core.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise
from math import comb

from askance_client import randomizers
from askance_client.errors import InvalidParameter
from askance_client.randomizers.randomizer import NumberedRandomizer
from askance_client.randomizers.sets import SetRandomizer

_COINS = randomizers.COIN_SPACE


def valid(randomizer: randomizers.Randomizer, report: bytes) -> bool:
    """Return whether the report is in the alphabet, in its one canonical form."""
    if not isinstance(report, bytes) or len(report) != randomizer.width:
        return False
    number = _number(report)
    if isinstance(randomizer, NumberedRandomizer):
        least = randomizer.modulus if isinstance(randomizer, randomizers.LinearHashing) else 0
        return least <= number < randomizer.reports
    if not isinstance(randomizer, SetRandomizer):
        raise InvalidParameter(f"randomizer: expected a family with a law, got {randomizer.name!r}")
    # No signed value may have both signs.
    signed = isinstance(randomizer, randomizers.SignedSubsetSelection)
    if randomizer.index_bytes:
        found = indices(randomizer, report)
        values = {item // 2 for item in found} if signed else found
        ascending = all(v < w for v, w in pairwise(found))
        return ascending and found[-1] < randomizer.items and len(values) == len(found)
    trailing = (1 << 8 * randomizer.width - randomizer.items) - 1
    pairs = number & number >> 1 & int.from_bytes(b"\x55" * randomizer.width, "big")
    return not (number & trailing or (signed and pairs)) and number.bit_count() == randomizer.size


def indices(randomizer: SetRandomizer, report: bytes) -> Sequence[int]:
    """Return the numbers in a report of indices, in their order."""
    each = randomizer.index_bytes
    parts = (report[start : start + each] for start in range(0, len(report), each))
    return [_number(part) for part in parts]


def contains(randomizer: SetRandomizer, report: bytes, item: int) -> bool:
    """Return whether an item is in the set of a valid report."""
    if randomizer.index_bytes:
        return item in indices(randomizer, report)
    return bool(report[item // 8] >> (7 - item % 8) & 1)


def probability(randomizer: randomizers.Randomizer, level: int, report: bytes) -> Fraction:
    """Compute Pr[report | level]; 0 for a report that is not in the alphabet.

    Exact for the families with an even draw; for sets, hashes and sign patterns it is that of even
    draws, from which a device's differs by a factor within the bias that its loss accounts for.
    """
    randomizer.check_level(level)
    return _chance(randomizer, level, report) if valid(randomizer, report) else Fraction()


@singledispatch
def _chance(randomizer: randomizers.Randomizer, level: int, report: bytes) -> Fraction:
    raise InvalidParameter(f"randomizer: expected a family with a law, got {randomizer.name!r}")


@_chance.register
def _(randomizer: randomizers.Channel, level: int, report: bytes) -> Fraction:
    return Fraction(randomizer.table[level][_number(report)], _COINS)


@_chance.register
def _(randomizer: randomizers.KaryResponse, level: int, report: bytes) -> Fraction:
    own = _number(report) == level
    return Fraction(randomizer.own if own else randomizer.other, _COINS)


@_chance.register
def _(randomizer: randomizers.SubsetSelection, level: int, report: bytes) -> Fraction:
    others, size = randomizer.cells - 1, randomizer.size
    if contains(randomizer, report, level):
        return Fraction(randomizer.threshold, _COINS * comb(others, size - 1))
    return Fraction(_COINS - randomizer.threshold, _COINS * comb(others, size))


@_chance.register
def _(randomizer: randomizers.LinearHashing, level: int, report: bytes) -> Fraction:
    hashing, value = divmod(_number(report), randomizer.modulus)
    own = randomizer.hash_value(hashing, level) == value
    coins = randomizer.own if own else randomizer.other
    return Fraction(coins, _COINS * (randomizer.vectors - 1))


@_chance.register
def _(randomizer: randomizers.HadamardSign, level: int, report: bytes) -> Fraction:
    row, minus = divmod(_number(report), 2)
    plus = randomizer.plus_coins(level, row)
    return Fraction(_COINS - plus if minus else plus, _COINS << randomizer.row_bits)


@_chance.register
def _(randomizer: randomizers.SignedSubsetSelection, level: int, report: bytes) -> Fraction:
    own, plus, either = randomizer.own_coins(level)
    signs = [contains(randomizer, report, item) for item in (2 * own, 2 * own + 1)]
    if level % 2:
        signs.reverse()
    if not any(signs):
        sets = comb(randomizer.values - 1, randomizer.size) << randomizer.size
        return Fraction(_COINS - either, _COINS * sets)
    sets = comb(randomizer.values - 1, randomizer.size - 1) << (randomizer.size - 1)
    return Fraction(plus if signs[0] else either - plus, _COINS * sets)


@_chance.register
def _(randomizer: randomizers.HypercubeResponse, level: int, report: bytes) -> Fraction:
    if (level ^ _number(report)).bit_count() <= randomizer.radius:
        return Fraction(randomizer.threshold, _COINS * randomizer.near)
    far = randomizer.levels - randomizer.near
    return Fraction(_COINS - randomizer.threshold, _COINS * far)


@_chance.register
def _(randomizer: randomizers.RandomCodebook, level: int, report: bytes) -> Fraction:
    seed, code = divmod(_number(report), randomizer.codes)
    return chance_of_rank(randomizer, randomizer.ranked(level, seed).index(code))


def chance_of_rank(randomizer: randomizers.RandomCodebook, rank: int) -> Fraction:
    """Compute the probability of a report whose code has that rank from 0 on, among its seed's."""
    size, coins = randomizer.near, randomizer.threshold
    if rank >= size:
        rank, size, coins = rank - size, randomizer.codes - size, _COINS - coins
    coins *= -(-(rank + 1) * _COINS // size) + (-rank * _COINS // size)
    return Fraction(coins, _COINS << (randomizers.COIN_BITS + randomizer.seed_bits))


def _number(report: bytes) -> int:
    return int.from_bytes(report, "big")
