"""Bounds that are far too wide for the values of a simulation, and what narrower ones would give.

Noise of an answer about a number grows with the number's range, so bounds that few users are near
cost every user's exactness. The values of the simulated users are read for this, which no deployed
study may do: a plan can only ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import Difference, MeanEstimate, MeanVector, NonAdaptive
from askance_aggregator.learners.assessments import sample_of, values_in
from askance_aggregator.queries import EncodedColumns, among_present
from askance_aggregator.reports.verdict import ResultVerdict, WideBounds
from askance_aggregator.studies.advice import GAIN
from askance_aggregator.studies.study import Study
from askance_client.queries import Integer, QueryKind, Real
from askance_simulation.populations import Population

Values = NDArray[np.float64]

_FAR = 1 / 3  # of the bounds: what nearly all values span, where they are far too wide
_KEPT = (0.95, 0.98, 0.99, 0.995, 1.0)  # shares of the users within narrower bounds
_NEARLY_ALL = 0.98
_LEAST = 20  # values, below which a span says little
_DIGITS = 2  # of the ends of narrower bounds


def wide_bounds(
    study: Study, people: Population, hypothesis: object, verdict: ResultVerdict
) -> tuple[WideBounds, ...]:
    """Return the columns of a study whose bounds are far too wide for their values.

    Of a mean, a difference or means of several numbers, those where the half width and the change
    by clamped users together would be smaller by more than a third. Of other results all of them,
    where noise is in the way.
    """
    kinds = {name: people.schema.fields[name] for name in study.fields}
    numbers = {name: kind for name, kind in kinds.items() if isinstance(kind, Integer | Real)}
    found: list[WideBounds] = []
    sample = sample_of(people) if numbers else []
    for name, kind in numbers.items():
        values = np.sort(values_in(among_present(people.schema[name], 1), sample))
        bounds = float(kind.low), float(kind.high)
        low, high = shortest(values, _NEARLY_ALL) if len(values) >= _LEAST else bounds
        if high - low > _FAR * (bounds[1] - bounds[0]):
            continue
        column = _Column(name, bounds, values)
        effect = _effect(study, sample, hypothesis, column)
        spans = dict.fromkeys(_rounded(shortest(values, part), bounds) for part in _KEPT)
        options = [column.within(span, effect) for span in spans if column.narrows(span)]
        found += _best(options, verdict)
    return tuple(found)


class _Effect(NamedTuple):
    """Estimate about a column: its name, its half width, and the values that it is made of."""

    # With two groups of values it is the difference of the second mean and the first.

    estimate: str
    half_width: float
    groups: Sequence[Values]

    def move(self, span: tuple[float, float]) -> float:
        """Return the change of the true estimate if values are clamped to a span."""
        moves = [
            float((np.clip(values, *span) - values).mean()) if len(values) else 0.0
            for values in self.groups
        ]
        return moves[-1] - moves[0] if len(moves) > 1 else moves[0]


class _Column(NamedTuple):
    """Column with the bounds of its schema and its sorted values."""

    name: str
    bounds: tuple[float, float]
    values: Values

    def part(self, span: tuple[float, float]) -> float:
        """Return the length of a span over that of the bounds."""
        return (span[1] - span[0]) / (self.bounds[1] - self.bounds[0])

    def narrows(self, span: tuple[float, float]) -> bool:
        """Return whether a span as bounds would make noise smaller by more than a third."""
        return 0 < self.part(span) <= GAIN

    def within(self, span: tuple[float, float], effect: _Effect | None) -> WideBounds:
        """Return what a span as bounds would give."""
        clamped = float(((self.values < span[0]) | (self.values > span[1])).mean())
        found = WideBounds(self.name, self.bounds, shortest(self.values, 0.5), span, clamped)
        if effect is None:
            return found
        return replace(
            found,
            half_width=effect.half_width * self.part(span),
            move=effect.move(span),
            estimate=effect.estimate,
        )


def shortest(values: Values, part: float) -> tuple[float, float]:
    """Return the shortest span with a part of some sorted values, of equal ones the lowest."""
    kept = max(ceil(part * len(values)), 1)
    widths = values[kept - 1 :] - values[: len(values) - kept + 1]
    place = int(widths.argmin())
    return float(values[place]), float(values[place + kept - 1])


def _best(options: Sequence[WideBounds], verdict: ResultVerdict) -> Iterator[WideBounds]:
    """Generate the option with the least error; none if no more than a third is gained."""
    for option in sorted(options, key=_error):
        if option.half_width is None or option.move is None:
            if verdict.helped_by_users and option.clamped <= 1 - _NEARLY_ALL:
                yield option
                return
            continue
        (low, high), (least, most) = option.narrower, option.bounds
        if _error(option) <= GAIN * option.half_width * (most - least) / (high - low):
            yield option
        return


def _error(option: WideBounds) -> float:
    """Return the half width and the change together; without an estimate, the span."""
    if option.half_width is None or option.move is None:
        return option.narrower[1] - option.narrower[0]
    return option.half_width + abs(option.move)


def _effect(
    study: Study, sample: Sequence[EncodedColumns], hypothesis: object, column: _Column
) -> _Effect | None:
    """Return the estimate that is about a column alone; None: there is none."""
    if isinstance(hypothesis, MeanVector) and hypothesis.radius is None:
        place = hypothesis.fields.index(column.name)
        width = (hypothesis.highs[place] - hypothesis.lows[place]) / 2
        return _Effect("mean", width, [column.values])
    learner = study.learner
    if not isinstance(hypothesis, MeanEstimate | Difference) or not isinstance(
        learner, NonAdaptive
    ):
        return None
    queries = [question.query for question in learner.batch.questions]
    fields = study.schema.fields
    about = {
        name
        for query in queries
        for name in query.fields_used
        if isinstance(fields[name], Integer | Real)
    }
    if about != {column.name} or any(query.kind is not QueryKind.REAL for query in queries):
        return None  # a share, or a function of several numbers
    name = "difference" if isinstance(hypothesis, Difference) else "mean"
    groups = [values_in(query, sample) for query in queries]
    return _Effect(name, (hypothesis.high - hypothesis.low) / 2, groups)


def _rounded(span: tuple[float, float], bounds: tuple[float, float]) -> tuple[float, float]:
    """Round the ends of a span outward to two digits of its length, within the bounds."""
    width = span[1] - span[0]
    if width <= 0:
        return span
    unit = 10.0 ** (floor(log10(width)) - _DIGITS + 1)
    low, high = floor(span[0] / unit) * unit, ceil(span[1] / unit) * unit
    return max(low, bounds[0]), min(high, bounds[1])
