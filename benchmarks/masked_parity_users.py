"""How many users round 1 of MASKED-PARITY takes: KLNRS08's scheme as printed, against ours.

For every eps and d two figures a scheme: what the planner asks for, and the least number that was
measured to fail at most once in a hundred trials. Devices would take hours, so a trial draws the
tally of each group exactly in law (`askance.simulation.counts`). All the rest is the system's own:
the questions, the randomizers, the estimator and the rule that reads the mask from the answers.

    python benchmarks/masked_parity_users.py [--quick] [--json] [--d 8 16] [--epsilon 1]

Exit code 1: at eps = 1 the printed scheme took less than 0.35 d times our users somewhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.aggregator.estimation import estimate
from askance.aggregator.learners import (
    Adaptive,
    Answers,
    Batch,
    MaskedParity,
    masked_parity,
    masked_parity_schema,
    neutral_answer,
)
from askance.aggregator.planning import RoundPlan, plan_batch
from askance.client.accounting import parse_epsilon
from askance.simulation.counts import sample_levels, sample_tally
from askance.simulation.seeds import Seed

BETA = 0.01  # round 1 fails at most this often
CLAIM = 0.35  # of d: what the printed scheme takes at eps = 1, at least, in units of ours
CLAIMED_EPSILON = "1"
OURS, PRINTED = "signed", "printed"


@dataclass(frozen=True, slots=True)
class Effort:
    """How closely the least number of users is found.

    Args:
        trials: a probe; the failure rate at the least number is known to sqrt(BETA / trials).
        step: the search ends when its bracket's ends are this factor apart.
    """

    trials: int
    step: float


FULL = Effort(trials=2000, step=1.02)
QUICK = Effort(trials=300, step=1.08)


@dataclass(frozen=True, slots=True)
class Measured:
    """The least number of users, and how sure it is.

    Args:
        users: of all groups together.
        failure_rate: in the probe at that number.
        trials: a probe.
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
    """One eps and d; the ratios are printed over ours."""

    epsilon: str
    d: int
    planned_ours: int
    planned_printed: int
    planned_ratio: float
    measured_ours: Measured
    measured_printed: Measured
    measured_ratio: float

    @property
    def holds(self) -> bool:
        """Whether both ratios are what is claimed."""
        return min(self.planned_ratio, self.measured_ratio) >= CLAIM * self.d


class RoundOne:
    """The first round of a scheme, asked of tallies instead of devices."""

    def __init__(self, variant: str, d: int, epsilon: str) -> None:
        self.name = f"{variant} {d} {epsilon}"
        self._learner: Adaptive[MaskedParity] = masked_parity(masked_parity_schema(d), variant)
        self._d = d
        run = self._learner.run()
        self._batch: Batch = next(run)
        run.close()
        self.plan: RoundPlan = plan_batch(
            self._batch, parse_epsilon(epsilon), BETA / self._batch.values
        )
        self._levels = self._levels_of_records()

    @property
    def groups(self) -> int:
        """How many fresh groups of users there are, all of the same size."""
        return len(self.plan.groups)

    def failures(self, users: int, trials: int, at_most: int) -> int:
        """In how many trials, each with a mask of its own, a mask was misread.

        Args:
            users: of one group.
            trials: independent ones; the same arguments give the same.
            at_most: counting ends when it is exceeded.
        """
        seed = Seed.of(0) / self.name / users
        rng = np.random.default_rng(int.from_bytes(seed.key, "big"))
        masks = rng.integers(0, 2, (trials, self._d))
        weights = _record_weights(masks)
        tallies = []
        for group, levels in zip(self.plan.groups, self._levels, strict=True):
            law = weights @ np.eye(group.randomizer.levels)[levels]
            counts = sample_levels(law, users, rng, trials)
            tallies.append(sample_tally(group.randomizer, counts, rng, trials))
        failed = 0
        for trial, mask in enumerate(masks.tolist()):
            answers = tuple(
                estimate(question, group.randomizer, tally[trial], users, BETA)
                for question, group, tally in zip(
                    self._batch.questions, self.plan.groups, tallies, strict=True
                )
            )
            failed += list(self._mask_read(answers)) != mask
            if failed > at_most:
                break
        return failed

    def _mask_read(self, answers: Answers) -> tuple[int, ...]:
        """The learner's own reading; its second round is told nothing, its bit is not read."""
        run = self._learner.run()
        next(run)
        second = run.send(answers)
        try:
            run.send(tuple(neutral_answer(question) for question in second.questions))
        except StopIteration as done:
            concept: MaskedParity = done.value
            return concept.r
        raise AssertionError("masked parity has two rounds, found a third")

    def _levels_of_records(self) -> list[NDArray[np.int64]]:
        """For each question the level of every record (i, b, y); x is not asked for in round 1."""
        place = np.arange(4 * self._d)
        schema = masked_parity_schema(self._d)
        columns = schema.encode_columns(
            {
                "x": np.zeros((len(place), self._d), dtype=np.int64),
                "i": place // 4,
                "b": place // 2 % 2,
                "y": 1 - 2 * (place % 2),
            }
        )
        return [question.query.evaluate(columns) for question in self._batch.questions]


