"""Laws of tallies of sets, drawn by a sweep over cells; and tallies of users drawn one by one.

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

from fractions import Fraction

import numpy as np

from askance_aggregator.families import family_of
from askance_client.randomizers import COIN_SPACE, Randomizer
from askance_simulation.families.dispatch import TallyCounts, draw

_USERS_AT_ONCE = 1 << 18


def sets_tally(
    cells: int, size: int, own: Fraction, counts: TallyCounts, rng: np.random.Generator
) -> TallyCounts:
    """Return the sweep of the module's docstring, after its first step."""
    even = Fraction(size, cells)
    favoured = own >= even
    uniform = (1 - own) / (1 - even) if favoured else own / even
    forgetful = rng.binomial(counts, float(uniform))
    bound = counts - forgetful
    return swept(cells, size, forgetful.sum(axis=1), bound, favoured=favoured, rng=rng)


def swept(
    cells: int,
    size: int,
    free_users: TallyCounts,
    bound: TallyCounts,
    *,
    favoured: bool,
    rng: np.random.Generator,
) -> TallyCounts:
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


def _pool(users: TallyCounts, members_left: int, size: int) -> TallyCounts:
    """Count users by the members they have left to place; at first all have the same number."""
    pool = np.zeros((len(users), size + 1), dtype=np.int64)
    pool[:, members_left] = users
    return pool


def _moved(pool: TallyCounts, taking: TallyCounts) -> TallyCounts:
    """Compute the pool after some sets of each state took a cell; sets with none left took none."""
    moved = pool - taking
    moved[:, :-1] += taking[:, 1:]
    return moved


def _uniform_part(pool: TallyCounts, wanted: TallyCounts, rng: np.random.Generator) -> TallyCounts:
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


def tally_by_users(
    randomizer: Randomizer, counts: TallyCounts, rng: np.random.Generator
) -> TallyCounts:
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
