"""`askance plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import add_learner, add_text, chosen, count, days_of
from askance.cli.output import Failure, fail, plotted, print_json, print_report
from askance.cli.parameters import add_learner_parameters
from askance.cli.progress import reading_and, working
from askance_aggregator.reports.plans import plan_report

if TYPE_CHECKING:
    from askance_aggregator.planning import StudyPlan
    from askance_aggregator.studies import Course
    from askance_simulation.plots import Picture

_FEWEST_CORES = 0.1  # that are shown as a number
_SEED = 0  # of the arrivals that are drawn: the same command prints the same figures


def print_deployment(text: str, *, as_json: bool) -> int:
    """Size a deployment, simulate it and print both."""
    import numpy as np

    from askance_aggregator.reports.figures import bytes_text, rate_text
    from askance_simulation.deployments import parse_load, report_of

    report = report_of(parse_load(text), np.random.default_rng(_SEED))
    content = report.to_json()
    if as_json:
        print_json(content)
        return 0
    hour, day = content["busiest_hour"], content["day"]
    rows = [
        (
            "check-ins",
            f"{rate_text(content['check_ins'])},"
            f" {rate_text(content['busiest_check_ins'])} in the busiest hour",
        ),
        (
            "replicas",
            f"{content['replicas']:,} ({_cores_text(content['busy_cores'])} cores busy in the"
            " busiest hour; one may be down)",
        ),
        ("database", bytes_text(content["database_bytes"])),
        ("write-ahead log", rate_text(content["wal_bytes"], bytes_text)),
        ("bandwidth", rate_text(content["wire_bytes"], bytes_text)),
        ("cost", f"{content['cost_per_month']:,.0f} per month"),
        (
            "busiest hour",
            f"waits of {1000 * hour['mean_wait_s']:.2f} ms, p99 {1000 * hour['p99_wait_s']:.2f} ms",
        ),
        (
            "day with a burst",
            f"queue of at most {day['longest_queue']:,.0f},"
            f" p99 of waits {day['p99_wait_s']:.1f} s, {day['turned_away']:,.0f} calls tried again",
        ),
    ]
    for name, value in rows:
        print(f"{name:<17} {value}")
    return 0


def _cores_text(number: float) -> str:
    return f"{number:.1f}" if number >= _FEWEST_CORES else f"less than {_FEWEST_CORES}"


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
    """Return the course that the options ask for, if they do."""
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


def add_outer(parser: argparse.ArgumentParser) -> None:
    """Add the options of a plan that keeps an epsilon towards readers of tallies."""
    from askance_aggregator.study_options import LEAST_ANSWERS

    group = parser.add_argument_group("guarantee towards readers of tallies")
    group.add_argument(
        LEAST_ANSWERS.option,
        type=count,
        default=0,
        metavar=LEAST_ANSWERS.metavar,
        help=LEAST_ANSWERS.summary,
    )
    group.add_argument(
        "--outer-epsilon",
        metavar="E",
        help="in place of --epsilon: find the greatest one that keeps this towards readers who see"
        " tallies of --least-answers fresh answers and no report, 1 %% of them being lies",
    )
    group.add_argument(
        "--outer-delta",
        metavar="D",
        help="delta of --outer-epsilon, in (0, 1); default: that of a result, 0.000001 or,"
        " with more than 10,000 users, 1 / (100 users)",
    )
    group.add_argument(
        "--local-at-most",
        default="4",
        metavar="E",
        help="greatest epsilon towards the aggregator that --outer-epsilon may lead to, at most 4"
        " (default)",
    )


def _outer(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_outer` as `ask.plan` takes them."""
    names = ("least_answers", "outer_epsilon", "outer_delta", "local_at_most")
    return {name: getattr(arguments, name) for name in names}


NAME = "plan"
SUMMARY = "compute how many users a learner needs; no user is asked"
DESCRIPTION = (
    "Computes how many users each round of a learner needs at an epsilon, how they are asked and"
    " by which randomizer. Without --epsilon it finds the least epsilon of a grid from which on"
    " --users are enough for the learner's tolerances. No user is asked. Exits with 3 if --users"
    " are too few."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the learner, its budget and the form of the output."""
    add_learner(parser, nargs="?")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="without --epsilon: a picture of the users needed by epsilon: .png or .svg",
    )
    add_outer(parser)
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
    _check_epsilon(arguments)
    with working(reading_and("planning", arguments.data)):
        planned = ask.plan(
            arguments.learner,
            **chosen(arguments),
            **_outer(arguments),
            curve=arguments.plot is not None,
        )
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
    elif refusal is None or arguments.epsilon is not None or arguments.outer_epsilon is not None:
        every, verbose = arguments.all, arguments.verbose
        report = plan_report(arguments.learner, result, every=every, verbose=verbose)
        print_report(report, verbose=verbose)
    failure = refusal or plotted(arguments.plot, lambda: _curve(planned, arguments.learner))
    return 0 if failure is None else fail(failure, as_json=False)


def _check_epsilon(arguments: argparse.Namespace) -> None:
    """Refuse a command with neither an epsilon nor users that it follows from."""
    from askance.operations import check_output

    given = arguments.epsilon, arguments.outer_epsilon
    if given != (None, None) and arguments.plot is not None:
        name = "--epsilon" if arguments.outer_epsilon is None else "--outer-epsilon"
        raise Failure(2, "usage", f"--plot: expected no {name} with it, got one")
    if given == (None, None) and arguments.users is None and arguments.data is None:
        raise Failure(
            2,
            "usage",
            "expected --epsilon, or --users with a tolerance (--tau) to find the least one, or"
            f" --outer-epsilon, got none of them (see {arguments.called} --help)",
        )
    check_output(arguments.plot, (".png", ".svg"))


def _curve(planned: StudyPlan, learner: str) -> Picture:
    from askance_simulation.plots import epsilon_curve

    return epsilon_curve(planned, learner)