def _record_weights(masks: NDArray[np.int64]) -> NDArray[np.float64]:
    """P[(i, b, y)] for each mask, in the order of `_levels_of_records`: 4 records for each i.

    i is uniform and b a fair bit. With b = 1, y is (-1)^(r_i); with b = 0 it is a fair sign, for
    <r,x> + a is a fair bit (but for r = 0; no question of round 1 reads y where b = 0).
    """
    each = np.full((*masks.shape, 4), 1 / 4)
    each[:, :, 2] = (masks == 0) / 2
    each[:, :, 3] = (masks == 1) / 2
    weights: NDArray[np.float64] = each.reshape(len(masks), -1) / masks.shape[1]
    return weights


def least_users(round_one: RoundOne, effort: Effort) -> Measured:
    """Bisects, on the logarithm of the group's size, for a failure rate of at most BETA.

    The failure rate falls about as exp(-n I); its slope is taken from one more probe, at 4/5 of n.
    """
    began = time.perf_counter()
    allowed = int(BETA * effort.trials)
    kept: dict[int, int] = {}

    def enough(users: int) -> bool:
        kept[users] = round_one.failures(users, effort.trials, allowed)
        return kept[users] <= allowed

    high = round_one.plan.groups[0].users
    while not enough(high):  # the planner's size is an upper bound: one probe
        high *= 2
    low = max(high // 2, 1)
    while low > 1 and enough(low):
        high, low = low, max(low // 2, 1)
    while high > effort.step * low and high - low > 1:
        middle = round(sqrt(low * high))
        middle = min(max(middle, low + 1), high - 1)
        if enough(middle):
            high = middle
        else:
            low = middle
    fewer = max(4 * high // 5, 1)
    more_failures = round_one.failures(fewer, effort.trials, effort.trials)
    slope = log(max(more_failures, 1) / max(kept[high], 1)) / log(high / fewer)
    return Measured(
        users=high * round_one.groups,
        failure_rate=kept[high] / effort.trials,
        trials=effort.trials,
        error=1 / sqrt(max(kept[high], 1)) / max(slope, 1.0),
        seconds=time.perf_counter() - began,
    )


def compare(epsilon: str, d: int, effort: Effort) -> Row:
    """Both schemes at one eps and d."""
    ours, printed = RoundOne(OURS, d, epsilon), RoundOne(PRINTED, d, epsilon)
    measured_ours, measured_printed = least_users(ours, effort), least_users(printed, effort)
    return Row(
        epsilon=epsilon,
        d=d,
        planned_ours=ours.plan.users,
        planned_printed=printed.plan.users,
        planned_ratio=printed.plan.users / ours.plan.users,
        measured_ours=measured_ours,
        measured_printed=measured_printed,
        measured_ratio=measured_printed.users / measured_ours.users,
    )


def rows(epsilons: Sequence[str], ds: Sequence[int], effort: Effort) -> Iterator[Row]:
    """All comparisons in order, each told of on stderr as it is done."""
    for epsilon in epsilons:
        for d in ds:
            row = compare(epsilon, d, effort)
            spent = row.measured_ours.seconds + row.measured_printed.seconds
            print(f"eps {epsilon}, d {d}: {spent:.0f} s", file=sys.stderr, flush=True)
            yield row


def story(table: Sequence[Row]) -> dict[str, Any]:
    """What `--json` prints."""
    claimed = [row for row in table if row.epsilon == CLAIMED_EPSILON]
    return {
        "beta": BETA,
        "claim": f"at eps = {CLAIMED_EPSILON} printed / ours >= {CLAIM} d",
        "holds": all(row.holds for row in claimed) if claimed else None,
        "rows": [
            asdict(row)
            | {
                "planned_over_claim": row.planned_ratio / (CLAIM * row.d),
                "measured_over_claim": row.measured_ratio / (CLAIM * row.d),
            }
            for row in table
        ],
    }


def _show(table: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Users of round 1 for at most 1 % failure")
    for name in ("eps", "d", "plan: ours", "printed", "ratio", "/ 0.35 d"):
        shown.add_column(name, justify="right")
    for name in ("measured: ours", "printed", "ratio", "/ 0.35 d"):
        shown.add_column(name, justify="right")
    for row in table:
        claim = CLAIM * row.d
        shown.add_row(
            row.epsilon,
            str(row.d),
            f"{row.planned_ours:,}",
            f"{row.planned_printed:,}",
            f"{row.planned_ratio:.2f}",
            f"{row.planned_ratio / claim:.2f}",
            f"{row.measured_ours.users:,} ±{row.measured_ours.error:.1%}",
            f"{row.measured_printed.users:,} ±{row.measured_printed.error:.1%}",
            f"{row.measured_ratio:.2f}",
            f"{row.measured_ratio / claim:.2f}",
        )
    Console(width=130).print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="eps 1, d 8 and 16, few trials")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--d", type=int, nargs="+", metavar="D")
    parser.add_argument("--epsilon", nargs="+", metavar="E")
    parser.add_argument("--trials", type=int, metavar="N", help="a probe")
    given = parser.parse_args(arguments)
    effort = QUICK if given.quick else FULL
    if given.trials is not None:
        effort = Effort(given.trials, effort.step)
    epsilons = given.epsilon or ([CLAIMED_EPSILON] if given.quick else ["1", "2", "4"])
    table = list(rows(epsilons, given.d or ([8, 16] if given.quick else [8, 16, 32, 64]), effort))
    told = story(table)
    if given.json:
        print(json.dumps(told))
    else:
        _show(table)
        print(f"{told['claim']}: {told['holds']}; ± is one standard deviation of the simulation")
    return 1 if told["holds"] is False else 0


if __name__ == "__main__":
    sys.exit(main())
