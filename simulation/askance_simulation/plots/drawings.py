"""Drawing of each shape: the table from a shape to its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from askance_aggregator.learners.shapes import (
    Centres,
    Coefficients,
    Components,
    ConfusionTable,
    DistributionFunction,
    Effect,
    FrequentValues,
    Intervals,
    NoShape,
    Predictions,
    ResultShape,
    RuleList,
    Tables,
    TimeSeries,
    Tree,
)
from askance_client.errors import InvalidParameter
from askance_simulation.plots.centres import centres
from askance_simulation.plots.content import Content
from askance_simulation.plots.diagrams import rule_list, tree
from askance_simulation.plots.distribution import distribution
from askance_simulation.plots.estimates import effect, frequent_values, intervals
from askance_simulation.plots.picture import Picture
from askance_simulation.plots.predictions import confusion, predictions
from askance_simulation.plots.tables import tables
from askance_simulation.plots.time_series import time_series
from askance_simulation.plots.weights import coefficients, components


def draw(shape: ResultShape | None, content: Content) -> Picture:
    """Draw a shape.

    Args:
        shape: of the hypothesis; None: it has none.
        content: rows and text beside it.

    Raises:
        InvalidParameter: there is no shape, or its picture would say nothing; the reason is named.
    """
    if shape is None:
        raise InvalidParameter("plot: expected a hypothesis with a picture, got lines of text")
    return DRAWINGS[type(shape)](shape, content)


def _refuse(shape: NoShape, content: Content) -> Picture:
    raise InvalidParameter(f"plot: expected a result with a picture, got none: {shape.reason}")


DRAWINGS: Mapping[type[ResultShape], Callable[[Any, Content], Picture]] = MappingProxyType(
    {
        Centres: centres,
        Coefficients: coefficients,
        Components: components,
        ConfusionTable: confusion,
        DistributionFunction: distribution,
        Effect: effect,
        FrequentValues: frequent_values,
        Intervals: intervals,
        NoShape: _refuse,
        Predictions: predictions,
        RuleList: rule_list,
        Tables: tables,
        TimeSeries: time_series,
        Tree: tree,
    }
)
