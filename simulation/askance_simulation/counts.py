"""The tally of a group, drawn exactly in law without drawing its users.

A learner sees a group only through its tally. Where a million devices an answer, a thousand times
over, would take days, the tally itself is drawn: from how many users there are at each level, by
binomial, multinomial and hypergeometric draws whose number does not depend on the users' number.

Nothing here is on the private path: probabilities are rounded to floats (a relative 2^-53) before
they are drawn from, and for subset selection the draws are taken as uniform, as in
`SubsetFamily.probability` (the device's differ by at most cells^2 / 2^64). No device uses it.

**Signs.** A Hadamard sign is a fair coin to all but those who keep theirs: with p the chance of
the own sign, a report is *free* (any row, any sign) with probability 2 (1 - p), and else *bound*:
a row, and its entry there for the own value. The rows of each level's bound users are multinomial,
and so are all free reports: 2^m draws a level, whatever the number of users.

**Signed sets.** With x = size / (2 d) a report is free with probability (1 - p) / (1 - x), a
uniform signed set, and else bound: the own value with its sign, and a uniform rest. Its values
without their signs are swept as sets are (below), and the signs of all but the own are fair coins.

**Hashes.** There is no cheap law for what linear hashing counts: q^(t + 1) reports for each of k
levels would have to be drawn. Its users are drawn one by one, in columns, as devices draw them; so
are those of signed sets that avoid their own sign.

**Sets.** Subset selection and k-ary response (a set of one cell) report a set of s of k cells that
contains the own cell with probability p and is uniform otherwise. Two steps make it cheap:

1. *Most users forget their cell.* Given whether the own cell is in it, a report is a uniform set,
   and so is a uniform set of s of all k cells, which contains the own cell with probability s/k.
   If p >= s/k, a report is therefore, with probability (1 - p) / (1 - s/k), a *free* one: a uniform
   set, whatever the own cell; and else a *bound* one: the own cell and s - 1 others. (Only free
   ones lack the own cell, with probability 1 - p in all.) If p < s/k it is free with probability
   p k/s, and else bound to s cells that are not the own one.
2. *A sweep over the cells.* A user who has m members left to place in c cells that are left takes
   the next cell with probability m/c, independently of all others. Users with the same m and c are
   alike, so one binomial moves all of them. Two pools are kept by m. A free user at cell v has
   c = k - v. A *waiting* user is a bound one whose own cell has not been passed: c = k - v - 1, for
   the own cell is none to take. What a waiting user has done does not depend on where its own cell
   is, so the users whose own cell is v are a uniform sample of those waiting: a multivariate
   hypergeometric draw by m. They do not take v (it is theirs already, or barred) and become free.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.families import HadamardFamily, KaryFamily, SubsetFamily, family_of
from askance_client.errors import InvalidParameter
from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    HadamardSign,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_simulation.fleets.column_draws import draw

Counts = NDArray[np.int64]

MAX_GROUP = 10**9 - 1  # numpy's hypergeometric draws end there
_USERS_AT_ONCE = 1 << 18


def sample_levels(
    law: Sequence[Fraction] | ArrayLike, users: int, rng: np.random.Generator, trials: int
) -> Counts:
    """Draw the number of independent users at each level.

    Args:
        law: probabilities of the levels, shape (m,), or (trials, m) where trials have their own.
        users: >= 0.
        rng: where randomness comes from.
        trials: >= 1.

    Returns:
        Shape (trials, m).

    Raises:
        InvalidParameter: the law is none, or a number is out of range.
    """
    chances = np.asarray(law, dtype=np.float64)
    if chances.ndim not in (1, 2) or (chances.ndim == 2 and len(chances) != trials):
        raise InvalidParameter(
            f"law: expected shape (m,) or (trials, m), got {chances.shape} for {trials} trials"
        )
    sums = chances.sum(axis=-1)
    if (chances < 0).any() or (np.abs(sums - 1) > 1e-9).any():
        raise InvalidParameter(
            "law: expected probabilities that sum to 1, got a least one of"
            f" {chances.min():g} and sums from {sums.min():g} to {sums.max():g}"
        )
    if users < 0 or trials < 1:
        raise InvalidParameter(f"expected users >= 0 and trials >= 1, found {users} and {trials}")
    return rng.multinomial(users, chances, size=trials)


def sample_tally(
    randomizer: Randomizer, level_counts: ArrayLike, rng: np.random.Generator, trials: int
) -> Counts:
    """Draw `Family.tally` of the reports of a group, exactly in law.

    Args:
        randomizer: a table, or a family of cells or of signed values.
        level_counts: how many users there are at each level: integers, shape (m,), or (trials, m)
            where trials have their own (`sample_levels`).
        rng: where randomness comes from.
        trials: how many independent tallies.

    Returns:
        Shape (trials, k), k the length of the randomizer's tally.

    Raises:
        InvalidParameter: the counts are of another shape, negative, or of a billion users or more;
            or the family is another one.
    """
    counts = _checked(level_counts, randomizer.levels, trials)
    if isinstance(randomizer, Channel):
        return _table(randomizer, counts, rng)
    if isinstance(randomizer, SubsetSelection):
        return _sets(
            randomizer.cells, randomizer.size, SubsetFamily(randomizer).rates.own, counts, rng
        )
    if isinstance(randomizer, KaryResponse):
        return _sets(randomizer.cells, 1, KaryFamily(randomizer).rates.own, counts, rng)
    if isinstance(randomizer, HadamardSign):
        return _signs(randomizer, counts, rng)
    if isinstance(randomizer, SignedSubsetSelection) and randomizer.threshold >= randomizer.even:
        return _signed_sets(randomizer, counts, rng)
    if isinstance(randomizer, LinearHashing | SignedSubsetSelection):
        return np.array([_by_users(randomizer, row, rng) for row in counts])
    raise InvalidParameter(f"no law of tallies is known for the family {randomizer.name}")


def sample_signed_sets(
    randomizer: SignedSubsetSelection,
    level_counts: ArrayLike,
    rng: np.random.Generator,
    trials: int,
) -> tuple[Counts, Counts]:
    """Draw the part of a tally of signed sets that does not depend on its fair coins.

    The tally at (j, +) is bound at (j, +) and Binomial(strays at j, 1/2), at (j, -) the rest of
    these strays; independently for all j. So chances of a tally can be summed exactly over coins.

    Args:
        randomizer: one that favours the own value, and not its opposite.
        level_counts: as in `sample_tally`.
        rng: where randomness comes from.
        trials: how many independent ones.

    Returns:
        The bound reports by item, shape (trials, 2 d), and the strays by value, shape (trials, d).

    Raises:
        InvalidParameter: as in `sample_tally`; or the randomizer avoids the own sign.
    """
    if randomizer.threshold < randomizer.even:
        raise InvalidParameter(
            "randomizer: expected signed sets that favour the own sign, got threshold"
            f" {randomizer.threshold} below {randomizer.even}"
        )
    return _bound_and_strays(randomizer, _checked(level_counts, randomizer.levels, trials), rng)


def _checked(level_counts: ArrayLike, levels: int, trials: int) -> Counts:
    counts = np.asarray(level_counts)
    if trials < 1:
        raise InvalidParameter(f"trials expects 1 or more, found {trials}")
    if counts.shape not in ((levels,), (trials, levels)) or counts.dtype.kind not in "iu":
        raise InvalidParameter(
            f"level counts expect integers of shape ({levels},) or ({trials}, {levels}), "
            f"found {counts.dtype} of shape {counts.shape}"
        )
    counts = np.broadcast_to(counts.astype(np.int64), (trials, levels))
    if (counts < 0).any() or (counts.sum(axis=1) > MAX_GROUP).any():
        raise InvalidParameter(
            f"level counts: expected 0 .. {MAX_GROUP} users per group, got a least count of"
            f" {counts.min()} and groups of up to {counts.sum(axis=1).max()}"
        )
    return counts


def _table(channel: Channel, counts: Counts, rng: np.random.Generator) -> Counts:
    """Return the users at a level are multinomial over the symbols."""
    tally = np.zeros((len(counts), channel.symbols), dtype=np.int64)
    for level, row in enumerate(channel.table):
        tally += rng.multinomial(counts[:, level], [entry / COIN_SPACE for entry in row])
    return tally


def _signs(randomizer: HadamardSign, counts: Counts, rng: np.random.Generator) -> Counts:
    """Draw free reports all at once, bound ones level by level."""
    rows = 1 << randomizer.row_bits
    kept = float(max(randomizer.threshold, COIN_SPACE - randomizer.threshold) / COIN_SPACE)
    contrary = randomizer.threshold < COIN_SPACE // 2
    bound = rng.binomial(counts[:, :-1], 2 * kept - 1)
    free = counts.sum(axis=1) - bound.sum(axis=1)
    signs = rng.multinomial(free, np.full(2 * rows, 1 / (2 * rows))).reshape(-1, rows, 2)
    for level in np.flatnonzero(bound.any(axis=0)):
        drawn = rng.multinomial(bound[:, level], np.full(rows, 1 / rows))
        minus = (np.bitwise_count(np.arange(rows) & (level >> 1)) + level + contrary) % 2
        signs[:, np.arange(rows), minus] += drawn
    return HadamardFamily(randomizer).plus_counts(signs)


def _signed_sets(
    randomizer: SignedSubsetSelection, counts: Counts, rng: np.random.Generator
) -> Counts:
    """Return a fair coin for each sign that is not the own."""
    bound, strays = _bound_and_strays(randomizer, counts, rng)
    plus = rng.binomial(strays, 0.5)
    signed: Counts = np.stack((plus, strays - plus), axis=2).reshape(len(counts), -1)
    return bound + signed


def _bound_and_strays(
    randomizer: SignedSubsetSelection, counts: Counts, rng: np.random.Generator
) -> tuple[Counts, Counts]:
    """Return a sweep for the values."""
    values, size = randomizer.values, randomizer.size
    own, even = Fraction(randomizer.threshold, COIN_SPACE), Fraction(size, 2 * values)
    bound = counts[:, :-1] - rng.binomial(counts[:, :-1], float((1 - own) / (1 - even)))
    both = bound.reshape(-1, values, 2).sum(axis=2)
    free = counts.sum(axis=1) - both.sum(axis=1)
    return bound, _swept(values, size, free, both, favoured=True, rng=rng) - both


def _by_users(
    randomizer: LinearHashing | SignedSubsetSelection, counts: Counts, rng: np.random.Generator
) -> Counts:
    """Draw every user's own report, a block of users at a time."""
    tally = family_of(randomizer).tally(np.zeros((0, randomizer.width), np.uint8))
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), _USERS_AT_ONCE):
        users = np.arange(start, min(start + _USERS_AT_ONCE, int(ends[-1])))
        coins = rng.integers(0, COIN_SPACE, (len(users), randomizer.coins), dtype=np.uint64)
        tally += family_of(randomizer).tally(
            draw(randomizer, np.searchsorted(ends, users, "right"), coins)
        )
    return tally


