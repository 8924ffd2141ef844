"""`askance verify`."""

from __future__ import annotations

import argparse
from typing import Any

from askance.simulation.cli.output import print_json, screen

NAME = "verify"
SUMMARY = "every randomizer's exact privacy loss against epsilon, by integers"
DESCRIPTION = (
    "Makes every randomizer at every epsilon and compares its exact privacy loss, in integers, "
    "with what it may cost. Exits with 1 when one costs more."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which epsilons."""
    parser.add_argument(
        "--epsilon",
        action="append",
        metavar="E",
        help="an epsilon in nats; may be repeated (default: a range from 0.01 to 20)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints."""
    import askance.api as ask

    checks = list(ask.verify(arguments.epsilon) if arguments.epsilon else ask.verify())
    violations = sum(not check.holds for check in checks)
    if arguments.json:
        print_json({"checked": [check.to_json() for check in checks], "violations": violations})
    else:
        _tell([check.to_json() for check in checks], violations)
    return 1 if violations else 0


def _tell(rows: list[dict[str, Any]], violations: int) -> None:
    from rich.table import Table

    console = screen()
    table = Table(box=None, padding=(0, 2))
    for head in ("randomizer", "epsilon", "exact loss", "charge in nano-nats", "verdict"):
        table.add_column(head, justify="left" if head in ("randomizer", "verdict") else "right")
    for row in rows:
        if "refused" in row:
            table.add_row(row["randomizer"], f"{row['epsilon']:g}", "-", "-", "refused")
            continue
        verdict = "holds, tight" if row["tight"] else "holds"
        table.add_row(
            row["randomizer"],
            f"{row['epsilon']:g}",
            f"{row['privacy_loss']:.12g}",
            f"{row['nano_nats']:,}",
            verdict if row["holds"] else "[red]VIOLATED[/red]",
        )
    console.print(table)
    console.print(f"{len(rows)} checked, {violations} violations")
