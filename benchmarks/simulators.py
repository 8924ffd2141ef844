"""Users simulated per second: our fleets beside other simulators, on the same question.

Two questions: one predicate, and the share of each of 1,024 cells; eps = 1, and the same users for
all simulators. Each figure is a whole question: randomized, aggregated and decoded; the best of
three rounds, imports and the making of data excluded. Ours is a whole study, so planning,
signatures, accounts and the transcript are in it. Peers live in environments of their own
(`peers_environments.py` says how they are made) and are timed inside them, one after the other:

    python benchmarks/simulators.py --peers ENVS [--quick] [--json]

Peers say how they did it: some of what is fast is not as exact (k-ary response over 1,024 cells
needs a hundred times the users), so the greatest error of a share stands beside each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers.measuring import CELLS, ROUNDS, bits, cells, shares
from peers_environments import run_peers

import askance as ask

PEERS = ("pure_ldp", "multi_freq_ldpy", "opendp", "diffprivlib", "pfl", "flower")
EPS = 1
USERS = {  # (fleet, question): how many
    "full": {
        ("columns", "predicate"): 10_000_000,
        ("columns", "frequency"): 500_000,
        ("objects", "predicate"): 20_000,
        ("objects", "frequency"): 1_000,
    },
    "quick": {
        ("columns", "predicate"): 100_000,
        ("columns", "frequency"): 2_000,
        ("objects", "predicate"): 200,
        ("objects", "frequency"): 20,
    },
}


@dataclass(frozen=True, slots=True)
class Row:
    """Speed of one simulator on one question.

    Args:
      whose: "askance" or a folder under `benchmarks/peers`.
      version: as installed.
      question: "predicate" or "frequency".
      protocol: how; ours is a fleet and the randomizer that was planned.
      users: how many answered.
      seconds: the best round of all these.
      error: the greatest distance of a share from the truth.
    """

    whose: str
    version: str
    question: str
    protocol: str
    users: int
    seconds: float
    error: float

    @property
    def per_s(self) -> float:
        """Users a second."""
        return self.users / self.seconds


@dataclass(frozen=True, slots=True)
class Ratio:
    """Users a second of one of our fleets over those of a peer, at one question."""

    question: str
    fleet: str
    peer: str
    protocol: str
    users: int
    ratio: float


def ours(fleet: str, question: str, users: int) -> Row:
    """Run a whole study on one of our fleets, the best of three."""
    population, study, truth = _predicate(users) if question == "predicate" else _frequency(users)
    best = float("inf")
    for seed in range(ROUNDS):
        (trial,) = ask.simulate(study, population, fleet=fleet, seed=seed).trials
        best = min(best, trial.seconds)
    (planned,) = study.plan(users).to_json()["rounds"]
    error = np.abs(_shares(trial.outcome.hypothesis) - truth).max()
    how = f"{fleet}, {planned['randomizer']}"
    return Row("askance", ask.__version__, question, how, users, best, float(error))


def _predicate(users: int) -> tuple[ask.Population, ask.Study, Any]:
    schema = ask.Schema("one bit", 1, yes=ask.Bit())
    values = bits(users)
    people = ask.Population.from_columns(schema, {"yes": values})
    return people, ask.Study(ask.learners.mean(schema.yes), schema, epsilon=EPS), values.mean()


def _frequency(users: int) -> tuple[ask.Population, ask.Study, Any]:
    names = [str(cell) for cell in range(CELLS)]
    schema = ask.Schema("cells", 1, cell=ask.Category(names))
    values = cells(users, CELLS)
    people = ask.Population.from_columns(schema, {"cell": np.array(names)[values]})
    study = ask.Study(ask.learners.frequency(schema.cell), schema, epsilon=EPS)
    return people, study, shares(values, CELLS)


def _shares(hypothesis: Any) -> Any:
    """Return the raw estimates: one, or one per cell."""
    found = hypothesis.to_json()
    if "estimate" in found:
        return np.array([found["estimate"]])
    return np.array([cell["estimate"] for cell in found.values()])


def ratios(table: Sequence[Row]) -> list[Ratio]:
    """Compute the ratio of each of our rows to each peer's at the same question."""
    mine = [row for row in table if row.whose == "askance"]
    return [
        Ratio(
            question=peer.question,
            fleet=own.protocol.split(",")[0],
            peer=peer.whose,
            protocol=peer.protocol,
            users=peer.users,
            ratio=own.per_s / peer.per_s,
        )
        for peer in table
        for own in mine
        if peer.whose != "askance" and peer.question == own.question
    ]


def _show(table: Sequence[Row], found: Sequence[Ratio]) -> None:
    from rich.console import Console
    from rich.table import Table

    by_row = {(r.question, r.peer, r.protocol, r.users, r.fleet): r.ratio for r in found}
    shown = Table(title="Users a second, simulated; and how many times as many ours are")
    for name in ("question", "whose", "how", "users", "users/s", "error", "columns", "objects"):
        left = name in ("question", "whose", "how")
        shown.add_column(name, justify="left" if left else "right", no_wrap=not left)
    for row in sorted(table, key=lambda row: (row.question != "predicate", -row.per_s)):
        key = (row.question, row.whose, row.protocol, row.users)
        times = [by_row.get((*key, fleet)) for fleet in ("columns", "objects")]
        shown.add_row(
            row.question,
            f"{row.whose} {row.version}",
            row.protocol,
            f"{row.users:,}",
            f"{row.per_s:,.0f}",
            f"{row.error:.2g}",
            *("" if one is None else f"{one:,.3g}x" for one in times),
        )
    Console(width=130).print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few users")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="an environment a peer")
    given = parser.parse_args(arguments)
    effort = "quick" if given.quick else "full"
    table = [ours(*which, users) for which, users in USERS[effort].items()]
    ran, skipped = run_peers("speed", PEERS, given.peers, effort)
    table += [Row(whose=one.peer, version=one.version, **row) for one in ran for row in one.rows]
    found = ratios(table)
    if given.json:
        rows = [asdict(row) | {"per_s": row.per_s} for row in table]
        told = {"rows": rows, "ratios": [asdict(r) for r in found]}
        print(json.dumps(told | {"skipped": [asdict(one) for one in skipped]}))
        return 0
    _show(table, found)
    for one in skipped:
        print(f"{one.peer} was left out: {one.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