def _sets(cells: int, size: int, own: Fraction, counts: Counts, rng: np.random.Generator) -> Counts:
    """Return the sweep of the module's docstring, after its first step."""
    even = Fraction(size, cells)
    favoured = own >= even
    uniform = (1 - own) / (1 - even) if favoured else own / even
    forgetful = rng.binomial(counts, float(uniform))
    bound = counts - forgetful
    return _swept(cells, size, forgetful.sum(axis=1), bound, favoured=favoured, rng=rng)


def _swept(
    cells: int,
    size: int,
    free_users: Counts,
    bound: Counts,
    *,
    favoured: bool,
    rng: np.random.Generator,
) -> Counts:
    """Count the sets that contain each cell; bound ones contain their own cell, or exclude it."""
    free = _pool(free_users, size, size)
    waiting = _pool(bound.sum(axis=1), size - favoured, size)
    members_left = np.arange(size + 1)
    tally = bound.copy() if favoured else np.zeros_like(bound)
    for cell in range(cells):
        ahead = cells - cell
        arrived = _uniform_part(waiting, bound[:, cell], rng)
        waiting -= arrived
        # A state with more members left than cells is empty; its chance only has to be one.
        taking = rng.binomial(free, np.minimum(members_left / ahead, 1.0))
        # At the last cell no set has cells left to take.
        reaching = rng.binomial(waiting, np.minimum(members_left / max(ahead - 1, 1), 1.0))
        tally[:, cell] += taking.sum(axis=1) + reaching.sum(axis=1)
        free = _moved(free, taking) + arrived
        waiting = _moved(waiting, reaching)
    return tally


def _pool(users: Counts, members_left: int, size: int) -> Counts:
    """Count users by the members they have left to place; at first all have the same number."""
    pool = np.zeros((len(users), size + 1), dtype=np.int64)
    pool[:, members_left] = users
    return pool


def _moved(pool: Counts, taking: Counts) -> Counts:
    """Compute the pool after some sets of each state took a cell; sets with none left took none."""
    moved = pool - taking
    moved[:, :-1] += taking[:, 1:]
    return moved


def _uniform_part(pool: Counts, wanted: Counts, rng: np.random.Generator) -> Counts:
    """Return a uniform sample of `wanted` users of each row's pool, by state."""
    part = np.zeros_like(pool)
    rest, missing = pool.sum(axis=1), wanted.copy()
    for state in range(pool.shape[1]):
        here = pool[:, state]
        if not here.any():
            continue
        rest = rest - here
        part[:, state] = rng.hypergeometric(here, rest, missing)
        missing = missing - part[:, state]
    return part
