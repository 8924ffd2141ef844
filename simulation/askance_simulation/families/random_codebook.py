"""Random codebooks: draws for columns, statements, the best lie, and entries of `verify`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import random_codebook
from askance_aggregator.families.random_codebook import fitted, ranked_rows, turned_rows
from askance_client.exact_laws import chance_of_rank, valid
from askance_client.randomizers import COIN_BITS, COIN_SPACE, RandomCodebook
from askance_client.randomizers.public_rotations import STEPS
from askance_client.randomizers.random_codebook import LENGTH_BITS
from askance_simulation.families import dispatch
from askance_simulation.families.drawing import big_endian, scaled
from askance_simulation.families.favouring import TRIES, Draw, Weights, favour

_SIGNS_AT_ONCE = 1 << 22
_SEEN = 16  # ranks of which the audit states each


@dispatch.draw.register
def _(
    randomizer: RandomCodebook, levels: dispatch.Levels, coins: dispatch.Coins
) -> dispatch.Reports:
    rows = _rows_at_once(randomizer)
    blocks = [
        _codes(randomizer, levels[start : start + rows], coins[start : start + rows])
        for start in range(0, len(levels), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, randomizer.width), np.uint8)


def _rows_at_once(randomizer: RandomCodebook) -> int:
    return max(1, _SIGNS_AT_ONCE // (STEPS * randomizer.bases * randomizer.order))


def _codes(
    randomizer: RandomCodebook, vectors: dispatch.Levels, coins: dispatch.Coins
) -> dispatch.Reports:
    """Draw the reports of users with these vectors, by the device's own rotations and ranking."""
    seeds = np.zeros(len(coins), np.int64)
    if randomizer.seed_bits:
        seeds = (coins[:, 0] >> np.uint64(COIN_BITS - randomizer.seed_bits)).astype(np.int64)
    near, far = randomizer.near, randomizer.codes - randomizer.near
    ranks = np.where(
        coins[:, 1] < np.uint64(randomizer.threshold),
        scaled(coins[:, 2], near),
        near + scaled(coins[:, 2], far),
    )
    order = ranked_rows(turned_rows(points(randomizer, vectors), seeds.tolist(), randomizer.bases))
    codes = order[np.arange(len(order)), ranks]
    return big_endian(seeds * randomizer.codes + codes, randomizer.width)


def points(randomizer: RandomCodebook, vectors: dispatch.Levels) -> dispatch.Levels:
    """Compute `RandomCodebook.point` of each vector, shape (n, order)."""
    most, shift = randomizer.radius, LENGTH_BITS - randomizer.radius.bit_length()
    clipped = np.clip(vectors.astype(np.int64), -most, most)
    moved = clipped << shift if shift >= 0 else clipped >> -shift
    radius = most << shift if shift >= 0 else most >> -shift
    points = np.zeros((len(vectors), randomizer.order), np.int64)
    points[:, : randomizer.components] = moved
    short = radius * radius - (moved * moved).sum(axis=1)
    points[:, randomizer.components] = _root(np.maximum(short, 0))
    return points


def _root(squares: dispatch.Levels) -> dispatch.Levels:
    """Return the greatest whole number whose square is not above, for numbers below 2^52."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > squares
    return roots


@dispatch.of_many.register
def _(randomizer: RandomCodebook, law: dispatch.Law) -> dispatch.Statements:
    """State each of the first ranks, that a code is near, and that a report is in the alphabet."""
    # Only a record with one level has statements: a rank is a rank among the codes of the report's
    # own seed.
    if len(law) != 1:
        return dispatch.Statements(np.zeros(0), lambda symbols: np.zeros(0, dtype=np.int64), str)
    ((level, _),) = law.items()
    near = randomizer.near
    chance = Fraction(randomizer.threshold, COIN_SPACE)
    seen = min(_SEEN, near)

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        whole = [int.from_bytes(symbol, "big") for symbol in symbols if valid(randomizer, symbol)]
        ranks = _ranks(randomizer, level, whole)
        first = np.bincount(ranks[ranks < seen], minlength=seen)
        return np.array([*first, (ranks < near).sum(), len(whole)], dtype=np.int64)

    names = [*(f"rank {rank}" for rank in range(seen)), "near", "a seed and a code"]
    shares = [float(chance / near)] * seen + [float(chance), 1.0]
    return dispatch.Statements(np.array(shares), count, names.__getitem__)


@dispatch.probabilities.register
def _(randomizer: RandomCodebook, level: int, symbols: Sequence[bytes]) -> list[Fraction]:
    sound = [symbol for symbol in symbols if valid(randomizer, symbol)]
    ranks = _ranks(randomizer, level, [int.from_bytes(symbol, "big") for symbol in sound])
    of_rank = {rank: chance_of_rank(randomizer, rank) for rank in set(ranks.tolist())}
    found = {symbol: of_rank[rank] for symbol, rank in zip(sound, ranks.tolist(), strict=True)}
    return [found.get(symbol, Fraction()) for symbol in symbols]


def _ranks(randomizer: RandomCodebook, level: int, numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return the rank of each report's code among the codes of its own seed."""
    point = np.array([randomizer.point(level)], dtype=np.int64)
    rows = _rows_at_once(randomizer)
    ranks = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(numbers), rows):
        seeds, codes = zip(
            *(divmod(number, randomizer.codes) for number in numbers[start : start + rows]),
            strict=True,
        )
        points = np.repeat(point, len(seeds), axis=0)
        order = ranked_rows(turned_rows(points, seeds, randomizer.bases))
        ranks.append((order == np.array(codes)[:, np.newaxis]).argmax(axis=1))
    return np.concatenate(ranks)


@favour.register
def _(randomizer: RandomCodebook, weights: Weights, draw: Draw) -> bytes:
    """Return the code nearest to the heaviest vector, of the seeds that are tried."""
    level, _ = max(weights, key=lambda pair: pair[1])
    point = np.array([randomizer.point(level)])
    best = (-1, 0)
    for word in draw(TRIES):
        seed = word >> (COIN_BITS - randomizer.seed_bits)
        scores = turned_rows(point, [seed], randomizer.bases)
        code = int(ranked_rows(scores)[0, 0])
        best = max(best, (int(np.abs(scores).max()), seed * randomizer.codes + code))
    return best[1].to_bytes(randomizer.width, "big")


def _small(nano: int) -> RandomCodebook:
    """Make a codebook whose reports can be listed: 2 seeds of 36 codes."""
    return fitted(RandomCodebook(1, 1, 1, 12, 1, 1), nano)


dispatch.verified(
    RandomCodebook,
    "random_codebook",
    {
        "codebook(1), 2 seeds": _small,
        **{f"codebook({d})": partial(random_codebook, d, 1) for d in (3, 16, 64)},
    },
)
