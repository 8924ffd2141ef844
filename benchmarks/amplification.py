"""Ends of the epsilon of a shuffled batch: upper over lower for each family, and seconds.

Beside each ratio stands rho = sqrt(I_up / I_lo) of the channel, I = sum (a - b)^2 / c at the column
minima and at the best attained law of the other users: what the two proofs are apart in a large
batch at a small delta, which no grid improves. Epsilon is not linear in the deviation: beside each
ratio stands that of two normal laws whose means are sqrt(I_up / n) and sqrt(I_lo / n) apart (Balle
and Wang 2018, Theorem 8). Nothing is drawn but random tables, by a fixed seed.

    python benchmarks/amplification.py [--families k-ary sets] [--epsilons 1 4] [--quick] [--json]
    python benchmarks/amplification.py --small    # k-ary response, 2 to 60 answers
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import exp, inf, sqrt
from statistics import NormalDist

from askance_aggregator.amplification import epsilon_ends
from askance_aggregator.bisection import halved
from askance_aggregator.families import (
    family_of,
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    random_codebook,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.families.comparisons import Comparisons
from askance_aggregator.table_design import Conditional, design_table
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.randomizers import COIN_SPACE, Channel, Randomizer

ANSWERS = (10**4, 10**6, 10**8)
DELTAS = (Fraction(1, 10**6), Fraction(1, 10**9))
EPSILONS = ("0.5", "1", "2", "4")
QUICK_EPSILONS = ("1",)
SMALL_CELLS = (3, 4, 8, 16)
SMALL_ANSWERS = (2, 3, 4, 5, 7, 10, 15, 20, 30, 45, 60)
SMALL_DELTAS = (Fraction(1, 10**2), Fraction(1, 10**4), Fraction(1, 10**6))
SMALL_WANTED = 1.02
SEED = 33
MOST_S = 2.0  # that a figure may take
MOST_TABLE_S = {33: 10.0, 64: 60.0, 128: 60.0, 720: 60.0}  # by levels

FAMILIES: Mapping[str, tuple[Callable[[int], Randomizer], float]] = {
    "bit": (randomized_response, 1.02),
    "k-ary of 16": (lambda nano: k_ary_response(16, nano), 1.005),
    "sets of 64": (lambda nano: subset_selection(64, nano), inf),
    "signed sets of 64": (lambda nano: signed_subset_selection(64, nano), inf),
    "hashes of 1024": (lambda nano: linear_hashing(1024, nano), inf),
    "hadamard signs of 64": (lambda nano: hadamard_sign(64, nano), inf),
    "hypercube of 64": (lambda nano: hypercube_response(64, nano), inf),
    "codebook of 64": (lambda nano: random_codebook(64, 1 << 20, nano), inf),
    "table of 33": (lambda nano: design_table(33, nano, Conditional()).channel, inf),
}
"""Randomizers with the greatest ratio that is wanted of each; inf: 1.03 rho."""


@dataclass(frozen=True)
class Figure:
    """Ends of one batch."""

    answers: int
    delta: float
    lower: float
    upper: float
    seconds: float

    @property
    def ratio(self) -> float:
        """Upper over lower; infinite where no lower end is proved."""
        return self.upper / self.lower if self.lower else inf


@dataclass(frozen=True)
class Row:
    """Ends of one randomizer."""

    family: str
    epsilon: str
    indices: tuple[float, float] | None
    wanted: float | None
    figures: list[Figure]

    @property
    def rho(self) -> float | None:
        """Root of the indices' ratio; None without them."""
        return None if self.indices is None else sqrt(self.indices[0] / self.indices[1])

    def normal_ratio(self, figure: Figure) -> float:
        """Compute the ratio of epsilons of two normal laws with these indices; 1 without them."""
        if self.indices is None:
            return 1.0
        upper, lower = (
            normal_epsilon(sqrt(i / figure.answers), figure.delta) for i in self.indices
        )
        return upper / lower


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute, and print two tables, or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), help="parts of names")
    parser.add_argument("--epsilons", nargs="+", default=None, help="nats; default: 0.5 1 2 4")
    parser.add_argument("--quick", action="store_true", help="one epsilon, small tables")
    parser.add_argument("--small", action="store_true", help="small batches of k-ary response")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.small:
        return print_small(given.epsilons or EPSILONS)
    epsilons = given.epsilons or (QUICK_EPSILONS if given.quick else EPSILONS)
    rows: list[Row] = []
    if not given.json:
        print(_heading())
    for row in family_rows(given.families, epsilons):
        rows.append(row)
        if not given.json:
            print(_line(row), flush=True)
    tables = [] if given.quick else [table_figure(levels) for levels in MOST_TABLE_S]
    misses = [
        f"{row.family}, {row.epsilon} nats, n = {figure.answers}, delta {figure.delta:g}: "
        f"{figure.ratio:.4f} (normal laws: {row.normal_ratio(figure):.4f})"
        for row in rows
        for figure in row.figures
        if row.wanted is not None and figure.ratio > row.wanted
    ]
    if given.json:
        print(
            json.dumps(
                {"rows": [{**asdict(row), "rho": row.rho} for row in rows], "misses": misses}
            )
        )
        return 0
    for levels, figure in zip(MOST_TABLE_S, tables, strict=False):
        print(
            f"a random table of {levels} levels, n = {figure.answers}: {figure.lower:.3g} to "
            f"{figure.upper:.3g} ({figure.ratio:.2f}) in {figure.seconds:.1f} s of "
            f"at most {MOST_TABLE_S[levels]:g}"
        )
    slowest = max(figure.seconds for row in rows for figure in row.figures)
    print(f"\nthe longest figure took {slowest:.2f} s of at most {MOST_S:g}")
    print("all ratios are as wanted" if not misses else "more than wanted: " + "; ".join(misses))
    return 0


