"""Users of both rounds of MASKED-PARITY: with a list of masks, with one mask, and as printed.

For every eps and d: what the planner asks for, and the least number that was measured to fail at
most once in a hundred. With a list both rounds are scaled together, as the plan divides them. Round
1 is drawn as tallies, exactly in law (`masked_parity_laws`); round 2 is integrated exactly where
each user answers about one candidate, and drawn as tallies elsewhere. Of one mask, and as printed,
what is measured is round 1 alone (`masked_parity_users`), to which the planned users of round 2 are
added.

    python benchmarks/masked_parity_lists.py [--d 8 16] [--epsilon 1] [--trials 4000] [--json]

Exit code 1: at eps = 1 and some d >= 16 the list takes more than .55 of the users of one mask,
planned or measured, or its plan fails more often than once in a hundred.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from masked_parity_laws import BETA, Floats, Masks, Ours, Printed, _plus_counts
from masked_parity_users import QUICK, least_users
from numpy.typing import NDArray

from askance_aggregator.families import HypercubeFamily
from askance_aggregator.learners import masked_parity, masked_parity_schema
from askance_aggregator.learners.masked_parity import likely_patterns
from askance_aggregator.planning import RoundPlan, StudyPlan, plan
from askance_aggregator.studies.study import Study
from askance_client.accounting import parse_epsilon
from askance_client.randomizers import HadamardSign, HypercubeResponse, SignedSubsetSelection
from askance_papers.reproduce.klnrs08.masked_parity import scaled, second_values
from askance_simulation.counts import sample_levels, sample_signed_sets, sample_tally
from askance_simulation.randomness import Seed

CLAIM = 0.55  # users of the list over those of one mask, at most, at eps = 1 and d >= 16
CLAIMED_FROM = 16
EPSILONS, DIMENSIONS = ("1", "2", "4"), (8, 16, 32, 64, 128, 256)
STEP = 1.02  # the search ends when its bracket's ends are this factor apart
COINS = 50  # draws of the signs of strays, per draw of the sets that they are in
AT_ONCE = 500  # trials of a batch
CLEAR = 4.0  # standard errors from BETA at which a probe ends


@dataclass(frozen=True, slots=True)
class Failures:
    """Failure of both rounds.

    Args:
        absent: the chance that the list lacks the mask.
        wrong: the chance that round 2 chooses another one from a list that has it.
        error: one standard deviation of their sum.
    """

    absent: float
    wrong: float
    error: float

    @property
    def rate(self) -> float:
        """Chance of a failure, of either round."""
        return self.absent + self.wrong


@dataclass(frozen=True, slots=True)
class Row:
    """Comparison at one eps and d; users of both rounds.

    Args:
        as_planned: the failure of the list at its planned users.
        candidates: number of masks on the list, the planner's choice.
    """

    epsilon: str
    d: int
    candidates: int
    randomizers: tuple[str, ...]
    planned_list: int
    planned_one: int
    planned_printed: int
    measured_list: int
    measured_one: int
    measured_printed: int
    as_planned: Failures

    @property
    def planned_ratio(self) -> float:
        """Planned users, the list over one mask."""
        return self.planned_list / self.planned_one

    @property
    def measured_ratio(self) -> float:
        """Measured users, the list over one mask."""
        return self.measured_list / self.measured_one

    @property
    def holds(self) -> bool:
        """True if the plan keeps its beta, and the ratios are as claimed."""
        kept = self.as_planned.rate <= BETA + 5 * self.as_planned.error
        claimed = self.epsilon == "1" and self.d >= CLAIMED_FROM
        return kept and (not claimed or max(self.planned_ratio, self.measured_ratio) <= CLAIM)


class Listed:
    """Both rounds with the list that a study takes."""

    def __init__(self, d: int, epsilon: str) -> None:
        learner = masked_parity(masked_parity_schema(d))
        study = Study(learner, epsilon=epsilon, beta=str(BETA))
        self.name, self.d = f"listed {d} {epsilon}", d
        self.candidates = int(study.learner.parameters["candidates"])
        self.plan: StudyPlan = study.plan()
        self._first = Ours(d, epsilon)
        self._first.randomizer = self.plan.rounds[0].groups[0].randomizer

    def failure(self, scale: float, trials: int) -> Failures:
        """Estimate the failure with this part of the planned users, until it is clear of BETA."""
        seed = Seed.of(0) / self.name / round(1e6 * scale)
        rng = np.random.default_rng(int.from_bytes(seed.key, "big"))
        first, second = (scaled(round_, scale) for round_ in self.plan.rounds)
        exact = _one_of_each(second)
        seen: list[float] = []
        absent = 0
        while len(seen) < trials:
            masks = rng.integers(0, 2, (min(AT_ONCE, trials), self.d))
            owners, points = self._points(first.users, masks, rng)
            for mask, point in zip(owners, points, strict=True):
                listed = before(point, mask, self.candidates) < self.candidates
                absent += not listed
                wrong = exact if exact is not None else 0.0
                if listed and exact is None:
                    wrong = self._wrong(second, point, mask, rng)
                seen.append(wrong if listed else 1.0)
            rate, error = float(np.mean(seen)), float(np.std(seen, ddof=1)) / sqrt(len(seen))
            if abs(rate - BETA) > CLEAR * error + 1e-4:
                break
        return Failures(absent / len(seen), rate - absent / len(seen), error)

    def _points(
        self, users: int, masks: Masks, rng: np.random.Generator
    ) -> tuple[Masks, NDArray[np.int64]]:
        """Draw, per mask, reports that point to + less those to -; of few masks several times."""
        law, trials = self._first.law(masks), len(masks)
        randomizer = self._first.randomizer
        if isinstance(randomizer, HadamardSign):
            return masks, 2 * _plus_counts(randomizer, law, users, rng) - users
        if isinstance(randomizer, SignedSubsetSelection):
            few = max(trials // COINS, 1)
            counts = sample_levels(law[:few], users, rng, few)
            bound, strays = sample_signed_sets(randomizer, counts, rng, few)
            owners, strays = np.repeat(masks[:few], COINS, axis=0), np.repeat(strays, COINS, axis=0)
            bound = np.repeat(bound[:, 0::2] - bound[:, 1::2], COINS, axis=0)
            return owners, bound + 2 * rng.binomial(strays, 0.5) - strays
        counts = sample_levels(law, users, rng, trials)
        tally = sample_tally(randomizer, counts, rng, trials)
        return masks, tally[:, : 2 * self.d : 2] - tally[:, 1 : 2 * self.d : 2]

    def _wrong(
        self, second: RoundPlan, point: NDArray[np.int64], mask: Masks, rng: np.random.Generator
    ) -> float:
        """Return 1.0 if round 2 chooses wrongly, by tallies, else 0.0."""
        listed, r = likely_patterns(point.tolist(), self.candidates), tuple(mask.tolist())
        if r not in listed:  # a tie that `before` counted for the truth
            return 1.0
        values = second_values(second, listed, r, 0, rng)
        place = max(range(len(values)), key=lambda one: abs(values[one]))
        return float(listed[place] != r or values[place] < 0)


def before(point: NDArray[np.int64], mask: Masks, most: int) -> int:
    """Count the patterns that rank before a mask or tie with it, up to `most`."""
    sizes = np.abs(point)
    wrong = int(sizes[(point < 0) != (mask == 1)].sum())
    sums = np.zeros(1, dtype=np.int64)
    for size in np.sort(sizes[sizes <= wrong]):
        more = sums + size
        sums = np.concatenate([sums, more[more <= wrong]])
        if len(sums) > most:
            return most
    return len(sums) - 1


def _one_of_each(second: RoundPlan) -> float | None:
    """Integrate the failure of round 2 exactly, where each group has one candidate.

    The right candidate's reports point to + with the chance (1 + m / 2) / 2, every other's with
    1 / 2, m the agreement of the response; the groups are independent. A tie counts as a failure.

    Returns:
        None where users answer about several candidates.
    """
    from scipy.stats import binom  # slow to import, and only needed here

    group = second.groups[0]
    if not isinstance(group.randomizer, HypercubeResponse) or group.randomizer.components > 1:
        return None
    users, others = group.users, len(second.groups) - 1
    agreement = HypercubeFamily(group.randomizer).agreement
    plus = np.arange(users + 1)
    one = binom.pmf(plus, users, float((1 + agreement * Fraction(1, 2)) / 2))
    excess = 2 * plus - users
    nearer: Floats = binom.cdf((users + excess - 1) // 2, users, 0.5) - binom.cdf(
        (users - excess) // 2, users, 0.5
    )
    right = np.where(excess > 0, np.clip(nearer, 0, 1) ** others, 0.0)
    return float(1 - (one * right).sum())


def least_scale(scheme: Listed, trials: int) -> float:
    """Bisect for the least part of the planned users that fails in at most BETA."""
    low, high = 0.5, 1.0
    while high > STEP * low:
        middle = sqrt(low * high)
        if scheme.failure(middle, trials).rate <= BETA:
            high = middle
        else:
            low = middle
    return high


def compare(epsilon: str, d: int, trials: int) -> Row:
    """Compare the three schemes at one eps and d."""
    listed = Listed(d, epsilon)
    one, printed = (
        plan(
            masked_parity(masked_parity_schema(d), variant, candidates=1),
            parse_epsilon(epsilon),
            BETA,
        )
        for variant in ("signed", "printed")
    )
    measured_one = least_users(Ours(d, epsilon), QUICK).users + one.rounds[1].users
    measured_printed = least_users(Printed(d, epsilon), QUICK).users + printed.rounds[1].users
    return Row(
        epsilon=epsilon,
        d=d,
        candidates=listed.candidates,
        randomizers=tuple(name for round_ in listed.plan.rounds for name in round_.randomizers),
        planned_list=listed.plan.users_needed,
        planned_one=one.users_needed,
        planned_printed=printed.users_needed,
        measured_list=round(least_scale(listed, trials) * listed.plan.users_needed),
        measured_one=measured_one,
        measured_printed=measured_printed,
        as_planned=listed.failure(1.0, trials),
    )


def rows(epsilons: Sequence[str], ds: Sequence[int], trials: int) -> Iterator[Row]:
    """Generate all comparisons in order."""
    for epsilon in epsilons:
        for d in ds:
            yield compare(epsilon, d, trials)


def show(row: Row) -> None:
    """Print one line."""
    failed = row.as_planned
    print(
        f"eps {row.epsilon}, d {row.d}, {row.candidates} masks, {' + '.join(row.randomizers)}:"
        f" planned {row.planned_list:,} / {row.planned_one:,} / {row.planned_printed:,}"
        f" ({row.planned_ratio:.3f}), measured {row.measured_list:,} / {row.measured_one:,} /"
        f" {row.measured_printed:,} ({row.measured_ratio:.3f}); as planned"
        f" {failed.absent:.4f} + {failed.wrong:.4f} fail; {'holds' if row.holds else 'NO'}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--d", type=int, nargs="+", metavar="D", default=list(DIMENSIONS))
    parser.add_argument("--epsilon", nargs="+", metavar="E", default=list(EPSILONS))
    parser.add_argument("--trials", type=int, metavar="N", default=4000, help="a probe, at most")
    given = parser.parse_args(arguments)
    table = []
    for row in rows(given.epsilon, given.d, given.trials):
        table.append(row)
        if not given.json:
            show(row)
    holds = all(row.holds for row in table)
    if given.json:
        print(
            json.dumps(
                {
                    "holds": holds,
                    "rows": [
                        asdict(row)
                        | {
                            "planned_ratio": row.planned_ratio,
                            "measured_ratio": row.measured_ratio,
                            "holds": row.holds,
                        }
                        for row in table
                    ],
                }
            )
        )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
