"""Users that round 1 of MASKED-PARITY takes: KLNRS08's scheme as printed, against ours.

For every eps and d two figures a scheme: what the planner asks for, and the least number that was
measured to fail at most once in a hundred. The questions, the randomizers, their decoding and the
rule that reads the mask are the system's own. Users are drawn as tallies, exactly in law
(`masked_parity_laws` says how); of the printed scheme's independent groups the chance of a failure
is a product of binomial tails, and nothing is drawn.

    python benchmarks/masked_parity_users.py [--quick] [--json] [--plot FILE.png]
                                             [--d 8 16] [--epsilon 1]

Exit code 1: the printed scheme took less than 0.7 d (eps = 1) or 0.5 d (eps = 2) times our users
somewhere, or the plan more than 1.5 times what was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from masked_parity_laws import BETA, Failure, Ours, Printed, Scheme

CLAIMS = {"1": 0.7, "2": 0.5}  # of d: what printed over ours is at least
PLANNED = 1.5  # planned over measured, ours, at most
EPSILONS, DIMENSIONS = ("1", "2", "4"), (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Effort:
    """Precision of the search for the least number of users.

    Args:
        batches: of trials, a probe; fewer where the answer is clear before.
        step: the search ends when its bracket's ends are this factor apart.
    """

    batches: int
    step: float


FULL = Effort(batches=20, step=1.01)
QUICK = Effort(batches=3, step=1.05)


@dataclass(frozen=True, slots=True)
class Measured:
    """The least number of users, and how sure it is.

    Args:
        users: of all groups together.
        failure_rate: at that number.
        trials: that it was averaged over; 0: it is exact.
        error: one standard deviation of `users`, as a part of it: that of the failure rate, divided
            by how steeply its logarithm falls with the logarithm of the users.
        seconds: what the search took.
    """

    users: int
    failure_rate: float
    trials: int
    error: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """Comparison at one eps and d; the ratios are printed over ours."""

    epsilon: str
    d: int
    randomizer: str
    planned_ours: int
    planned_printed: int
    measured_ours: Measured
    measured_printed: Measured

    @property
    def planned_ratio(self) -> float:
        """Ratio of the planned users."""
        return self.planned_printed / self.planned_ours

    @property
    def measured_ratio(self) -> float:
        """Ratio of the measured users."""
        return self.measured_printed.users / self.measured_ours.users

    @property
    def excess(self) -> float:
        """The plan over what was measured, ours."""
        return self.planned_ours / self.measured_ours.users

    @property
    def claim(self) -> float | None:
        """Least value claimed for the measured ratio; None: nothing is claimed at this eps."""
        return CLAIMS[self.epsilon] * self.d if self.epsilon in CLAIMS else None

    @property
    def holds(self) -> bool:
        """True if the ratio and the plan are as claimed."""
        return self.excess <= PLANNED and (self.claim is None or self.measured_ratio >= self.claim)


@dataclass(frozen=True, slots=True)
class Fit:
    """Users against d at one eps: two laws of growth, and a plain power of d.

    Args:
        power: 2 for ours, 3 for printed: what theory says.
        constant: the geometric mean of users / (d^power ln d).
        spread: the greatest of these over the least.
        joint_constant: the same of d^power ln(d / BETA), for each of d bits may fail in BETA / d.
        joint_spread: likewise.
        slope: of ln users on ln d, least squares.
    """

    epsilon: str
    scheme: str
    power: int
    constant: float
    spread: float
    joint_constant: float
    joint_spread: float
    slope: float


def least_users(scheme: Scheme, effort: Effort) -> Measured:
    """Bisect, on the logarithm of the group's size, for a failure rate of at most BETA.

    The failure rate falls about as exp(-n I); its slope is taken from one more probe, at 9/10 of n.
    """
    began = time.perf_counter()
    kept: dict[int, Failure] = {}

    def enough(users: int) -> bool:
        kept[users] = scheme.failure(users, effort.batches)
        return kept[users].rate <= BETA

    high = scheme.group_users
    while not enough(high):  # the planner's size is an upper bound: one probe
        high *= 2
    low = max(4 * high // 5, 1)
    while low > 1 and enough(low):
        high, low = low, max(4 * low // 5, 1)
    while high > effort.step * low and high - low > 1:
        middle = round(sqrt(low * high))
        middle = min(max(middle, low + 1), high - 1)
        if enough(middle):
            high = middle
        else:
            low = middle
    fewer, found = max(9 * high // 10, 1), kept[high]
    there = scheme.failure(fewer, effort.batches).rate
    slope = log(max(there, BETA) / max(found.rate, BETA / 10)) / log(high / fewer)
    return Measured(
        users=high * scheme.groups,
        failure_rate=found.rate,
        trials=found.trials,
        error=found.error / BETA / max(slope, 1.0),
        seconds=time.perf_counter() - began,
    )


def compare(epsilon: str, d: int, effort: Effort) -> Row:
    """Compare both schemes at one eps and d."""
    ours, printed = Ours(d, epsilon), Printed(d, epsilon)
    return Row(
        epsilon=epsilon,
        d=d,
        randomizer=ours.randomizer_text,
        planned_ours=ours.plan.users,
        planned_printed=printed.plan.users,
        measured_ours=least_users(ours, effort),
        measured_printed=least_users(printed, effort),
    )


def rows(epsilons: Sequence[str], ds: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Generate all comparisons in order, each reported on stderr when it is done."""
    for epsilon in epsilons:
        for d in ds:
            row = compare(epsilon, d, effort)
            spent = row.measured_ours.seconds + row.measured_printed.seconds
            print(f"eps {epsilon}, d {d}: {spent:.0f} s", file=sys.stderr, flush=True)
            yield row


