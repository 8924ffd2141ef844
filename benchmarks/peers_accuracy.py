"""Errors of the peers' local frequencies and means: n x MSE and bias, one row per protocol.

    python benchmarks/peers_accuracy.py --peers ENVS [--quick] [--json]

Errors are about the truth of the very users who answered, averaged over cells, so that the raw
rows are the conditional variance, which does not depend on who is in which cell. The bias is that
of an empty cell: raw estimates have none; what is clipped or renormalised has, and its
n x MSE depends on n. `peers_environments.py` says how ENVS is made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from peers_environments import Skipped, run_peers

PEERS = ("pure_ldp", "multi_freq_ldpy", "opendp", "diffprivlib")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of one protocol of one peer.

    Args:
      peer: its folder under `benchmarks/peers`.
      version: as installed.
      question: "frequency", or "mean" of numbers in [-1, 1].
      protocol: the peer's own name of it.
      estimate: "raw", or what the peer does to it.
      eps: nats a user.
      k: cells, None for a mean.
      n: users in each of the repetitions.
      n_mse: n times the mean squared error, averaged over cells; with its standard error.
      bias: the mean signed error of an empty cell, or of the mean; with its own.
    """

    peer: str
    version: str
    question: str
    protocol: str
    estimate: str
    eps: float
    k: int | None
    n: int
    repetitions: int
    n_mse: float
    n_mse_se: float
    bias: float
    bias_se: float


def peers_accuracy(
    environments: Path | None, effort: str = "full"
) -> tuple[list[Accuracy], list[Skipped]]:
    """Return the rows of all installed peers, and the absent ones.

    Args:
      environments: the folder with an environment a peer; None: all are absent.
      effort: "full" (minutes) or "quick" (few users, one epsilon, 16 cells).
    """
    ran, skipped = run_peers("accuracy", PEERS, environments, effort)
    rows = [Accuracy(peer=one.peer, version=one.version, **row) for one in ran for row in one.rows]
    return rows, skipped


def best(rows: Sequence[Accuracy], question: str, eps: float, k: int | None) -> Accuracy | None:
    """Return the raw estimate with the least n x MSE at that question; None: no peer has one."""
    raw = [
        row
        for row in rows
        if (row.question, row.estimate, row.eps, row.k) == (question, "raw", eps, k)
    ]
    return min(raw, key=lambda row: row.n_mse, default=None)


def _show(rows: Sequence[Accuracy]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="n x MSE, and the bias of an empty cell or of the mean")
    for name in ("peer", "protocol", "estimate", "eps", "k", "n", "n x MSE", "bias"):
        left = name in ("peer", "protocol", "estimate")
        table.add_column(name, justify="left" if left else "right", no_wrap=not left)
    for row in sorted(rows, key=lambda row: (row.question, row.k or 0, row.eps, row.n_mse)):
        table.add_row(
            row.peer,
            row.protocol,
            row.estimate,
            f"{row.eps:g}",
            "mean" if row.k is None else f"{row.k:,}",
            f"{row.n:,}",
            f"{row.n_mse:.4g} ± {row.n_mse_se:.2g}",
            f"{row.bias:+.2g} ± {row.bias_se:.1g}",
        )
    Console(width=120).print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few users, eps = 1, 16 cells")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="an environment a peer")
    given = parser.parse_args(arguments)
    rows, skipped = peers_accuracy(given.peers, "quick" if given.quick else "full")
    if given.json:
        told = {"rows": [asdict(r) for r in rows], "skipped": [asdict(s) for s in skipped]}
        print(json.dumps(told))
        return 0
    _show(rows)
    for one in skipped:
        print(f"{one.peer} was left out: {one.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
