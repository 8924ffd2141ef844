"""Study of `askance study submit`: a TOML file, or a learner's name with options.

The options are the keys of the file. Both are read by the same reader.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import add_learner_name, count, learner_names, required, seed, setting
from askance.cli.output import Failure, print_json
from askance.cli.parameters import add_options, first_positional
from askance.cli.report import print_report
from askance_aggregator.reports.plans import plan_report
from askance_client.printable import printable

if TYPE_CHECKING:
    from askance_aggregator.analyst import StudyDefinition
    from askance_aggregator.studies.study import Study


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the learner or file, and the options of a study that is not in a file."""
    add_learner_name(
        parser,
        lambda: (*learner_names(), *map(str, Path().glob("*.toml"))),
        metavar="LEARNER|FILE.toml",
        help="a learner's name, with the options below (--help after it lists its own ones); or"
        " the file of a study's definition, which has them all",
    )
    parser.add_argument(
        "--plan-only", action="store_true", help="print users and cost; sign and store nothing"
    )
    options = parser.add_argument_group("the study of a learner", "defaults as in a file")
    options.add_argument(
        "--schema", type=Path, metavar="FILE.toml", help="the schema of the users' records"
    )
    options.add_argument("--epsilon", metavar="E", help="each user's whole budget, in nats")
    options.add_argument("--beta", metavar="B", help="failure chance (default 0.01)")
    options.add_argument(
        "--confidence", metavar="C", help="of the intervals, jointly (default 0.95)"
    )
    options.add_argument("--purpose", metavar="TEXT", help="what devices' owners read about it")
    options.add_argument(
        "--days", type=count, metavar="N", help="devices refuse the study after these (default 7)"
    )
    options.add_argument(
        "--fields",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="that may be asked about (default: those that the learner needs)",
    )
    options.add_argument(
        "--most-answers",
        type=count,
        metavar="N",
        help="of a user, all rounds and epochs together; devices refuse more (default 4096)",
    )
    options.add_argument(
        "--deadline-s",
        type=seed,
        metavar="S",
        help="a round closes so many seconds after it opened; 0: when all have answered (default"
        " 86400)",
    )
    options.add_argument(
        "--least-answers",
        type=seed,
        metavar="N",
        help="in every group of a round; fewer end the study (default 1)",
    )
    options.add_argument(
        "--waves", type=count, metavar="W", help="parts in which a round is asked (default 1)"
    )
    options.add_argument(
        "--tag",
        action="append",
        dest="tags",
        metavar="TAG",
        help="ask only devices that have this tag; may be repeated (default: all devices)",
    )
    _add_times(options)
    options.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a parameter by its name; may be repeated, the last one holds",
    )


def _add_times(options: argparse._ArgumentGroup) -> None:
    """Add when a study collects, and how long it is kept."""
    options.add_argument(
        "--every", metavar="DAYS", help='collect again: days of an epoch, as "7d"; with --epochs'
    )
    options.add_argument("--epochs", type=count, metavar="N", help="number of epochs; with --every")
    options.add_argument(
        "--start",
        metavar="TIME",
        help="begin no earlier, in UTC (2026-12-01T08:00Z)",
    )
    options.add_argument(
        "--reports-days",
        type=seed,
        metavar="N",
        help="keep single reports so many days after the study's end (default: the operator's)",
    )
    options.add_argument(
        "--results-days",
        type=seed,
        metavar="N",
        help="keep results, counts and transcripts so many days (default: the operator's)",
    )


def add_study_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the words after `submit` name.

    Raises:
        InvalidParameter: there is no learner of that name.
    """
    named = first_positional(parser, words)
    if named is not None and not _is_file(named):
        from askance_aggregator.learners import find

        learner = find(named)
        add_options(parser, f"parameters of {learner.name}", learner.parameters)


def definition_of(arguments: argparse.Namespace) -> StudyDefinition:
    """Return the study that a command line defines.

    Raises:
        Failure: an option is missing, or stands beside a file.
        InvalidParameter, InvalidRecord: not a study.
    """
    import askance as ask
    from askance_aggregator.analyst import definition_of_table
    from askance_aggregator.analyst.study_options import OPTIONS, table_of_options

    given = {key: value for key in OPTIONS if (value := _value(arguments, key)) is not None}
    if _is_file(arguments.learner):
        if given or arguments.set:
            name = {"tags": "tag"}.get(first := next(iter(given), "set"), first).replace("_", "-")
            raise Failure(
                2,
                "usage",
                f"--{name}: expected a learner's name with it, got the file {arguments.learner},"
                " in which it belongs",
            )
        return ask.study_from_toml(arguments.learner)
    required(arguments, "schema", "epsilon")
    return definition_of_table(table_of_options(arguments.learner, given, dict(arguments.set)))


def print_plan(study: Study, plan: dict[str, Any], arguments: argparse.Namespace) -> int:
    """Print the plan of a study that was not submitted."""
    if arguments.json:
        print_json(plan)
    else:
        every, verbose = arguments.all, arguments.verbose
        report = plan_report(study.learner.name, plan, every=every, verbose=verbose)
        print_report(report, verbose=verbose)
    return 0


def may_ask(definition: StudyDefinition) -> str:
    """Say which fields a study is signed for, and which devices it asks if not all."""
    told = f"and may ask about: {', '.join(map(printable, definition.study.fields)) or 'no field'}"
    if not definition.tags:
        return told
    return f"{told}; it asks devices tagged {', '.join(sorted(definition.tags))}"


def _value(arguments: argparse.Namespace, key: str) -> Any:
    """Return the value of an option as a file has it; None: it is not given."""
    value = getattr(arguments, key)
    return str(value) if isinstance(value, Path) else value


def _is_file(text: str) -> bool:
    """Tell a file from a learner, whose name has neither a dot nor a slash."""
    return "." in text or "/" in text
