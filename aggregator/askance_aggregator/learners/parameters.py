"""Parameters of learners: declared once, in the signature, and read from text.

An argument that can be set by text is annotated (`depth: Annotated[int, "of the tree at most"]`),
by a `Parameter` where the type does not say all. Options of the command line, the catalogue,
the console's form and the documentation's tables follow from `declared`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from hashlib import sha256
from inspect import Parameter as Argument
from typing import Annotated, Any, get_args

from askance_aggregator.declarations import annotated
from askance_aggregator.names import (
    NoSuitableColumn,
    field_called,
    fields_called,
    names_in,
    unfit_column,
)
from askance_aggregator.numbers import Rational, plain, rational, whole_within
from askance_aggregator.queries import as_query
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.queries import Expression, Label, Query, Schema

MAX_ROUNDS = 10_000

Read = Callable[[str, Schema, str | None], Any]
"""Maker of a value from the learner's name, the schema and the text (None: it is not set)."""


class ParameterKind(Enum):
    """Form of a parameter's text; its value is the placeholder that help texts show."""

    TEXT = "TEXT"
    WHOLE = "N"
    NUMBER = "NUMBER"
    NUMBERS = "NUMBER,..."
    FIELD = "COLUMN"
    FIELDS = "COLUMN,..."
    VALUES = "VALUE,..."
    POINTS = "POINT:WEIGHT,..."

    @property
    def is_whole(self) -> bool:
        """Return whether a value is a whole number."""
        return self is ParameterKind.WHOLE

    @property
    def is_of_file(self) -> bool:
        """Return whether an option of the command line takes a file, with one value per line."""
        return self is ParameterKind.VALUES

    @property
    def has_commas(self) -> bool:
        """Return whether one value may hold commas."""
        return self.value.endswith(",...")


@dataclass(frozen=True, slots=True)
class ParameterEntry:
    """Parameter that can be set by text.

    Args:
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
    def title(self) -> str:
        """Label of a form's field: the name in words."""
        words = self.name.replace("_", " ")
        return f"{words[0].upper()}{words[1:]}"

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


@dataclass(frozen=True, slots=True)
class Parameter:
    """Annotation of an argument that can be set by text.

    Args:
        summary: one line for readers of the catalogue.
        kind: form of its text; None: by the argument's type.
        choices: the only words that it may be; empty: any text of its kind.
        name: its name in text; empty: the argument's.
        default: text that stands for the argument's default; None: the default as text.
        read: maker of the value; None: by the kind, and the argument's default if it is not set.
    """

    summary: str
    kind: ParameterKind | None = None
    choices: tuple[str, ...] = ()
    name: str = ""
    default: str | None = None
    read: Read | None = None


CALLED = {ParameterKind.FIELD: field_called, ParameterKind.FIELDS: fields_called}
"""The fields' names in a text that may have columns' own names, by the form of the text."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Parameter as it is declared in a signature."""

    argument: str
    entry: ParameterEntry
    read: Read | None
    is_query: bool = False  # a query or an expression may stand for the name of a column
    is_needed: bool = False

    @property
    def shown(self) -> str:
        """Name in messages to callers of the function."""
        return self.entry.name if self.is_query else self.argument

    def value(self, learner: str, schema: Schema, text: str | None) -> dict[str, Any]:
        """Return the argument by name, as the text says; empty: its default holds.

        A field may be given by its column's own name.
        """
        if text is not None and self.entry.kind in CALLED:
            text = CALLED[self.entry.kind](text, schema.fields)
        if self.read is not None:
            return {self.argument: self.read(learner, schema, text)}
        return {} if text is None else {self.argument: self._of_kind(text)}

    def _of_kind(self, text: str) -> Any:
        match self.entry.kind:
            case ParameterKind.WHOLE:
                return whole(self.entry.name, text)
            case ParameterKind.FIELDS:
                return tuple(name.strip() for name in text.split(","))
            case ParameterKind.VALUES:
                return names_in(text)
            case ParameterKind.NUMBERS:
                return text.split(",")
            case _:
                return text


@cache
def declared(function: Callable[..., object]) -> tuple[Declared, ...]:
    """Return the annotated parameters of a function, in the order of its signature."""
    return tuple(_declared(*one) for one in annotated(function))


def _declared(argument: Argument, type_: Any, note: str | Parameter) -> Declared:
    said = Parameter(note) if isinstance(note, str) else note
    default = said.default
    if default is None and argument.default not in (None, Argument.empty):
        default = canonical_text(argument.default)
    entry = ParameterEntry(
        said.name or argument.name,
        said.summary,
        default,
        said.kind or _kind_of(type_),
        said.choices,
    )
    types = get_args(type_) or (type_,)
    needed = argument.default is Argument.empty
    return Declared(argument.name, entry, said.read, Expression in types, needed)