def print_small(epsilons: Sequence[str]) -> int:
    """Print the greatest upper over lower of small batches, over all deltas."""
    print(f"| cells | local epsilon | {' | '.join(map(str, SMALL_ANSWERS))} |")
    print(f"|---:|---:|{'---:|' * len(SMALL_ANSWERS)}")
    figures: list[Figure] = []
    for cells in SMALL_CELLS:
        for epsilon in epsilons:
            randomizer = k_ary_response(cells, int(Fraction(epsilon) * NANO_NATS_PER_NAT))
            row = [
                [measured(randomizer, answers, delta) for delta in SMALL_DELTAS]
                for answers in SMALL_ANSWERS
            ]
            worst = (max(figure.ratio for figure in at) for at in row)
            print(
                f"| {cells} | {epsilon} | {' | '.join(f'{each:.6f}' for each in worst)} |",
                flush=True,
            )
            figures += [figure for at in row for figure in at]
    most, slowest = max(f.ratio for f in figures), max(f.seconds for f in figures)
    print(f"\nat most {most:.6f}, wanted {SMALL_WANTED}; the longest figure took {slowest:.2f} s")
    return 0


def family_rows(names: Sequence[str], epsilons: Sequence[str]) -> Iterator[Row]:
    """Compute the ends of each family that one of the names is part of, at each epsilon."""
    for family, (make, wanted) in FAMILIES.items():
        if not any(name in family for name in names):
            continue
        for epsilon in epsilons:
            randomizer = make(int(Fraction(epsilon) * NANO_NATS_PER_NAT))
            row = Row(family, epsilon, indices_of(randomizer), None, [])
            bound = (None if row.rho is None else 1.03 * row.rho) if wanted == inf else wanted
            figures = [
                measured(randomizer, answers, delta) for delta in DELTAS for answers in ANSWERS
            ]
            yield replace(row, wanted=bound, figures=figures)


def measured(randomizer: Randomizer, answers: int, delta: Fraction) -> Figure:
    """Compute both ends of epsilon, timed."""
    begun = time.process_time()
    ends = epsilon_ends(randomizer, answers, delta)
    taken = time.process_time() - begun
    return Figure(answers, float(delta), ends.lower, ends.upper, taken)


def table_figure(levels: int) -> Figure:
    """Compute the ends of a table of random rows, which no bound of all pairs fits."""
    numbers = random.Random(SEED)
    rows = []
    for _ in range(levels):
        weights = [numbers.randint(1 << 20, 1 << 22) for _ in range(levels)]
        unit = COIN_SPACE // sum(weights)
        row = [weight * unit for weight in weights]
        row[0] += COIN_SPACE - sum(row)
        rows.append(tuple(row))
    return measured(Channel(tuple(rows)), 10**6, DELTAS[0])


def indices_of(randomizer: Randomizer) -> tuple[float, float] | None:
    """Compute both indices; None for a bit, which is covered, or without a lower law."""
    found = family_of(randomizer).comparisons()
    if not isinstance(found, Comparisons) or not found.lower:
        return None
    return max(each.index for each in found.upper), max(each.index for each in found.lower)


def normal_epsilon(distance: float, delta: float) -> float:
    """Solve Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) = delta, of means mu deviations apart.

    Source: Balle and Wang (ICML 2018), Theorem 8.
    """
    normal = NormalDist()

    def enough(epsilon: float) -> bool:
        near, far = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
        return normal.cdf(near) - exp(epsilon) * normal.cdf(far) <= delta

    return halved(enough, 0.0, 40.0 * distance + distance**2, 100)[1]


def _heading() -> str:
    cells = [f"1e{len(str(n)) - 1}, {float(delta):g}" for delta in DELTAS for n in ANSWERS]
    return (
        "upper end of epsilon (upper / lower; of two normal laws)\n"
        f"| family | local epsilon | rho | {' | '.join(cells)} | s |\n"
        f"|---|---:|---:|{'---:|' * (len(cells) + 1)}"
    )


def _line(row: Row) -> str:
    cells = [
        f"{figure.upper:.4g} ({figure.ratio:.4f}"
        + (")" if row.indices is None else f"; {row.normal_ratio(figure):.4f})")
        for figure in row.figures
    ]
    rho = "" if row.rho is None else f"{row.rho:.4f}"
    slowest = max(figure.seconds for figure in row.figures)
    return f"| {row.family} | {row.epsilon} | {rho} | {' | '.join(cells)} | {slowest:.2f} |"


if __name__ == "__main__":
    raise SystemExit(main())
