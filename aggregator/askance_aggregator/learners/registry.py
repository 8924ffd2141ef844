"""The catalogue: learners by name, built from text, for the command line and for signed studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from askance_aggregator.learners.conjunctions import conjunctions, conjunctions_schema
from askance_aggregator.learners.frequency import frequency
from askance_aggregator.learners.learner import Learner
from askance_aggregator.learners.masked_parity import masked_parity, masked_parity_schema
from askance_aggregator.learners.mean import mean
from askance_aggregator.names import nearest_text
from askance_aggregator.numbers import Rational
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Bit, Category, Integer, Label, Real, Schema

MAX_CELLS = 65535  # as many as a randomizer can distinguish
Build = Callable[[Schema | None, Mapping[str, str]], Learner[Any]]


@dataclass(frozen=True, slots=True)
class ParameterEntry:
    """A parameter that can be set by text.

    Args:
        name: what it is called.
        summary: what it does, in a line.
        default: its text where it is not set; None: it may stay unset.
    """

    name: str
    summary: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class LearnerEntry:
    """Learner that is available by name.

    Args:
        name: the learner's name.
        summary: what it learns, in a line.
        error: what `error` measures for it, in a line.
        parameters: what can be set.
        make: builds it from a schema (None: one of its own) and the text of every parameter that
            is set or has a default.
        held_out: whether the error is measured on rows of users who were not asked; of a data file
            some are then put aside.
    """

    name: str
    summary: str
    error: str
    parameters: tuple[ParameterEntry, ...]
    make: Build
    held_out: bool = False

    def build(
        self, schema: Schema | None = None, parameters: Mapping[str, str] | None = None
    ) -> Learner[Any]:
        """The learner, with its schema set.

        Args:
            schema: of the records; None: the learner's own for its parameters (enough to plan).
            parameters: text by name.

        Raises:
            InvalidParameter: a parameter has no such name or a wrong value, or the schema does
                not suit the learner.
        """
        given = dict(parameters or {})
        known = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in known:
                raise InvalidParameter(
                    f"{self.name} has no parameter {name!r}; it has {', '.join(known)}"
                )
        defaults = {p.name: p.default for p in self.parameters if p.default is not None}
        return self.make(schema, {**defaults, **given})

    def spell(self, learner: Learner[Any], schema: Schema) -> dict[str, str]:
        """The text from which `build` makes this learner again, on this schema: what is signed.

        A learner records the digest of its query; a column is found by trying each.

        Raises:
            InvalidParameter: no text makes it (a query that is no column, say).
        """
        known = [parameter.name for parameter in self.parameters]
        kept = {name: text for name, text in learner.parameters.items() if name in known}
        columns = [{"column": name} for name in schema.fields] if "column" in known else [{}]
        for column in columns:
            text = {**kept, **column}
            with suppress(InvalidParameter, InvalidQuery):
                built = self.build(schema, text)
                if (built.version, built.parameters) == (learner.version, learner.parameters):
                    return text
        raise InvalidParameter(
            f"{self.name}: expected a learner that {', '.join(known)} and the schema describe,"
            " found another"
        )


_CATALOGUE: dict[str, LearnerEntry] = {}


def register(entry: LearnerEntry) -> LearnerEntry:
    """Add a learner to the catalogue.

    Raises:
        InvalidParameter: its name is taken.
    """
    if entry.name in _CATALOGUE:
        raise InvalidParameter(f"the learner {entry.name!r} is registered already")
    _CATALOGUE[entry.name] = entry
    return entry


def learners() -> tuple[LearnerEntry, ...]:
    """The catalogue, by name."""
    return tuple(_CATALOGUE[name] for name in sorted(_CATALOGUE))


def find(name: str) -> LearnerEntry:
    """The learner of that name.

    Raises:
        InvalidParameter: there is none.
    """
    if name not in _CATALOGUE:
        hint = nearest_text(name, _CATALOGUE)
        raise InvalidParameter(
            f"no learner {name!r}{hint}; there are {', '.join(sorted(_CATALOGUE))}"
        )
    return _CATALOGUE[name]


def _masked_parity(schema: Schema | None, parameters: Mapping[str, str]) -> Learner[Any]:
    own = masked_parity_schema(whole("d", parameters["d"])) if "d" in parameters else None
    if schema is None:
        schema = own or masked_parity_schema(8)
    elif own is not None and dict(own.fields) != dict(schema.fields):
        raise InvalidParameter("masked-parity: d and the schema expect different records")
    return masked_parity(schema, parameters["variant"])


def _conjunctions(schema: Schema | None, parameters: Mapping[str, str]) -> Learner[Any]:
    own = conjunctions_schema(whole("d", parameters["d"])) if "d" in parameters else None
    if schema is None:
        schema = own or conjunctions_schema(8)
    elif own is not None and schema.fields.get("x") != own.fields["x"]:
        raise InvalidParameter("conjunctions: d and the schema expect different records")
    return conjunctions(schema, parameters["accuracy"])


def _frequency(schema: Schema | None, parameters: Mapping[str, str]) -> Learner[Any]:
    if schema is None:
        cells = whole("cells", parameters.get("cells", "16"))
        if not 2 <= cells <= MAX_CELLS:
            raise InvalidParameter(f"cells expects 2..{MAX_CELLS}, found {cells}")
        schema = Schema("frequency", 1, cell=Category(range(cells)))
    elif "cells" in parameters:
        raise InvalidParameter("frequency: cells is for planning without data; found a schema")
    field = field_named("frequency", schema, (Category,), parameters.get("column"))
    return replace(frequency(schema[field], _tau(parameters)), schema=schema)


def _mean(schema: Schema | None, parameters: Mapping[str, str]) -> Learner[Any]:
    if schema is None:
        schema = Schema("mean", 1, value=Real(-1, 1))
    field = field_named("mean", schema, (Integer, Real, Bit), parameters.get("column"))
    made = mean(
        schema[field], _tau(parameters), parameters.get("objective"), parameters.get("prior")
    )
    return replace(made, schema=schema)


def _tau(parameters: Mapping[str, str]) -> Rational | None:
    return parameters.get("tau")


def field_named(learner: str, schema: Schema, types: tuple[type, ...], asked: str | None) -> str:
    """The field to ask about: the one named, else a Label, else the only one that fits.

    Raises:
        InvalidParameter: the one named does not fit, or there is no only one.
    """
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, types)]
    if asked is not None:
        if asked not in fits:
            known = ", ".join(fits) or "none here"
            raise InvalidParameter(f"{learner}: column expects one of {known}, found {asked!r}")
        return asked
    labels = [name for name in fits if isinstance(schema.fields[name], Label)]
    for candidates in (labels, fits):
        if len(candidates) == 1:
            return candidates[0]
    raise InvalidParameter(
        f"{learner}: set column to one of {', '.join(fits) or 'none (no field of a fitting type)'}"
    )


def whole(name: str, text: str) -> int:
    """A parameter that is a whole number.

    Raises:
        InvalidParameter: it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"{name} expects a whole number, found something else") from None


