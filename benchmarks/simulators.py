"""Users simulated per second: our fleets beside other simulators, on the same questions.

Questions, with eps = 1: the share of each of 2 to 16,384 cells, the mean of numbers in [-1, 1],
and of vectors of 100 of them. Each figure is a whole question: randomized, aggregated and decoded;
imports and the making of data excluded. Ours is a whole study, so planning, signatures, accounts
and the transcript are in it. Peers live in environments of their own (`peers_environments.py` says
how they are made) and are timed inside them, one after the other:

    python benchmarks/simulators.py --peers ENVS [--only QUESTION ...] [--quick] [--json]

Rates are compared, so that slow simulators have fewer users. Some of what is fast is not as exact
(k-ary response over 1,024 cells needs a hundred times the users); so the error stands beside, as
n x MSE of a share or component, which does not depend on the number of users. A ratio is ours over
the fastest peer whose n x MSE is at most 1.25 times ours, or not measurably more than that.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers.questions import EFFORTS, EPS, QUESTIONS, averaged, parts_for
from peers_environments import Skipped, run_peers

import askance as ask

PEERS = ("pure_ldp", "multi_freq_ldpy", "opendp", "diffprivlib", "pfl", "flower")
FLEETS = ("columns", "objects")
USERS = {  # (fleet, components of a user): how many
    "full": {
        ("columns", 1): 10_000_000,
        ("columns", 100): 1_000_000,
        ("objects", 1): 20_000,
        ("objects", 100): 5_000,
    },
    "quick": {
        ("columns", 1): 100_000,
        ("columns", 100): 2_000,
        ("objects", 1): 200,
        ("objects", 100): 200,
    },
}
ROUNDS = 3
JUDGED = 1_000  # users of each study whose error is averaged
SAME_ERROR = 1.25  # n x MSE over ours, at most
SURE = 2.0  # standard errors by which a greater n x MSE exceeds that


@dataclass(frozen=True, slots=True)
class Row:
    """Speed of one simulator on one question.

    Args:
      whose: "askance" or a folder under `benchmarks/peers`.
      version: as installed.
      question: the name in `peers.questions`.
      protocol: how; ours is a fleet and the randomizer that was planned.
      users: how many answered.
      seconds: the best round of all these.
      n_mse: users times the mean squared error of a share or component, about their own truth.
      n_mse_se: its standard error.
    """

    whose: str
    version: str
    question: str
    protocol: str
    users: int
    seconds: float
    n_mse: float
    n_mse_se: float

    @property
    def per_s(self) -> float:
        """Users a second."""
        return self.users / self.seconds


@dataclass(frozen=True, slots=True)
class Ratio:
    """Users per second of one of our fleets over those of the best peer with the same error."""

    question: str
    fleet: str
    peer: str
    protocol: str
    ratio: float


def ours(question: str, effort: str, fleets: Sequence[str]) -> list[Row]:
    """Run whole studies on our fleets, the best of three.

    The error is that of many small studies in columns: with the same seed, every fleet gives the
    same reports.
    """
    n_mse = _judged(question, EFFORTS[effort].degrees)
    components = QUESTIONS[question].values if QUESTIONS[question].mean else 1
    rows = []
    for fleet in fleets:
        users = USERS[effort][fleet, components]
        population, study, _ = _asked(question, users)
        best = float("inf")
        for seed in range(ROUNDS):
            (trial,) = ask.simulate(study, population, fleet=fleet, seed=seed).trials
            best = min(best, trial.seconds)
        (planned,) = study.plan(users).to_json()["rounds"]
        how = f"{fleet}, {planned['randomizer']}"
        rows.append(Row("askance", ask.__version__, question, how, users, best, *n_mse))
    return rows


def _judged(question: str, degrees: int) -> tuple[float, float]:
    """Return n x MSE, and its standard error."""
    population, study, truth = _asked(question, JUDGED)
    trials = parts_for(QUESTIONS[question], degrees * JUDGED, degrees)
    studies = ask.simulate(study, population, fleet="columns", seed=ROUNDS, trials=trials)
    squares = [
        JUDGED * float(np.square(_estimates(trial.outcome.hypothesis) - truth).mean())
        for trial in studies.trials
    ]
    return averaged(QUESTIONS[question], squares)


def _asked(question: str, users: int) -> tuple[ask.Population, ask.Study, Any]:
    """Return all users, the study of them, and what is true of them."""
    asked = QUESTIONS[question]
    records = asked.drawn(users)
    names = [f"x{place}" for place in range(asked.values)]
    learner: Any
    if not asked.mean:
        schema = ask.Schema(question, 1, cell=ask.Category(names))
        learner = ask.learners.frequency(schema.cell)
        columns = {"cell": np.array(names)[records]}
    else:
        schema = ask.Schema(question, 1, **{name: ask.Real(-1, 1) for name in names})
        columns = dict(zip(names, records.reshape(users, -1).T, strict=True))
        if asked.values == 1:
            learner = ask.learners.mean(schema.x0, missing="default")
        else:
            learner = ask.learners.mean_vector(schema, missing="default")
    people = ask.Population.from_columns(schema, columns)
    return people, ask.Study(learner, schema, epsilon=EPS), asked.truth(records)


def _estimates(hypothesis: Any) -> Any:
    """Return the raw estimates: one, or one per cell or component."""
    found = hypothesis.to_json()
    if "estimate" in found:
        return np.array([found["estimate"]])
    return np.array([part["estimate"] for part in found.get("means", found).values()])


def rows_of(
    questions: Sequence[str],
    environments: Path | None,
    effort: str,
    fleets: Sequence[str] = FLEETS,
) -> tuple[list[Row], list[Skipped]]:
    """Measure our fleets, then all peers.

    A peer that is absent, or that has nothing for a question, is skipped with the reason.
    """
    rows = [row for question in questions for row in ours(question, effort, fleets)]
    ran, skipped = run_peers("speed", PEERS, environments, effort, questions)
    rows += [Row(whose=one.peer, version=one.version, **row) for one in ran for row in one.rows]
    for one in ran:
        lacks = [name for name in questions if all(row["question"] != name for row in one.rows)]
        if lacks:
            skipped.append(Skipped(one.peer, f"no local mechanism for {', '.join(lacks)}"))
    return rows, skipped


def same_error(own: Row, peer: Row) -> bool:
    """Return whether a peer's error is like ours: doubt is in favour of the peer."""
    most, doubt = SAME_ERROR * own.n_mse, math.hypot(SAME_ERROR * own.n_mse_se, peer.n_mse_se)
    return peer.n_mse <= most + SURE * doubt


