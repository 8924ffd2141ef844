"""`askance verify`."""

from __future__ import annotations

import argparse
from typing import Any

from askance.cli.arguments import count
from askance.cli.output import Failure, print_result
from askance.cli.progress import counted_progress
from askance_aggregator.reports.report import CommandReport, Grid
from askance_aggregator.reports.texts import counted

NAME = "verify"
SUMMARY = "check that no randomizer loses more privacy than its epsilon"
DESCRIPTION = (
    "Makes every randomizer at every epsilon, and compares its exact privacy loss with the epsilon "
    "in integers. With --audit, asks simulated devices instead, and estimates the loss from the "
    "bytes that they send. Exits with 1 if a loss is greater, or an audit raises an alarm."
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
    parser.add_argument("--all", action="store_true", help="print a row per randomizer")


def run(arguments: argparse.Namespace) -> int:
    """Check or audit, and print."""
    if arguments.audit:
        return _audit(arguments)
    if arguments.reports is not None:
        raise Failure(2, "usage", "--reports goes with --audit")
    import askance as ask
    from askance_simulation.experiments.verification import DEFAULT_EPSILONS, FAMILIES

    epsilons = arguments.epsilon or DEFAULT_EPSILONS
    checks = []
    with counted_progress("checking", len(epsilons) * len(FAMILIES)) as show:
        for check in ask.verify(epsilons):
            checks.append(check)
            show(1, f"{check.randomizer}, epsilon {check.nano_budget / 10**9:g}")
    violations = sum(not check.holds for check in checks)
    rows = [check.to_json() for check in checks]
    print_result(
        arguments,
        {"checked": rows, "violations": violations},
        lambda: _check_report(rows, violations, every=arguments.all),
    )
    return 1 if violations else 0


def _audit(arguments: argparse.Namespace) -> int:
    import askance as ask
    from askance_simulation.audit import DEFAULT_EPSILONS, DEFAULT_REPORTS, subjects

    reports = arguments.reports or DEFAULT_REPORTS
    total = len(arguments.epsilon or DEFAULT_EPSILONS) * len(subjects()) * reports
    audits, rows = [], []
    with counted_progress("auditing", total, "reports/s of a record") as show:
        for audit in ask.audit(arguments.epsilon or (), reports=arguments.reports):
            audits.append(audit)
            rows.append(audit.to_json())
            show(reports, f"{rows[-1]['randomizer']}, epsilon {rows[-1]['epsilon']:g}")
    alarms = sum(len(audit.alarms) for audit in audits)
    content = {"audited": rows, "alarms": alarms}
    print_result(arguments, content, lambda: _audit_report(rows, alarms))
    return 1 if alarms else 0


def _audit_report(rows: list[dict[str, Any]], alarms: int) -> CommandReport:
    heads = ["randomizer", "epsilon", "loss at least", "found if over", "reports", "events"]
    audits = Grid([*heads, "alarms"], left=("randomizer", "alarms"))
    for row in rows:
        name = row["randomizer"]
        if "refused" in row:
            audits.add_row(name, f"{row['epsilon']:g}", *"----", "refused")
            continue
        worst = row["pairs"][0]
        audits.add_row(
            name,
            f"{row['epsilon']:g}",
            _nats(row["loss_at_least"]),
            _nats(worst["detectable"]),
            f"{row['reports']:,}",
            str(sum(pair["events"] for pair in row["pairs"])),
            counted(len(row["alarms"]), "alarm") if row["alarms"] else "none",
            alarm=bool(row["alarms"]),
        )
    told = [
        f"{row['randomizer']}, epsilon {row['epsilon']:g}: {alarm}"
        for row in rows
        for alarm in row["alarms"]
    ]
    return CommandReport(
        title="losses that the bytes of devices' reports show",
        body=[audits, *told],
        verdict=f"{len(rows)} audited, {counted(alarms, 'alarm')}.",
        warnings=["the absence of an alarm is no proof; askance verify is"],
    )


def _nats(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


def _check_report(rows: list[dict[str, Any]], violations: int, *, every: bool) -> CommandReport:
    return CommandReport(
        title="exact privacy loss of every randomizer against its epsilon",
        body=[_checks(rows) if every else _by_epsilon(rows)],
        verdict=f"{len(rows)} checked, {counted(violations, 'violation')}.",
        warnings=[
            f"{row['randomizer']}, epsilon {row['epsilon']:g}: VIOLATED, its loss is"
            f" {row['privacy_loss']:.12g}"
            for row in rows
            if not row["holds"]
        ],
        cost="" if every else "Each randomizer: --all",
    )


def _by_epsilon(rows: list[dict[str, Any]]) -> Grid:
    """Return a row per epsilon: the number of randomizers, and the greatest loss among them."""
    heads = ["epsilon", "randomizers", "greatest loss", "tight", "refused", "violated"]
    epsilons = Grid(heads)
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        checks = [row for row in rows if row["epsilon"] == epsilon]
        losses = [row["privacy_loss"] for row in checks if row["privacy_loss"] is not None]
        epsilons.add_row(
            f"{epsilon:g}",
            str(len(checks)),
            f"{max(losses):.12g}" if losses else "-",
            str(sum(row["tight"] for row in checks)),
            str(sum("refused" in row for row in checks)),
            str(sum(not row["holds"] for row in checks)),
        )
    return epsilons


def _checks(rows: list[dict[str, Any]]) -> Grid:
    heads = ["randomizer", "epsilon", "exact loss", "charge in nano-nats", "claim"]
    losses = Grid(heads, left=("randomizer", "claim"))
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
            claim if row["holds"] else "VIOLATED",
            alarm=not row["holds"],
        )
    return losses