register(
    LearnerEntry(
        "masked-parity",
        "the class that two rounds learn and one round cannot (KLNRS08 section 5)",
        "share of the domain's labels that the hypothesis gets wrong",
        (
            ParameterEntry("d", "bits of the mask, a power of two in 2..1024 (8 without data)"),
            ParameterEntry(
                "variant", "signed: one question reads the mask; printed: d questions", "signed"
            ),
        ),
        _masked_parity,
    )
)
register(
    LearnerEntry(
        "conjunctions",
        "monotone conjunctions over d bits, asked all at once",
        "share of labels that the hypothesis gets wrong, under the population's distribution",
        (
            ParameterEntry("d", "variables (8 without data)"),
            ParameterEntry("accuracy", "the allowed error", "1/10"),
        ),
        _conjunctions,
    )
)
register(
    LearnerEntry(
        "frequency",
        "the share of users in each cell of a category",
        "greatest distance of an estimated share from the population's, over cells",
        (
            ParameterEntry("column", "the category (default: the label, or the only one)"),
            ParameterEntry("cells", "how many cells, to plan without data (16)"),
            ParameterEntry("tau", "how exactly each share is wanted (default: as users allow)"),
        ),
        _frequency,
    )
)
register(
    LearnerEntry(
        "mean",
        "the mean of a number over users",
        "distance of the estimated mean from the population's, in real units",
        (
            ParameterEntry("column", "the number (default: the only one)"),
            ParameterEntry("tau", "how exactly the mean is wanted (default: as users allow)"),
            ParameterEntry(
                "objective",
                "the least variance for: minimax, the worst population (default); conditional, the"
                " mean of those who answer; prior, a population like the prior",
            ),
            ParameterEntry(
                "prior",
                "of objective=prior, public, never made from the data: POINT:WEIGHT with commas, or"
                " small, middle (halves with each tenth of the range)",
            ),
        ),
        _mean,
    )
)
