"""`askance plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from askance.cli.arguments import add_learner, add_text, chosen, required
from askance.cli.course import add_course, course_of
from askance.cli.deployment import print_deployment
from askance.cli.output import Failure, fail, print_json
from askance.cli.parameters import add_learner_parameters
from askance.cli.progress import working
from askance.cli.report import print_report
from askance_aggregator.reports.plans import plan_report

NAME = "plan"
SUMMARY = "compute the users that a learner needs per round, before any is asked"
DESCRIPTION = (
    "Computes how many users each round of a learner needs at an epsilon, how they are asked and"
    " by which randomizer. With --users it exits with 3 when they are too few."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the learner, its budget and its failure chance."""
    add_learner(parser, nargs="?")
    add_course(parser)
    parser.add_argument(
        "--deployment",
        metavar="NAME=NUMBER,...",
        help="in place of a learner: the size of an aggregator for devices=N, checkins_per_day,"
        " reports (per day), peak, kept_days, core_cost, disk_cost",
    )
    add_text(parser)


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the command line names, and of a population."""
    add_learner_parameters(parser, words, default_population=False)


def run(arguments: argparse.Namespace) -> int:
    """Plan and print."""
    import askance as ask

    if arguments.deployment is not None:
        if arguments.learner is not None:
            raise Failure(2, "usage", "expected a learner or --deployment, got both")
        return print_deployment(arguments.deployment, as_json=arguments.json)
    if arguments.learner is None:
        raise Failure(2, "usage", "expected a learner or --deployment, got neither")
    required(arguments, "epsilon")
    with working("planning"):
        planned = ask.plan(arguments.learner, **chosen(arguments))
    result = planned.to_json()
    course = course_of(arguments, planned)
    if course is not None:
        result["course"] = course.to_json()
    if planned.feasible:
        refusal = None
    else:
        refusal = Failure(3, "plan-refused", planned.reason or "the plan is not feasible")
        result["failure"] = {"reason": refusal.reason, "message": refusal.message}
    if arguments.json:
        print_json(result)
    else:
        every, verbose = arguments.all, arguments.verbose
        report = plan_report(arguments.learner, result, every=every, verbose=verbose)
        print_report(report, verbose=verbose)
    return 0 if refusal is None else fail(refusal, as_json=False)
