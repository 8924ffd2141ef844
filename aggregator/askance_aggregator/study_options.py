"""Options of a study, each stated once: key of a file, option of the command line, field of a form.

Files (`definitions`), the command line and the console's form are read and shown by `OPTIONS`; an
option that is an argument of `Study` names it. Whatever makes a study from options makes the table
here, so that equal options are equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from askance_client.errors import InvalidParameter
from askance_client.messages import DEFAULT_ANSWERS
from askance_client.printable import value_text

DEFAULT_DAYS = 7


class OptionKind(Enum):
    """Form of an option's value."""

    TEXT = auto()
    NUMBER = auto()
    FILE = auto()
    POSITIVE = auto()
    """A whole number of 1 or more."""
    NATURAL = auto()
    """A whole number of 0 or more."""
    NAMES = auto()
    """Names with commas."""
    WORDS = auto()
    """Words: an option that is repeated, or a field with spaces."""
    DAYS = auto()
    """A number of days, as "7d"."""
    TIME = auto()


@dataclass(frozen=True, slots=True)
class StudyOption:
    """Option of a study.

    Args:
      name: key in a file; an option's name has hyphens.
      title: label of a form's field: a few words with the unit.
      summary: one line for readers; it has the default, where `default` is no text to show.
      metavar: the value's place in a help text.
      default: what holds where it is left out.
      argument: of `Study`, which it sets; empty: none.
      table: of the file, in which its key stands; empty: none.
      needed: whether a file, or the table, must have it.
      flag: name on the command line; empty: `name`.
      form_summary: line for a form, where the command line's does not fit; empty: `summary`.
    """

    name: str
    title: str
    summary: str
    metavar: str
    kind: OptionKind = OptionKind.TEXT
    default: Any = None
    argument: str = ""
    table: str = ""
    needed: bool = False
    flag: str = ""
    form_summary: str = ""

    @property
    def option(self) -> str:
        """Name on the command line: "--most-answers"."""
        return f"--{(self.flag or self.name).replace('_', '-')}"

    @property
    def key(self) -> str:
        """Key of a study's file, with its table: "[rounds] least_answers"."""
        return f"[{self.table}] {self.name}" if self.table else self.name

    @property
    def help(self) -> str:
        """Summary with the default."""
        return f"{self.summary} (default {self.default})" if self.default else self.summary

    @property
    def hint(self) -> str:
        """Line below a form's field."""
        return self.form_summary or self.summary

    @property
    def is_whole(self) -> bool:
        """Return whether its value is a whole number."""
        return self.kind in (OptionKind.POSITIVE, OptionKind.NATURAL)


LEAST_ANSWERS = StudyOption(
    "least_answers",
    "Answers per group, at least",
    "in every group of a round; fewer end the study",
    "N",
    OptionKind.NATURAL,
    default=1,
    argument="least_answers",
    table="rounds",
    form_summary="in every group of a round; with fewer the study ends",
)

