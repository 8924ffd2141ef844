"""Clumps that lie apart, and halfspaces with a margin: the law that each claims."""

from __future__ import annotations

import numpy as np
import pytest

from askance_client.errors import InvalidParameter
from askance_simulation.populations import Population, clusters, halfspaces
from askance_simulation.randomness import Seed

USERS = 5_000


def points(people: Population) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    columns = people.columns(0, people.size)
    names = [name for name in people.schema.fields if name.startswith("x")]
    grid = [np.asarray(columns.values[name], dtype=np.float64) for name in names]
    return np.ldexp(np.stack(grid, axis=1), -16)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("d", "gap"), [(1, 20), (3, 10), (8, 5), (2, 0)])
def test_a_plane_separates_with_its_margin(seed: int, d: int, gap: int) -> None:
    people = halfspaces(USERS, Seed.of(seed), d=d, gap=gap)
    x = points(people)
    assert np.abs(x).max() <= 1
    yes = np.asarray(people.columns(0, USERS).values["y"]) == 1
    if not yes.any() or yes.all():
        pytest.skip("all are on one side")
    from scipy.optimize import linprog

    # Some w, |w|_inf <= 1, has sign w.(1, x) >= m for all; then |w|_2 <= sqrt(d + 1).
    lifted = np.column_stack([np.ones(USERS), x]) * np.where(yes, 1.0, -1.0)[:, None]
    found = linprog(
        [*np.zeros(d + 1), -1.0],
        A_ub=np.column_stack([-lifted, np.ones(USERS)]),
        b_ub=np.zeros(USERS),
        bounds=[*[(-1, 1)] * (d + 1), (None, None)],
    )
    least = gap / 100 * np.sqrt(1 + d)  # of a unit vector, whose |w|_inf is at most 1
    assert -found.fun >= least


def test_clumps_are_narrow_and_lie_apart() -> None:
    people = clusters(USERS, Seed.of(1), clumps=4, d=3)
    x = points(people)
    assert np.abs(x).max() <= 1
    near = np.linalg.norm(x[:, None] - x[None, :200], axis=2) < 0.7
    groups = {tuple(row) for row in near.T.tolist()}
    assert len(groups) == 4
    sizes = sorted(sum(group) for group in groups)
    assert sum(sizes) == USERS
    assert sizes[0] > USERS / 4 - 5 * np.sqrt(USERS * 3 / 16)  # five standard deviations


def test_the_same_ordinal_has_the_same_record() -> None:
    for people in (clusters(USERS, Seed.of(2)), halfspaces(USERS, Seed.of(2))):
        whole, part = people.columns(0, USERS), people.columns(700, 900)
        for name in people.schema.fields:
            assert (np.asarray(whole.values[name])[700:900] == part.values[name]).all()
        assert people.unseen is not None
        assert len(people.unseen(10)) == 10


def test_a_wrong_parameter_is_named() -> None:
    with pytest.raises(InvalidParameter, match="1 to 16 clumps, got 0"):
        clusters(10, Seed.of(1), clumps=0)
    with pytest.raises(InvalidParameter, match="gap of 0 to 20"):
        halfspaces(10, Seed.of(1), gap=30)