def fits(table: Sequence[Row]) -> list[Fit]:
    """Return the measured numbers against d, for each eps and scheme."""
    found = []
    for epsilon in dict.fromkeys(row.epsilon for row in table):
        mine = [row for row in table if row.epsilon == epsilon]
        d = np.array([row.d for row in mine], dtype=float)
        if len(d) < 2:
            continue
        for scheme, power in (("ours", 2), ("printed", 3)):
            users = np.array([getattr(row, f"measured_{scheme}").users for row in mine], float)
            each, joint = (users / (d**power * np.log(d / part)) for part in (1, BETA))
            found.append(
                Fit(
                    epsilon=epsilon,
                    scheme=scheme,
                    power=power,
                    constant=exp(np.log(each).mean()),
                    spread=float(each.max() / each.min()),
                    joint_constant=exp(np.log(joint).mean()),
                    joint_spread=float(joint.max() / joint.min()),
                    slope=float(np.polyfit(np.log(d), np.log(users), 1)[0]),
                )
            )
    return found


def story(table: Sequence[Row]) -> dict[str, Any]:
    """Return the document that `--json` prints."""
    claims = ", ".join(f"{part} d at eps = {epsilon}" for epsilon, part in CLAIMS.items())
    return {
        "beta": BETA,
        "claim": f"printed / ours >= {claims}; plan / measured <= {PLANNED}",
        "holds": all(row.holds for row in table),
        "rows": [
            asdict(row)
            | {
                "planned_ratio": row.planned_ratio,
                "measured_ratio": row.measured_ratio,
                "ratio_over_d": row.measured_ratio / row.d,
                "planned_over_measured": row.excess,
                "holds": row.holds,
            }
            for row in table
        ],
        "fits": [asdict(fit) for fit in fits(table)],
    }


def show(table: Sequence[Row]) -> None:
    """Print the table and the fits."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Users of round 1 for at most 1 % failure")
    for name in ("eps", "d", "ours by", "ours: measured", "plan", "x", "printed: measured", "plan"):
        shown.add_column(name, justify="left" if name == "ours by" else "right")
    for name in ("ratio", "/ d", "holds"):
        shown.add_column(name, justify="right")
    for row in table:
        shown.add_row(
            row.epsilon,
            str(row.d),
            row.randomizer,
            f"{row.measured_ours.users:,} ±{row.measured_ours.error:.1%}",
            f"{row.planned_ours:,}",
            f"{row.excess:.2f}",
            f"{row.measured_printed.users:,}",
            f"{row.planned_printed:,}",
            f"{row.measured_ratio:.2f}",
            f"{row.measured_ratio / row.d:.2f}",
            "yes" if row.holds else "NO",
        )
    console = Console(width=140)
    console.print(shown)
    for fit in fits(table):
        console.print(
            f"eps {fit.epsilon}, {fit.scheme}: {fit.constant:.3g} d^{fit.power} ln d within a"
            f" factor {fit.spread:.2f}; {fit.joint_constant:.3g} d^{fit.power} ln(d / {BETA})"
            f" within {fit.joint_spread:.2f}; by a plain power d^{fit.slope:.2f}",
            highlight=False,
        )


def plot(table: Sequence[Row], path: Path) -> None:
    """Draw one panel per eps: measured users against d, with the fits."""
    import matplotlib as mpl  # slow, and only needed here

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    epsilons = list(dict.fromkeys(row.epsilon for row in table))
    figure, panels = plt.subplots(
        1, len(epsilons), figsize=(4.2 * len(epsilons), 4.2), sharey=True, squeeze=False
    )
    found = {(fit.epsilon, fit.scheme): fit for fit in fits(table)}
    for axes, epsilon in zip(panels[0], epsilons, strict=True):
        mine = [row for row in table if row.epsilon == epsilon]
        across = np.geomspace(mine[0].d, mine[-1].d, 50)
        for scheme, colour in (("ours", "#0b6e99"), ("printed", "#b0653a")):
            users = [getattr(row, f"measured_{scheme}").users for row in mine]
            axes.plot([row.d for row in mine], users, "o", color=colour, label=scheme)
            fit = found.get((epsilon, scheme))
            if fit is not None:
                line = fit.joint_constant * across**fit.power * np.log(across / BETA)
                label = f"{fit.joint_constant:.2g} d$^{fit.power}$ ln(d / {BETA})"
                axes.plot(across, line, color=colour, alpha=0.6, label=label)
        axes.plot(
            [row.d for row in mine],
            [row.planned_ours for row in mine],
            "_",
            color="#0b6e99",
            markersize=11,
            label="ours, planned",
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(f"epsilon = {epsilon}", loc="left")
        axes.set_xlabel("d")
        axes.legend(frameon=False, fontsize=8)
    panels[0][0].set_ylabel("users of round 1")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="eps 1, d 8 and 16, few trials")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--d", type=int, nargs="+", metavar="D")
    parser.add_argument("--epsilon", nargs="+", metavar="E")
    parser.add_argument("--batches", type=int, metavar="N", help="of trials, a probe at most")
    given = parser.parse_args(arguments)
    effort = QUICK if given.quick else FULL
    if given.batches is not None:
        effort = Effort(given.batches, effort.step)
    epsilons = given.epsilon or (["1"] if given.quick else list(EPSILONS))
    dimensions = given.d or ([8, 16] if given.quick else list(DIMENSIONS))
    table = list(rows(epsilons, dimensions, effort))
    told = story(table)
    if given.json:
        print(json.dumps(told))
    else:
        show(table)
        print(f"{told['claim']}: {told['holds']}; ± is one standard deviation of the simulation")
    if given.plot is not None:
        plot(table, given.plot)
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
