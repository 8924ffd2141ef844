"""Signed subset selection: draws for columns, the tally's law, statements, the best lie, `verify`.

With x = size / (2 d) a report is free with probability (1 - p) / (1 - x), a uniform signed set, and
else bound: the own value with its sign, and a uniform rest. Its values without their signs are
swept as sets are (`tallies`), and the signs of all but the own are fair coins. Users whose sets
avoid their own sign are drawn one by one, in columns, as devices draw them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from askance_aggregator.families import signed_subset_selection
from askance_aggregator.families.sets import set_report
from askance_client.randomizers import COIN_BITS, COIN_SPACE, SignedSubsetSelection
from askance_simulation.families import dispatch
from askance_simulation.families.favouring import Draw, Weights, favour, heaviest
from askance_simulation.families.fused import Kernel, Loaded, kernel
from askance_simulation.families.sets import Items, draw_items, encode_items, set_statements
from askance_simulation.families.tallies import swept, tally_by_users


@dispatch.draw.register
def _(
    randomizer: SignedSubsetSelection, levels: dispatch.Levels, coins: dispatch.Coins
) -> dispatch.Reports:
    values, size = randomizer.values, randomizer.size
    items = np.empty((len(levels), size), np.int64)
    neutral = levels == 2 * values
    for rows, level in ((np.flatnonzero(neutral), 2 * values), (np.flatnonzero(~neutral), 0)):
        if not len(rows):
            continue
        _, plus, either = randomizer.own_coins(level)
        own, drawn = np.where(neutral, 0, levels >> 1)[rows], coins[rows]
        members = _values_in(randomizer, either, own, drawn[:, : 1 + size])
        words = drawn[:, 1 + size :].astype(">u8").view(np.uint8)
        signs = np.unpackbits(words.reshape(len(rows), -1), axis=1) == 1
        # own_coins' last may be 2^64, one more than a coin can be compared to
        own_in = np.flatnonzero(drawn[:, 0] <= np.uint64(either - 1))
        kept = drawn[own_in, 0] < np.uint64(plus)
        signs[own_in, own[own_in]] = kept != (levels[rows[own_in]] & 1 == 1)
        items[rows] = 2 * members + ~np.take_along_axis(signs, members, axis=1)
    return encode_items(randomizer, items)


def _values_in(
    randomizer: SignedSubsetSelection, either: int, own: dispatch.Levels, coins: dispatch.Coins
) -> Items:
    """Draw the values in each user's set, signs aside."""
    values, size = randomizer.values, randomizer.size
    if size == values:
        return np.broadcast_to(np.arange(values), (len(own), values))
    return draw_items(values, size, either, own, coins)


@kernel.register
def _(randomizer: SignedSubsetSelection) -> Kernel | None:
    if randomizer.index_bytes or randomizer.values > COIN_BITS:
        return None

    def load() -> Loaded:
        from askance_simulation.kernels import bit_sets  # numba is imported when it is used

        values = randomizer.values
        (_, plus, either), (_, even, both) = map(randomizer.own_coins, (0, 2 * values))
        coins = map(np.uint64, (either - 1, plus, both - 1, even))
        sets = bit_sets.SignedSets(values, randomizer.size, *coins)
        return bit_sets.draw_signed_sets, (sets,)

    return Kernel(load, randomizer.items)


@dispatch.draw_tally.register
def _(
    randomizer: SignedSubsetSelection, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> dispatch.TallyCounts:
    """Return a fair coin for each sign that is not the own."""
    if randomizer.threshold < randomizer.even:
        return np.array([tally_by_users(randomizer, row, rng) for row in counts])
    bound, strays = bound_and_strays(randomizer, counts, rng)
    plus = rng.binomial(strays, 0.5)
    signed: dispatch.TallyCounts = np.stack((plus, strays - plus), axis=2).reshape(len(counts), -1)
    return bound + signed


@dispatch.draws_by_users.register
def _(randomizer: SignedSubsetSelection) -> bool:
    return randomizer.threshold < randomizer.even


def bound_and_strays(
    randomizer: SignedSubsetSelection, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> tuple[dispatch.TallyCounts, dispatch.TallyCounts]:
    """Draw the bound reports by item, and the strays by value, by a sweep over the values."""
    values, size = randomizer.values, randomizer.size
    own, even = Fraction(randomizer.threshold, COIN_SPACE), Fraction(size, 2 * values)
    bound = counts[:, :-1] - rng.binomial(counts[:, :-1], float((1 - own) / (1 - even)))
    both = bound.reshape(-1, values, 2).sum(axis=2)
    free = counts.sum(axis=1) - both.sum(axis=1)
    return bound, swept(values, size, free, both, favoured=True, rng=rng) - both


@dispatch.of_many.register
def _(randomizer: SignedSubsetSelection, law: dispatch.Law) -> dispatch.Statements:
    """Return the statements: bit 2j is + at value j, bit 2j + 1 is -."""
    # All but the own value are even.
    items = 2 * randomizer.values
    exact = [Fraction()] * items
    for level, chance in law.items():
        own, plus, either = randomizer.own_coins(level)
        beside = (randomizer.size - Fraction(either, COIN_SPACE)) / max(1, items - 2)
        shares = [beside] * items
        shares[2 * own + level % 2] = Fraction(plus, COIN_SPACE)
        shares[2 * own + 1 - level % 2] = Fraction(either - plus, COIN_SPACE)
        exact = [total + chance * share for total, share in zip(exact, shares, strict=True)]
    return set_statements(randomizer, exact, "item", signs=2)


@favour.register
def _(randomizer: SignedSubsetSelection, weights: Weights, draw: Draw) -> bytes:
    """Return the same with the better sign of each value, either where both are alike."""
    given, size = dict(weights), randomizer.size
    signs = {
        level // 2: (given.get(level, 0), given.get(level ^ 1, 0), level)
        for level, _ in weights
        if level < 2 * randomizer.values
    }
    best = tuple(sorted((value, max(one, two)) for value, (one, two, _) in signs.items()))
    words = draw(2 * size)
    members = []
    for value, word in zip(
        heaviest(range(randomizer.values), best, size, words), words[size:], strict=True
    ):
        one, two, level = signs.get(value, (0, 0, 2 * value))
        other = (word >> (COIN_BITS - 1)) if one == two else one < two
        members.append(level ^ int(other))
    return set_report(randomizer, members)


dispatch.verified(
    SignedSubsetSelection,
    "signed_subset_selection",
    {
        f"signed-subset-selection({d})": partial(signed_subset_selection, d)
        for d in (1, 4, 8, 64, 1024)
    },
)
