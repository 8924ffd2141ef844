"""Rounds in waves: what they save, and that the stated error is kept.

A round's users are asked in W parts, and it ends at the first look that is exact enough. Devices
would take hours, so each wave's tally is drawn exactly in law (`askance_simulation.counts`); the
plan, the looks and the estimates are the system's own (`askance_aggregator.studies.waves`).

Truths are adversarial: besides shares near 0 and at 1/2, those at which a look is about to end the
round (half of the paths do). Failure is that any value is off by its tolerance or more.

    python benchmarks/waves.py [--quick] [--json] [--trials N] [--waves W]

Exit code 1: more failures than the stated error allows, at ALPHA = 1e-6.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from askance_aggregator.learners import Batch, Question
from askance_aggregator.planning import RoundPlan, RoundRules, plan_batch, prefixes
from askance_aggregator.queries import category, predicate
from askance_aggregator.studies import Tally
from askance_aggregator.studies.waves import Waves
from askance_client.accounting import parse_epsilon
from askance_client.messages import Request
from askance_client.queries import Integer, Schema
from askance_simulation.counts import sample_levels, sample_tally
from askance_simulation.randomness import Seed

ALPHA = 1e-6
BETA = 0.01
TRIALS, QUICK_TRIALS = 10_000, 500
TAU = Fraction(1, 50)
SHARES = (0.0, 0.02, 0.04, 0.055, 0.1, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class Case:
    """Question and population.

    Args:
        shares: of the levels (a predicate: no, yes).
    """

    name: str
    epsilon: str
    cells: int
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Measurements of a case.

    Args:
        at_once: users of the round in one wave, for the same error.
        planned: users of all waves.
        asked: users asked in the mean.
        asked_ratio: `asked` over `at_once`: below 1 is saved, above it lost.
        failures: trials in which a value was off by its tolerance or more.
        holds: whether so many are no reason to doubt that the chance is at most BETA.
    """

    name: str
    epsilon: str
    at_once: int
    planned: int
    asked: float
    asked_ratio: float
    failures: int
    trials: int
    holds: bool


def cases() -> Iterator[Case]:
    """Generate a predicate and ten cells, at epsilons small and large."""
    for epsilon, shares in (("1", (0.0, 0.5)), ("4", SHARES), ("8", SHARES)):
        for yes in shares:
            yield Case(f"predicate, {yes:g} at yes", epsilon, 2, (1 - yes, yes))
    for epsilon in ("1", "4", "8"):
        yield Case("10 cells, one has .95", epsilon, 10, (0.95, *(0.05 / 9,) * 9))
    yield Case("10 cells, one has .5", "8", 10, (0.5, *(0.5 / 9,) * 9))


def measured(case: Case, waves: int, trials: int) -> Row:
    """Run a case's rounds."""
    schema = Schema("waves", 1, n=Integer(0, max(case.cells - 1, 1)))
    query = predicate(schema["n"] == 1) if case.cells == 2 else category(schema["n"])
    batch = Batch([Question(query, tau=TAU)])
    values = batch.questions[0].values
    nano = parse_epsilon(case.epsilon)
    planned = plan_batch(batch, nano, BETA / values, rules=RoundRules(waves=waves))
    at_once = plan_batch(batch, nano, BETA / values).users
    seed = Seed.of(0) / case.name / case.epsilon / waves
    rng = np.random.default_rng(int.from_bytes(seed.key, "big"))
    tallies, sizes = _tallies(planned, case.shares, rng, trials)
    truth = np.array(case.shares[-1:] if values == 1 else case.shares)
    asked, failures = 0, 0
    for trial in range(trials):
        users, found = _asked(batch, planned, tallies[:, trial], sizes)
        asked += users
        failures += bool((np.abs(found - truth) >= float(TAU)).any())
    return Row(
        name=case.name,
        epsilon=case.epsilon,
        at_once=at_once,
        planned=planned.users,
        asked=asked / trials,
        asked_ratio=asked / trials / at_once,
        failures=failures,
        trials=trials,
        holds=bool(binom.sf(failures - 1, trials, BETA) > ALPHA),
    )


def _tallies(
    planned: RoundPlan, shares: Sequence[float], rng: np.random.Generator, trials: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Draw the waves' tallies for every trial, and return them with the waves' sizes."""
    (group,) = planned.groups
    ends = prefixes(group.users, planned.waves)
    sizes = [end - before for end, before in zip(ends, (0, *ends), strict=False)]
    drawn = [
        sample_tally(group.randomizer, sample_levels(shares, size, rng, trials), rng, trials)
        for size in sizes
    ]
    return np.stack(drawn), sizes


def _asked(
    batch: Batch, planned: RoundPlan, tallies: NDArray[np.int64], sizes: Sequence[int]
) -> tuple[int, NDArray[np.float64]]:
    """Return one round's number of users and its values."""
    waves = Waves(batch, planned, BETA / batch.values)
    (question,) = batch.questions
    request = Request(bytes(32), 0, 0, question.query, planned.groups[0].randomizer)
    users = 0
    for counts, size in zip(tallies, sizes, strict=True):
        waves.add([0], [request], [Tally(tuple(map(int, counts)), size, size, bytes(32))])
        users += size
        if waves.done:
            break
    (answer,) = waves.answers(0.05)
    return users, np.array(answer.values)


def _show(rows: Sequence[Row], waves: int) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"A round in {waves} waves, tau {float(TAU):g}, beta {BETA:g}"
    shown = Table(title=title)
    for head in ("question", "eps", "at once", "planned", "asked", "/ at once", "failures"):
        shown.add_column(head, justify="left" if head == "question" else "right")
    for row in rows:
        shown.add_row(
            row.name,
            row.epsilon,
            f"{row.at_once:,}",
            f"{row.planned:,}",
            f"{row.asked:,.0f}",
            f"{row.asked_ratio:.2f}",
            f"{row.failures} of {row.trials:,}",
        )
    Console(width=110).print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TRIALS} trials a case")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--trials", type=int, metavar="N", help="a case")
    parser.add_argument("--waves", type=int, default=4, metavar="W", help="default 4")
    given = parser.parse_args(arguments)
    trials = given.trials or (QUICK_TRIALS if given.quick else TRIALS)
    rows = [measured(case, given.waves, trials) for case in cases()]
    holds = all(row.holds for row in rows)
    if given.json:
        told = {"waves": given.waves, "beta": BETA, "tau": float(TAU), "holds": holds}
        print(json.dumps(told | {"rows": [asdict(row) for row in rows]}))
    else:
        _show(rows, given.waves)
        print(f"the stated error is kept: {holds}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
