"""Study of `askance study submit`: a TOML file, or a learner's name with options.

The options are the keys of the file. Both are read by the same reader.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import add_learner_name, count, learner_names, required, seed, setting
from askance.cli.output import Failure, print_result
from askance.cli.parameters import add_options, first_positional
from askance_aggregator.names import names_of
from askance_aggregator.reports.plans import plan_report
from askance_aggregator.study_options import OPTIONS, OptionKind, table_of_options
from askance_client.printable import printable

if TYPE_CHECKING:
    from askance_aggregator.analyst import StudyDefinition
    from askance_aggregator.studies.study import Study

_FORMS: Mapping[OptionKind, dict[str, Any]] = {
    OptionKind.FILE: {"type": Path},
    OptionKind.POSITIVE: {"type": count},
    OptionKind.NATURAL: {"type": seed},
    OptionKind.NAMES: {"type": lambda text: text.split(",")},
    OptionKind.WORDS: {"action": "append"},
}
"""Arguments of `add_argument` by the form of an option's value; others are texts."""

PLANNED_ALONE = "for as many devices as it takes; with --key, for those that are enrolled"
"""Note of a plan that was made without an aggregator."""


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
        "--plan-only",
        action="store_true",
        help="print users and cost; sign and store nothing. Without --key and a token no aggregator"
        " is asked: for as many users as it takes",
    )
    options = parser.add_argument_group("the study of a learner", "defaults as in a file")
    for one in OPTIONS:
        options.add_argument(
            one.option,
            dest=one.name,
            metavar=one.metavar,
            help=one.help,
            **_FORMS.get(one.kind, {}),
        )
    options.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a parameter by its name; may be repeated, the last one holds",
    )


def add_study_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the words after `submit` name."""
    named = first_positional(parser, words)
    if named is not None and not _is_file(named):
        from askance_aggregator.learners import find

        learner = find(named)
        add_options(parser, f"parameters of {learner.name}", learner.parameters)


def definition_of(arguments: argparse.Namespace) -> StudyDefinition:
    """Return the study that a command line defines."""
    import askance as ask
    from askance_aggregator.analyst import definition_of_table

    names = (option.name for option in OPTIONS)
    given = {name: value for name in names if (value := _value(arguments, name)) is not None}
    if _is_file(arguments.learner):
        if given or arguments.set:
            first = next((option for option in OPTIONS if option.name in given), None)
            named, key = ("--set", "[parameters]") if first is None else (first.option, first.key)
            raise Failure(
                2,
                "usage",
                f"{named}: expected a learner's name with it, got the file {arguments.learner},"
                f" in which it belongs as {key}",
            )
        return ask.study_from_toml(arguments.learner)
    required(arguments, "schema", "epsilon")
    return definition_of_table(table_of_options(arguments.learner, given, dict(arguments.set)))


def print_plan(study: Study, plan: dict[str, Any], arguments: argparse.Namespace) -> int:
    """Print the plan of a study that was not submitted, with columns' own names."""
    every, verbose, name = arguments.all, arguments.verbose, study.learner.name
    return print_result(
        arguments, plan, lambda: plan_report(name, plan, every=every, verbose=verbose)
    )


def may_ask(definition: StudyDefinition) -> str:
    """Say which fields a study is signed for, and which devices it asks if not all."""
    columns = names_of(definition.study.schema).in_text(", ".join(definition.study.fields))
    told = f"and may ask about: {printable(columns) or 'no field'}"
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
