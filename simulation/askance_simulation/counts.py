"""The tally of a group, drawn exactly in law without drawing its users.

A learner sees a group only through its tally. Where a million devices an answer, a thousand times
over, would take days, the tally itself is drawn: from how many users there are at each level, by
binomial, multinomial and hypergeometric draws whose number does not depend on the users' number.

Nothing here is on the private path: probabilities are rounded to floats (a relative 2^-53) before
they are drawn from, and for subset selection the draws are taken as uniform, as in
`SubsetFamily.probability` (the device's differ by at most cells^2 / 2^64). No device uses it.

The laws are in the modules of `askance_simulation.families`, one per family.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer, SignedSubsetSelection
from askance_simulation.families import MAX_GROUP, draw_tally
from askance_simulation.families.signed_subset_selection import bound_and_strays

Counts = NDArray[np.int64]


def sample_levels(
    law: Sequence[Fraction] | ArrayLike, users: int, rng: np.random.Generator, trials: int
) -> Counts:
    """Draw the number of independent users at each level.

    `law` has the probabilities of the levels, shape (m,), or (trials, m) where trials have their
    own. The result has the shape (trials, m).
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
        raise InvalidParameter(f"expected users >= 0 and trials >= 1, got {users} and {trials}")
    certain = np.minimum(chances, 1.0)  # a sum of thirds may be an ulp above 1, which numpy refuses
    return rng.multinomial(users, certain, size=trials)


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
    """
    return draw_tally(randomizer, _checked(level_counts, randomizer.levels, trials), rng)


def sample_signed_sets(
    randomizer: SignedSubsetSelection,
    level_counts: ArrayLike,
    rng: np.random.Generator,
    trials: int,
) -> tuple[Counts, Counts]:
    """Draw the part of a tally of signed sets that does not depend on its fair coins.

    The tally at (j, +) is bound at (j, +) and Binomial(strays at j, 1/2), at (j, -) the rest of
    these strays; independently for all j. So chances of a tally can be summed exactly over coins.

    `randomizer` favours the own value, and not its opposite. The rest is as of `sample_tally`.

    Returns:
        The bound reports by item, shape (trials, 2 d), and the strays by value, shape (trials, d).
    """
    if randomizer.threshold < randomizer.even:
        raise InvalidParameter(
            "randomizer: expected signed sets that favour the own sign, got threshold"
            f" {randomizer.threshold} below {randomizer.even}"
        )
    return bound_and_strays(randomizer, _checked(level_counts, randomizer.levels, trials), rng)


def _checked(level_counts: ArrayLike, levels: int, trials: int) -> Counts:
    counts = np.asarray(level_counts)
    if trials < 1:
        raise InvalidParameter(f"trials expects 1 or more, got {trials}")
    if counts.shape not in ((levels,), (trials, levels)) or counts.dtype.kind not in "iu":
        raise InvalidParameter(
            f"level counts expect integers of shape ({levels},) or ({trials}, {levels}), "
            f"got {counts.dtype} of shape {counts.shape}"
        )
    counts = np.broadcast_to(counts.astype(np.int64), (trials, levels))
    if (counts < 0).any() or (counts.sum(axis=1) > MAX_GROUP).any():
        raise InvalidParameter(
            f"level counts: expected 0 .. {MAX_GROUP} users per group, got a least count of"
            f" {counts.min()} and groups of up to {counts.sum(axis=1).max()}"
        )
    return counts
