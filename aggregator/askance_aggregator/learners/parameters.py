"""Parameters of catalogue entries: their descriptions, and readers of their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from askance_aggregator.learners.learner import Learner
from askance_aggregator.names import NoSuitableColumn, unknown_column
from askance_aggregator.numbers import rational
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.queries import Label, Schema

MAX_ROUNDS = 10_000

Text = Mapping[str, str]
"""Text of every parameter that is set or has a default, by name."""

Build = Callable[[Schema | None, Text], Learner[Any]]
"""Maker of a learner from a schema (None: one of its own) and the text of its parameters."""


class ParameterKind(Enum):
    """Form of a parameter's text; its value is the placeholder that help texts show."""

    TEXT = "TEXT"
    WHOLE = "N"
    NUMBER = "NUMBER"
    NUMBERS = "NUMBER,..."
    FIELD = "COLUMN"
    FIELDS = "COLUMN,..."
    POINTS = "POINT:WEIGHT,..."

    @property
    def has_commas(self) -> bool:
        """Return whether one value may hold commas."""
        return self.value.endswith(",...")


@dataclass(frozen=True, slots=True)
class ParameterEntry:
    """Parameter that can be set by text.

    Args:
        name: name, unique within its learner.
        summary: one line for readers of the catalogue.
        default: text that is used if the parameter is not set; None: it may stay unset.
        kind: form of its text, which the command line checks before the learner is built.
        choices: the only words that it may be; empty: any text of its kind.
    """

    name: str
    summary: str
    default: str | None = None
    kind: ParameterKind = ParameterKind.TEXT
    choices: tuple[str, ...] = ()

    @property
    def placeholder(self) -> str:
        """Value's place in a help text: "N", or "{linf,l2}"."""
        return f"{{{','.join(self.choices)}}}" if self.choices else self.kind.value

    def check(self, text: str) -> None:
        """Check the form of a value; the learner checks its range.

        Raises:
            InvalidParameter: it is none of the choices, or no text of this kind.
        """
        if self.choices and text not in self.choices:
            raise InvalidParameter(f"{self.name}: {unknown_text(text, self.choices)}")
        if self.kind is ParameterKind.WHOLE:
            whole(self.name, text)
        elif self.kind is ParameterKind.NUMBER:
            rational(text, self.name)
        elif self.kind is ParameterKind.NUMBERS:
            for part in text.split(","):
                rational(part.strip(), self.name)


ACCURACY = ParameterEntry("accuracy", "the allowed error", "1/10", kind=ParameterKind.NUMBER)
COLUMNS = ParameterEntry(
    "columns", "fields by name, with commas (default: all that suit)", kind=ParameterKind.FIELDS
)
AFFORDABLE = ParameterEntry(
    "columns",
    "fields by name, with commas (default: as many as users and epsilon allow)",
    kind=ParameterKind.FIELDS,
)
TAU = ParameterEntry(
    "tau", "how exactly each answer is wanted (default: as users allow)", kind=ParameterKind.NUMBER
)
MISSING = ParameterEntry(
    "missing",
    "users without a value: exclude, they are not counted (default), or default, they count with a"
    " public one",
    choices=("exclude", "default"),
)
PRESENT = ParameterEntry(
    "present",
    "the share of users who have a value, at least: sizes the plan, no interval relies on it"
    " (default: 1)",
    kind=ParameterKind.NUMBER,
)
LABEL = ParameterEntry(
    "label", "the category to predict (default: the only label)", kind=ParameterKind.FIELD
)


def columns_in(parameters: Text) -> tuple[str, ...] | None:
    """Return the fields that `columns` names; None if it is not set."""
    named = parameters.get("columns")
    return None if named is None else tuple(name.strip() for name in named.split(","))


def field_named(learner: str, schema: Schema, types: tuple[type, ...], asked: str | None) -> str:
    """Return the field to ask about: the one asked for, else a label, else the only one that fits.

    Raises:
        InvalidParameter: the field asked for does not fit, or several fit and none was asked for.
    """
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, types)]
    if asked is not None:
        if asked not in fits:
            raise InvalidParameter(f"{learner}: column: {unknown_column(asked, fits)}")
        return asked
    labels = [name for name in fits if isinstance(schema.fields[name], Label)]
    for candidates in (labels, fits):
        if len(candidates) == 1:
            return candidates[0]
    if not fits:
        expected = " or ".join(sorted(kind.__name__.lower() for kind in types))
        raise NoSuitableColumn(f"{learner}: expected a field of the type {expected}, got none")
    raise InvalidParameter(
        f"{learner}: column: expected one of the fields {', '.join(fits)}, got none"
    )


def first_fields(
    learner: str, schema: Schema, types: tuple[type, ...], count: int
) -> tuple[str, ...]:
    """Return the first fields of some types, for a learner whose columns are not set.

    Raises:
        InvalidParameter: the schema has fewer.
    """
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, types)]
    if len(fits) < count:
        found = ", ".join(fits) or "none"
        raise InvalidParameter(
            f"{learner}: expected fields that suit, {count} or more, got {found}; set its columns"
        )
    return tuple(fits[:count])


def check_rounds(rounds: int) -> int:
    """Check a number of rounds.

    Raises:
        InvalidParameter: it is not in 1 .. 10,000.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAX_ROUNDS:
        raise InvalidParameter(
            f"rounds expects a whole number in 1..{MAX_ROUNDS}, got {value_text(rounds)}"
        )
    return rounds


def whole(name: str, text: str) -> int:
    """Parse a parameter that is a whole number.

    Raises:
        InvalidParameter: the text is no whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"{name} expects a whole number, got {value_text(text)}") from None
