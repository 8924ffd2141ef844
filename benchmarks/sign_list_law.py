"""Law of the list of sign patterns: what a value's sign may miss so that the list holds the truth.

Let d independent normal estimates have means theta standard deviations away from zero, on the side
of their true signs. Patterns of signs are ranked by the sum of |z_i| over the signs that they turn.
Before the true pattern come those that turn a set S of its signs with a negative sum of theta +
g_i, g the noise. There are at least L of them if and only if theta is less than the L-th greatest
of the means of -g over non-empty sets. So each draw of g has one critical theta for each L, and the
upper quantiles of these are what the planner needs:

    python benchmarks/sign_list_law.py [--trials 200000] [--d 8 16] [--processes 1]

prints, per d, L and beta, the theta for which the truth is not on the list with a chance of at most
beta, at 99.9 % confidence in the simulation: an order statistic above the quantile. All of it is
the module `askance_aggregator/planning/decided.py`, and takes an hour or two of one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import Pool

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
LENGTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
BETAS = (0.04, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
DOUBT = 0.001  # the chance that a figure is below the true quantile
SEED = 16
SCREENED = 0.09  # of the draws, those with the greatest critical theta, are examined
PILOT = 1000
STEPS = 16  # of a bisection that begins with an interval of at most 6: 1e-4
HIGHEST = 6.0
ROUNDED = 5e-4  # half a unit of the last place that is kept
CHUNK = 5000
HEAD = '''"""Law of a list of sign patterns: 200,000 draws per d by `benchmarks/sign_list_law.py`.

THETAS[d][L]: standard deviations between zero and the means of d independent normal estimates for
which the list of the L most likely patterns of signs lacks the true one with a chance of at most
each of BETAS. Limits of 99.9 % confidence, by order statistics; 6.0 stands for "not known".
"""

from __future__ import annotations

from collections.abc import Mapping

BETAS = ({betas})
THETAS: Mapping[int, Mapping[int, tuple[float, ...]]] = {{'''


def patterns_before(estimates: NDArray[np.float64], most: int) -> int:
    """Count the patterns that are ranked before the true one, the empty set among them.

    Args:
        estimates: each with the sign + if its sign is right.
        most: what the count is cut at.
    """
    wrong = -float(estimates[estimates < 0].sum())
    if wrong == 0:
        return 0
    sizes = np.sort(np.abs(estimates))
    sums = np.zeros(1)
    for size in sizes[: int(np.searchsorted(sizes, wrong))]:
        more = sums + size
        sums = np.concatenate([sums, more[more < wrong]])
        if len(sums) >= most:
            return most
    return len(sums)


def critical(noise: NDArray[np.float64], length: int, low: float, high: float) -> float:
    """Compute, by bisection upward, the least theta that has the truth on a list of that length."""

    def enough(theta: float) -> bool:
        return patterns_before(noise + theta, length) < length

    return halved(enough, low, high, STEPS)[1]


def quantiles(d: int, trials: int) -> dict[str, list[float]]:
    """Compute the upper limits of theta for each length, in the order of BETAS."""
    from scipy.stats import binom  # slow to import, and only needed here

    lengths = [length for length in LENGTHS if length < 1 << d]
    floors: dict[int, float] = {}
    greatest: dict[int, list[float]] = {length: [] for length in lengths}
    for noise in _draws(d, trials):
        for length in lengths:
            if length not in floors:
                pilot = [critical(row, length, 0.0, HIGHEST) for row in noise[:PILOT]]
                floors[length] = float(np.quantile(pilot, 1 - SCREENED))
            floor = floors[length]
            greatest[length] += [
                critical(row, length, floor, HIGHEST)
                for row in noise
                if patterns_before(row + floor, length) >= length
            ]
    places = [int(binom.ppf(DOUBT, trials, beta)) for beta in BETAS]
    return {str(length): _at(places, greatest[length]) for length in lengths}


def _draws(d: int, trials: int) -> Iterator[NDArray[np.float64]]:
    """Yield the noise of the trials, sorted by size within each, CHUNK of them at once."""
    rng = np.random.default_rng([SEED, d])
    for start in range(0, trials, CHUNK):
        yield np.sort(rng.standard_normal((min(CHUNK, trials - start), d)), axis=1)


def _at(places: Sequence[int], found: Sequence[float]) -> list[float]:
    """Return the critical thetas at these places from the greatest on, rounded upward."""
    greatest = sorted(found, reverse=True)
    return [
        round(greatest[place - 1] + ROUNDED, 3) if 0 < place <= len(greatest) else HIGHEST
        for place in places
    ]


def module(tables: Mapping[int, dict[str, list[float]]]) -> str:
    """Return the text of the module that holds these tables."""
    lines = [HEAD.format(betas=", ".join(map(str, BETAS)))]
    for d, table in tables.items():
        lines.append(f"    {d}: {{")
        lines += [
            f"        {length}: ({', '.join(map(str, thetas))}),"
            for length, thetas in table.items()
        ]
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and print the module."""
    parser = argparse.ArgumentParser(description="the law of a list of sign patterns")
    parser.add_argument("--trials", type=int, default=200_000)
    parser.add_argument("--d", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    with Pool(options.processes) as pool:
        tables = pool.starmap(quantiles, [(d, options.trials) for d in options.d], chunksize=1)
    sys.stdout.write(module(dict(zip(options.d, tables, strict=True))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