def _kind_of(type_: Any) -> ParameterKind:
    """Return the form of the text of a type's values; lists of values state theirs."""
    types = get_args(type_) or (type_,)
    if Fraction in types:
        return ParameterKind.NUMBER
    return ParameterKind.WHOLE if int in types else ParameterKind.TEXT


def canonical_text(value: object) -> str:
    """A parameter as text; equal numbers have equal texts (.5, "1/2" as a Fraction, Decimal).

    Raises:
        InvalidParameter: a value of this type has no canonical text.
    """
    value = plain(value)
    if isinstance(value, Expression | Query):
        return "query:" + sha256(as_query(value).canonical).hexdigest()
    if isinstance(value, Enum):
        return canonical_text(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | Fraction | float | Decimal):
        return str(rational(value, "a parameter"))
    if isinstance(value, tuple | list):
        return ",".join(canonical_text(item) for item in value)
    raise InvalidParameter(
        "a learner's parameter expects a number, a text, a query or a list of them, "
        f"found {type(value).__name__}"
    )


Columns = Annotated[
    Sequence[str] | None,
    Parameter("fields by name, with commas (default: all that suit)", ParameterKind.FIELDS),
]
Affordable = Annotated[
    Sequence[str] | None,
    Parameter(
        "fields by name, with commas (default: as many as users and epsilon allow)",
        ParameterKind.FIELDS,
    ),
]
LabelName = Annotated[
    str | None,
    Parameter("the category to predict (default: the only label)", ParameterKind.FIELD),
]
Accuracy = Annotated[Rational, "the allowed error"]
Tau = Annotated[Rational | None, "tolerance of each answer (default: what the users allow)"]
Missing = Annotated[
    str | None,
    Parameter(
        "users without a value: exclude, they are not counted (default; of required fields none"
        " are), or default, they count with a public one",
        choices=("exclude", "default"),
    ),
]
Present = Annotated[
    Rational | None,
    "the share of users who have a value, at least: sizes the plan, no interval relies on it"
    " (default: 1)",
]
"""Parameters of several learners; a learner of its own words annotates its own."""


def field_named(
    learner: str,
    schema: Schema,
    types: tuple[type, ...],
    asked: str | None,
    parameter: str = "column",
) -> str:
    """Return the field to ask about: the one asked for, a label, or the only one that fits."""
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, types)]
    if asked is not None:
        if asked not in fits:
            raise InvalidParameter(f"{learner}: {parameter}: {unfit_column(asked, schema, types)}")
        return asked
    labels = [name for name in fits if isinstance(schema.fields[name], Label)]
    for candidates in (labels, fits):
        if len(candidates) == 1:
            return candidates[0]
    if not fits:
        expected = " or ".join(sorted(kind.__name__.lower() for kind in types))
        raise NoSuitableColumn(f"{learner}: expected a field of the type {expected}, got none")
    raise InvalidParameter(
        f"{learner}: {parameter}: expected one of the fields {', '.join(fits)}, got none"
    )


def one_of(*types: type) -> Read:
    """Return the maker of a field's name: see `field_named`."""
    return lambda learner, schema, asked: field_named(learner, schema, types, asked)


def two_of(*types: type) -> Read:
    """Return the maker of fields' names: those that are asked for, else the first two that suit."""

    def read(learner: str, schema: Schema, asked: str | None) -> tuple[str, ...]:
        if asked is None:
            return first_fields(learner, schema, types, 2)
        return tuple(name.strip() for name in asked.split(","))

    return read


def first_fields(
    learner: str, schema: Schema, types: tuple[type, ...], count: int
) -> tuple[str, ...]:
    """Return the first fields of some types, for a learner whose columns are not set."""
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, types)]
    if len(fits) < count:
        found = ", ".join(fits) or "none"
        raise InvalidParameter(
            f"{learner}: expected fields that suit, {count} or more, got {found}; set its columns"
        )
    return tuple(fits[:count])


def check_rounds(rounds: int) -> int:
    """Check a number of rounds: 1 .. 10,000."""
    return whole_within(rounds, 1, MAX_ROUNDS, "rounds")


def whole(name: str, text: str) -> int:
    """Parse a parameter that is a whole number."""
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"{name} expects a whole number, got {value_text(text)}") from None
