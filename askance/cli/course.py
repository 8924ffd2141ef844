"""Options of `askance plan --epochs`: the course of a repeated study."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from askance.cli.arguments import count, days_of

if TYPE_CHECKING:
    from askance_aggregator.planning import StudyPlan
    from askance_aggregator.studies import Course


def add_course(parser: argparse.ArgumentParser) -> None:
    """Add the options of a study that collects again."""
    group = parser.add_argument_group("repeated study")
    group.add_argument("--epochs", type=count, metavar="N", help="plan N collections of the study")
    group.add_argument(
        "--every", metavar="DAYS", help='with --epochs: days of an epoch, as "7d" (default)'
    )
    group.add_argument(
        "--delta", metavar="D", help="composition of all epochs at this delta, beside their sum"
    )
    for name, what in (
        ("life", "all studies"),
        ("study", "one study, all its epochs"),
        ("window", "the last --window-days days"),
    ):
        group.add_argument(
            f"--{name}-epsilon", metavar="E", help=f"an owner's budget for {what}, in nats"
        )
    group.add_argument(
        "--window-days", type=count, default=30, metavar="W", help="days of a window (default: 30)"
    )


def course_of(arguments: argparse.Namespace, plan: StudyPlan) -> Course | None:
    """Return the course that the options ask for, if they do.

    Raises:
        InvalidParameter: a budget, a delta or a number of days that is none; days without epochs.
    """
    from askance_aggregator.numbers import rational
    from askance_aggregator.studies import Course, OwnerBudgets
    from askance_client.accounting import parse_epsilon
    from askance_client.errors import InvalidParameter

    if arguments.epochs is None:
        if arguments.every is not None:
            raise InvalidParameter("--every: expected --epochs with it, got none")
        return None
    life, study, window = (
        None if text is None else parse_epsilon(text, f"--{name}-epsilon")
        for name, text in (
            ("life", arguments.life_epsilon),
            ("study", arguments.study_epsilon),
            ("window", arguments.window_epsilon),
        )
    )
    return Course(
        plan,
        days_of(arguments.every),
        arguments.epochs,
        OwnerBudgets(life, study, window, arguments.window_days),
        None if arguments.delta is None else rational(arguments.delta, "delta"),
    )
