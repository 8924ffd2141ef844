"""`askance verify`."""

from __future__ import annotations

import argparse
from typing import Any

from askance.cli.arguments import count
from askance.cli.output import Failure, counted, print_json, screen
from askance.cli.tables import table

NAME = "verify"
SUMMARY = "compare every randomizer's exact privacy loss with epsilon, by integers"
DESCRIPTION = (
    "Makes every randomizer at every epsilon and compares its exact privacy loss, in integers, "
    "with its epsilon. With --audit, asks devices instead and searches the bytes of their reports "
    "for losses. Exits with 1 when a loss is greater, or an audit raises an alarm."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the epsilons, and of exact or statistical checks."""
    parser.add_argument(
        "--epsilon",
        action="append",
        metavar="E",
        help="an epsilon in nats; may be repeated (default: a range from 0.01 to 20; of audits"
        " 1 and 4)",
    )
    parser.add_argument(
        "--audit",
        action="store_true",
        help="bound losses from below by the serialised reports of real devices",
    )
    parser.add_argument(
        "--reports",
        type=count,
        metavar="N",
        help="with --audit: reports of each record that is asked (default: 2,500)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check or audit, and print."""
    if arguments.audit:
        return _audit(arguments)
    if arguments.reports is not None:
        raise Failure(2, "usage", "--reports goes with --audit")
    import askance as ask

    checks = list(ask.verify(arguments.epsilon) if arguments.epsilon else ask.verify())
    violations = sum(not check.holds for check in checks)
    if arguments.json:
        print_json({"checked": [check.to_json() for check in checks], "violations": violations})
    else:
        _tell([check.to_json() for check in checks], violations)
    return 1 if violations else 0


def _audit(arguments: argparse.Namespace) -> int:
    import askance as ask

    audits = list(ask.audit(arguments.epsilon or (), reports=arguments.reports))
    rows = [audit.to_json() for audit in audits]
    alarms = sum(len(audit.alarms) for audit in audits)
    if arguments.json:
        print_json({"audited": rows, "alarms": alarms})
    else:
        _tell_audits(rows, alarms)
    return 1 if alarms else 0


def _tell_audits(rows: list[dict[str, Any]], alarms: int) -> None:
    from rich.markup import escape

    console = screen()
    heads = ["randomizer", "epsilon", "loss at least", "found if over", "reports", "events"]
    audits = table([*heads, "alarms"], left=("randomizer", "alarms"))
    for row in rows:
        if "refused" in row:
            audits.add_row(row["randomizer"], f"{row['epsilon']:g}", *"----", "refused")
            continue
        worst = row["pairs"][0]
        audits.add_row(
            row["randomizer"],
            f"{row['epsilon']:g}",
            _nats(row["loss_at_least"]),
            _nats(worst["detectable"]),
            f"{row['reports']:,}",
            str(sum(pair["events"] for pair in row["pairs"])),
            f"[red]{counted(len(row['alarms']), 'alarm')}[/red]" if row["alarms"] else "none",
        )
    console.print(audits)
    for row in rows:
        for alarm in row["alarms"]:
            console.print(f"{row['randomizer']}, epsilon {row['epsilon']:g}: {escape(alarm)}")
    console.print(
        f"{len(rows)} audited, {counted(alarms, 'alarm')}. The absence of an alarm is no proof;"
        " askance verify is."
    )


def _nats(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


def _tell(rows: list[dict[str, Any]], violations: int) -> None:
    console = screen()
    heads = ["randomizer", "epsilon", "exact loss", "charge in nano-nats", "claim"]
    losses = table(heads, left=("randomizer", "claim"))
    for row in rows:
        if "refused" in row:
            losses.add_row(row["randomizer"], f"{row['epsilon']:g}", "-", "-", "refused")
            continue
        claim = "holds, tight" if row["tight"] else "holds"
        losses.add_row(
            row["randomizer"],
            f"{row['epsilon']:g}",
            f"{row['privacy_loss']:.12g}",
            f"{row['nano_nats']:,}",
            claim if row["holds"] else "[red]VIOLATED[/red]",
        )
    console.print(losses)
    console.print(f"{len(rows)} checked, {violations} violations")