OPTIONS = (
    StudyOption(
        "schema",
        "Schema of the users' records",
        "the schema of the users' records",
        "FILE.toml",
        OptionKind.FILE,
        needed=True,
    ),
    StudyOption(
        "epsilon",
        "Privacy budget per user (epsilon), in nats",
        "each user's whole budget, in nats",
        "E",
        OptionKind.NUMBER,
        argument="epsilon",
        needed=True,
        form_summary="for all questions together; what it means is said with the plan",
    ),
    StudyOption(
        "beta",
        "Chance of a missed tolerance (beta)",
        "chance that an answer is off by more than its tolerance",
        "B",
        OptionKind.NUMBER,
        default="0.01",
        argument="beta",
    ),
    StudyOption(
        "confidence",
        "Confidence of the intervals",
        "of the intervals, jointly",
        "C",
        OptionKind.NUMBER,
        default="0.95",
        argument="confidence",
        form_summary="that all intervals of the result hold, jointly",
    ),
    StudyOption(
        "purpose",
        "Purpose",
        "what devices' owners read about it",
        "TEXT",
        default="",
        argument="purpose",
    ),
    StudyOption(
        "days",
        "Days until devices refuse it",
        "devices refuse the study after these",
        "N",
        OptionKind.POSITIVE,
        default=DEFAULT_DAYS,
        form_summary="from its submission on",
    ),
    StudyOption(
        "fields",
        "Fields that may be asked about",
        "that may be asked about (default: those that the learner needs)",
        "A,B",
        OptionKind.NAMES,
        argument="fields",
        form_summary="names with commas (default: those that the learner needs)",
    ),
    StudyOption(
        "most_answers",
        "Answers per user, at most",
        "of a user, all rounds and epochs together; devices refuse more",
        "N",
        OptionKind.POSITIVE,
        default=DEFAULT_ANSWERS,
        argument="most_answers",
        form_summary="in all rounds and collections together; devices refuse more",
    ),
    StudyOption(
        "deadline_s",
        "Deadline of a round, in seconds",
        "a round closes so many seconds after it opened; 0: when all have answered",
        "S",
        OptionKind.NATURAL,
        default=86_400,  # a study of users' own devices must not wait for one that is lost
        argument="round_deadline_s",
        table="rounds",
        form_summary="after a round has opened; 0: it ends when all have answered",
    ),
    LEAST_ANSWERS,
    StudyOption(
        "waves",
        "Waves per round",
        "parts in which a round is asked",
        "W",
        OptionKind.POSITIVE,
        default=1,
        argument="waves",
        table="rounds",
    ),
    StudyOption(
        "tags",
        "Tags of the devices",
        "ask only devices that have this tag; may be repeated (default: all devices)",
        "TAG",
        OptionKind.WORDS,
        default=(),
        table="population",
        needed=True,
        flag="tag",
        form_summary="ask only devices that have all of these words (default: all devices)",
    ),
    StudyOption(
        "every",
        "Days between collections",
        'collect again: days of an epoch, as "7d"; with --epochs',
        "DAYS",
        OptionKind.DAYS,
        table="repeat",
        needed=True,
        form_summary='collect again: days of an epoch, as "7d" (default: never)',
    ),
    StudyOption(
        "epochs",
        "Number of collections",
        "number of epochs; with --every",
        "N",
        OptionKind.POSITIVE,
        table="repeat",
        needed=True,
        form_summary="number of epochs, where it collects again",
    ),
    StudyOption(
        "start",
        "Earliest start, UTC",
        "begin no earlier, in UTC (2026-12-01T08:00Z)",
        "TIME",
        OptionKind.TIME,
        default=0,
        table="schedule",
        needed=True,
        form_summary="as 2026-12-01T08:00Z (default: at once)",
    ),
    StudyOption(
        "reports_days",
        "Days to keep single reports",
        "keep single reports so many days after the study's end (default: the operator's)",
        "N",
        OptionKind.NATURAL,
        table="keep",
        form_summary="after the study's end (default: the operator's)",
    ),
    StudyOption(
        "results_days",
        "Days to keep results",
        "keep results, counts and transcripts so many days (default: the operator's)",
        "N",
        OptionKind.NATURAL,
        table="keep",
        form_summary="with counts and transcripts (default: the operator's)",
    ),
)
"""All options, in the order in which readers see them."""


def table_of_options(
    learner: str, options: Mapping[str, Any], parameters: Mapping[str, str]
) -> dict[str, Any]:
    """Return the table of a study's definition; an option that is left out has its default."""
    given = [option for option in OPTIONS if option.name in options]
    tables: dict[str, dict[str, Any]] = {}
    for option in given:
        if option.table:
            tables.setdefault(option.table, {})[option.name] = options[option.name]
    return {
        "learner": learner,
        **{option.name: options[option.name] for option in given if not option.table},
        "parameters": dict(parameters),
        **tables,
    }


def definition_text(table: Mapping[str, Any]) -> str:
    """Return the TOML file of a definition's table, as `table_of_options` returns it."""
    lines = [f"{key} = {_value(one)}" for key, one in table.items() if not isinstance(one, dict)]
    for name, one in table.items():
        if isinstance(one, dict) and one:
            lines += _table_lines(name, one)
    return "\n".join(lines) + "\n"


def _table_lines(name: str, table: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table; tables in it are inline, each on a line of its own."""
    lines = ["", f"[{name}]"]
    lines += [f"{_key(key)} = {_value(one)}" for key, one in table.items() if key != "fields"]
    if isinstance(fields := table.get("fields"), dict):
        lines += ["", f"[{name}.fields]"]
        lines += [f"{_key(key)} = {_value(one)}" for key, one in fields.items()]
    return lines


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _value(name)


def _value(one: Any) -> str:
    if isinstance(one, dict):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in one.items())
        return f"{{ {inner} }}"
    if isinstance(one, list | tuple):
        return f"[{', '.join(map(_value, one))}]"
    if not isinstance(one, str | int | float):
        raise InvalidParameter(
            f"schema: expected texts, numbers, lists and tables, got {value_text(str(one))}"
        )
    # A TOML text takes JSON's escapes, and does not take the character 127 as it is.
    return json.dumps(one, ensure_ascii=False).replace("\x7f", "\\u007f")
