"""Presentation of a hypothesis for readers: rows of estimates with intervals, and lines of text.

A hypothesis states its presentation by a method `present()`, as it states its JSON by `to_json()`.
One without the method is presented by its JSON: by its "summary" or else by its parts, by the
field that it predicts ("label", "target"), and by the share of users without a value ("missing").
Terminals, notebooks and reports decide on format and length; a presentation has all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from askance_aggregator.learners.hypotheses import hypothesis_from_json, hypothesis_json
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.shapes import Intervals, ResultShape, shape_of, shape_with_texts
from askance_aggregator.names import ColumnNames
from askance_client.errors import InvalidParameter

_SUBJECTS = ("label", "target", "column")  # members of a hypothesis's JSON that name what it is of


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """Estimate of one number with its interval.

    Args:
        estimate: raw estimate; it may lie outside of the interval, which is clipped to what is
            possible.
        projected: nearest possible value, where all rows together have one; None: there is none.
        group: heading of the rows that belong together; empty: none.
    """

    name: str
    estimate: float
    low: float
    high: float
    projected: float | None = None
    group: str = ""

    @property
    def shown(self) -> float:
        """Value for readers: the projected one, or else the raw one, moved into the interval."""
        value = self.estimate if self.projected is None else self.projected
        return min(max(value, self.low), self.high)

    @property
    def label(self) -> str:
        """Name with its group, by which rows of several results are matched."""
        return f"{self.group} {self.name}" if self.group else self.name


@dataclass(frozen=True, slots=True)
class Null:
    """Value of an estimate where there is nothing to find: no difference, no correlation.

    Args:
        subject: name of the estimate, in a sentence.
        p_value: of the hypothesis that the estimate has this value; None: there is no test.
        asymptotic: whether the p-value is that of the normal law of many reports, or the like, and
            not an upper bound for every number of users.
        detectable: difference from the value that so many users find with a chance of 80 %; None:
            not known.
        undetermined: reason for which there is no asymptotic interval or test; empty: there is one.
    """

    subject: str
    value: float = 0.0
    p_value: float | None = None
    asymptotic: bool = False
    detectable: float | None = None
    undetermined: str = ""


@dataclass(frozen=True, slots=True)
class Presentation:
    """Rows and lines that present a hypothesis.

    Args:
        rows: estimates, in the order of `Assessment.truth` where there is one.
        shares: whether the rows are shares of users, in [0, 1].
        ranked: whether readers want the greatest estimates first; False: the rows have an order.
        lines: text beside the rows, or in place of them.
        notes: remarks on the estimates, a sentence each.
        missing: estimated shares of users without a value, whom the estimates leave out, each with
            the name of what they lack; an empty name: any value.
        null: value that the first estimate is compared with; None: there is none.
        asymptotic: whether the rows' intervals are those of many reports, and do not hold for every
            number of users.
        whole: least and greatest possible value of every estimate; None: not known.
        subject: name of what was learned about; empty: the fields of the study.
        shape: data of the picture (`shapes`); None: there is none.
        constant: whether it predicts one value, the same for every user.
        apart: places of rows, of those in an order, whose intervals do not overlap; as many as
            there can be. They are shown unless all are wanted. None: not known.
    """

    rows: tuple[EstimateRow, ...] = ()
    shares: bool = False
    ranked: bool = True
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[tuple[str, MissingShare], ...] = ()
    null: Null | None = None
    asymptotic: bool = False
    whole: tuple[float, float] | None = None
    subject: str = ""
    shape: ResultShape | None = None
    constant: bool = False
    apart: tuple[int, ...] | None = None

    def named(self, names: ColumnNames) -> Presentation:
        """Return the presentation with columns' names in its texts."""
        if not names.renamed:
            return self
        text = names.in_text
        return replace(
            self,
            rows=tuple(
                replace(row, name=text(row.name), group=text(row.group)) for row in self.rows
            ),
            lines=tuple(map(text, self.lines)),
            notes=tuple(map(text, self.notes)),
            subject=text(self.subject),
            shape=None if self.shape is None else shape_with_texts(self.shape, text),
        )


def presentation_of(hypothesis: Any) -> Presentation:
    """Return the presentation of a hypothesis, by its own `present()` or by its JSON.

    Its shape is that of `to_shape()`; without that, its rows are drawn if there are two or more.
    """
    found: Presentation = (
        hypothesis.present()
        if hasattr(hypothesis, "present")
        else _of_json(hypothesis_json(hypothesis))
    )
    rows = Intervals() if len(found.rows) > 1 else None
    return replace(
        found,
        shape=found.shape or shape_of(hypothesis) or rows,
        constant=getattr(hypothesis, "is_constant", False) is True,
    )


def presentation_of_json(learner: str, data: Any) -> Presentation:
    """Return the presentation of the hypothesis in a printed result.

    A learner that is not installed is presented by the JSON alone, which may come from any source.
    """
    with suppress(InvalidParameter):
        return presentation_of(hypothesis_from_json(learner, data))
    return _of_json(data)


def table_of(hypothesis: Any, truth: Sequence[float], learner: str) -> list[dict[str, Any]]:
    """Return a hypothesis as rows of a table.

    Estimates have a row each: its group and name, the raw estimate, the ends of its interval, the
    value for readers within it, and the truth. Other hypotheses state their rows by a method
    `to_rows()`.

    The truth is that of the estimates, in their order; empty: not known.

    Raises:
        InvalidParameter: the hypothesis has neither estimates nor a table.
    """
    rows = presentation_of(hypothesis).rows
    if not rows and hasattr(hypothesis, "to_rows"):
        return list(hypothesis.to_rows())
    if not rows:
        raise InvalidParameter(
            f"rows: expected a hypothesis with estimates or a table, got that of {learner}; its"
            " JSON has all of it"
        )
    known = truth if len(truth) == len(rows) else [None] * len(rows)
    return [
        {
            "group": row.group,
            "name": row.name,
            "estimate": row.estimate,
            "low": row.low,
            "high": row.high,
            "shown": row.shown,
            "truth": true,
        }
        for row, true in zip(rows, known, strict=True)
    ]


def _of_json(data: Any) -> Presentation:
    """Present JSON: its "summary" or else its parts, what it predicts, and its missing share."""
    if not isinstance(data, dict):
        return Presentation(lines=tuple(str(data).splitlines()))
    if not isinstance(data.get("summary"), str):
        return Presentation(lines=tuple(f"{name} = {part}" for name, part in data.items()))
    subjects = (data[key] for key in _SUBJECTS if isinstance(data.get(key), str))
    missing: tuple[tuple[str, MissingShare], ...] = ()
    if isinstance(data.get("missing"), dict):
        with suppress(InvalidParameter):
            missing = (("", MissingShare.from_json(data["missing"])),)
    return Presentation(
        lines=tuple(data["summary"].splitlines()), missing=missing, subject=next(subjects, "")
    )
