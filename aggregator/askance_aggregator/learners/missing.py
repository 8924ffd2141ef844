"""Missing values: whether users without a value are part of an answer, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.hypotheses import JsonObject
from askance_aggregator.learners.learning import Answer, Question
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import EncodedColumns, has_all, is_required, of_complete
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Query, Schema
from askance_client.queries.program import postorder

EXCLUDE = "exclude"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class MissingShare(JsonObject):
    """Estimated share of users without a value, in [0, 1], with its interval."""

    json_name: ClassVar = "missing"

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, answer: Answer) -> MissingShare | None:
        """The share without the number of an answer; None where all users count."""
        present = answer.present
        if present is None:
            return None
        return cls.outside(present.share, present.low, present.high)

    @classmethod
    def outside(cls, share: float, low: float, high: float) -> MissingShare:
        """The share without, from an estimate of the share with a value and its interval."""
        missing = min(max(1 - share, 0.0), 1.0)
        return cls(missing, max(1 - high, 0.0), min(1 - low, 1.0))

    @classmethod
    def of_cell(cls, answer: Answer, cell: int) -> MissingShare:
        """The share in the cell of users without a value, from the answer for all cells."""
        share = min(max(answer.values[cell], 0.0), 1.0)
        return cls(share, answer.lows[cell], answer.highs[cell])

    def holds(self, true: float) -> bool:
        """Return whether the interval holds a share."""
        return self.low <= true <= self.high

    def __str__(self) -> str:
        return f"{self.share:.1%} of users without a value ({self.low:.1%} .. {self.high:.1%})"


@dataclass(frozen=True, slots=True)
class RequiredDefault(JsonObject):
    """Default that devices without a required number answer, and that no result can see.

    Args:
        fields: the required fields that the number reads.
        default: the default, in the unit of the estimate.
        bias: the greatest distance of the default from a value: per share of such devices an
            estimate is off by at most this.
    """

    json_name: ClassVar = "required"

    fields: tuple[str, ...]
    default: float
    bias: float

    @classmethod
    def of(
        cls, number: Expression, default: Fraction, low: Fraction, high: Fraction
    ) -> RequiredDefault | None:
        """The default of a number within low .. high; None if a field of it is not required."""
        if not is_required(number):
            return None
        names = tuple(sorted(node.name for node in postorder(number) if node.name))
        return cls(names, float(default), float(max(default - low, high - default)))

    @classmethod
    def in_query(cls, query: Query) -> RequiredDefault | None:
        """The default of a query for a number or a predicate."""
        ends = (Fraction(end, 1 << query.frac) for end in (query.default, query.low, query.high))
        return cls.of(query.expression, *ends)

    @property
    def note(self) -> str:
        """Return a sentence for a reader."""
        verb = "is" if len(self.fields) == 1 else "are"
        times = "" if self.bias == 1 else f"{self.bias:g} times "
        return (
            f"{', '.join(self.fields)} {verb} required: a device without it answers"
            f" {self.default:g} unseen, so the mean is off by at most {times}the share of such"
            " devices"
        )


def required_notes(defaults: Sequence[RequiredDefault | None]) -> tuple[str, ...]:
    """Return the notes of a presentation, one per default."""
    return tuple(each.note for each in defaults if each is not None)


def named_share(share: MissingShare | None) -> tuple[tuple[str, MissingShare], ...]:
    """Return the missing share of a presentation, without a name; none for None."""
    return () if share is None else (("", share),)


def excludes_missing(learner: str, asked: Query | Expression, missing: str | None) -> bool:
    """Return whether users without a value are left out of an answer.

    Of required fields none are: by the schema every user has a value.
    """
    excluded = is_excluded(learner, missing)
    if isinstance(asked, Query) and missing == EXCLUDE:
        raise InvalidParameter(
            f"{learner}: missing={EXCLUDE} expects an expression, got a query, which has a public"
            " default"
        )
    return excluded and not isinstance(asked, Query) and not is_required(asked)


def is_excluded(learner: str, missing: str | None) -> bool:
    """Return whether users without a value are left out.

    None means "exclude"; the other word is "default".
    """
    if missing not in (None, EXCLUDE, DEFAULT):
        raise InvalidParameter(
            f"{learner}: missing expects {EXCLUDE} or {DEFAULT}, got {value_text(missing)}"
        )
    return missing != DEFAULT


@dataclass(frozen=True, slots=True, eq=False)
class CompleteCases:
    """The users who have a value in every one of some fields; statistics are over them.

    Every question is answered by its public default, 0 or a cell for "none", unless a record has
    all the fields. So its mean is that over the complete cases times their share q, and one more
    question asks for q.

    Privacy: a report reveals no more than epsilon of which fields a user has, since the default is
    one of the query's values.

    Args:
        schema: of the fields.
        present: a promise that q is at least this; tolerances rely on it, and no interval.
    """

    schema: Schema
    present: Fraction = Fraction(1)

    @classmethod
    def promised(cls, schema: Schema, present: Rational | None) -> CompleteCases:
        """The complete cases of a schema's fields; None promises that all users are."""
        share = Fraction(1) if present is None else rational(present, "present")
        if not 0 < share <= 1:
            raise InvalidParameter(f"present expects a share in (0, 1], got {value_text(present)}")
        return cls(schema, share)

    def of(self, query: Query) -> Query:
        """The same query, answered by its public default outside the complete cases."""
        return of_complete(query, self._fields)

    def share(self, tau: Fraction | None = None) -> Question:
        """Ask for q, the share of complete cases."""
        return Question(has_all(self._fields), tau)

    def tolerance(self, tau: Fraction | None) -> Fraction | None:
        """The tolerance of a question whose answer is divided by q, if the promise holds."""
        return None if tau is None else tau * self.present

    @property
    def _fields(self) -> dict[str, Expression]:
        return {name: self.schema[name] for name in self.schema.fields}


def missing_in(answer: Answer) -> MissingShare:
    """The share of users outside the complete cases, from the answer to `CompleteCases.share`."""
    return MissingShare.outside(answer.value, answer.low, answer.high)


def complete_rows(rows: EncodedColumns, schema: Schema) -> NDArray[np.bool_]:
    """Return the mask of the rows that have all fields of a schema, shape (n,)."""
    mask = np.ones(len(rows), dtype=np.bool_)
    for name in schema.fields:
        mask &= rows.present[name]
    return mask


def of_complete_cases(hypothesis: object) -> bool:
    """Return whether a hypothesis is of the users who have all of its fields.

    It says how many have not, as `missing`, or that they alone count, as `complete_cases`.
    """
    told = isinstance(getattr(hypothesis, "missing", None), MissingShare)
    return told or getattr(hypothesis, "complete_cases", False)


def leaves_out_missing(hypothesis: object) -> bool:
    """Return whether users without a value are no part of a hypothesis's statistics.

    Such a hypothesis states how many they are, as `missing`, or is `of_complete_cases`.
    """
    return getattr(hypothesis, "missing", None) is not None or of_complete_cases(hypothesis)