def ratios(table: Sequence[Row]) -> list[Ratio]:
    """Compute the ratio of each of our rows to the best peer's; without such a peer, none."""
    found = []
    for own in table:
        if own.whose != "askance":
            continue
        peers = [
            row
            for row in table
            if row.whose != "askance" and row.question == own.question and same_error(own, row)
        ]
        if peers:
            best = max(peers, key=lambda row: row.per_s)
            fleet = own.protocol.split(",")[0]
            times = own.per_s / best.per_s
            found.append(Ratio(own.question, fleet, best.whose, best.protocol, times))
    return found


def _show(table: Sequence[Row], found: Sequence[Ratio]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Users a second, simulated, and n x MSE of a share or component")
    for name in ("question", "whose", "how", "users", "users/s", "n x MSE"):
        left = name in ("question", "whose", "how")
        shown.add_column(name, justify="left" if left else "right", no_wrap=not left)
    order = list(QUESTIONS)
    for row in sorted(table, key=lambda row: (order.index(row.question), -row.per_s)):
        shown.add_row(
            row.question,
            f"{row.whose} {row.version}",
            row.protocol,
            f"{row.users:,}",
            f"{row.per_s:,.0f}",
            f"{row.n_mse:.4g} ± {row.n_mse_se:.1g}",
        )
    console = Console(width=130)
    console.print(shown)
    for one in found:
        console.print(
            f"{one.question}: {one.fleet} is {one.ratio:,.3g} times the best peer with the same"
            f" error, {one.peer} by {one.protocol}"
        )
    for name in dict.fromkeys(row.question for row in table):
        if all(one.question != name for one in found):
            console.print(f"{name}: no peer with the same error")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few users")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="an environment a peer")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    given = parser.parse_args(arguments)
    effort = "quick" if given.quick else "full"
    table, skipped = rows_of(given.only, given.peers, effort)
    found = ratios(table)
    if given.json:
        told = {
            "rows": [asdict(row) | {"per_s": row.per_s} for row in table],
            "ratios": [asdict(one) for one in found],
            "skipped": [asdict(one) for one in skipped],
        }
        print(json.dumps(told))
        return 0
    _show(table, found)
    for one in skipped:
        print(f"{one.peer} was left out: {one.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
