"""Pictures of hypotheses: one per shape, well-formed, with names escaped and a table beside it."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from askance.console.charts.hypotheses import PICTURES, picture_of, picture_of_json
from askance_aggregator.learners import EstimateRow, Presentation
from askance_aggregator.learners.shapes import (
    Branch,
    Centres,
    Coefficients,
    Components,
    ConfusionTable,
    DistributionFunction,
    DistributionPoint,
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
    TwoWayTable,
)

NAME = '<b a="1">&\''
ROWS = tuple(EstimateRow(f"{NAME}{n}", n / 9, n / 9 - 0.1, n / 9 + 0.1) for n in range(9))
FLAT = (EstimateRow(NAME, 0.0, 0.0, 0.0),)
LEAF = Branch(NAME, NAME, 1)
SHAPES: tuple[ResultShape, ...] = (
    Intervals(),
    TimeSeries(),
    Effect(NAME, NAME, 0.0, NAME, (0.0, 1.0)),
    FrequentValues(0.25),
    Tables(NAME, NAME, (TwoWayTable(NAME, NAME, ("a", NAME), (NAME,), ((0.25,), (0.75,))),)),
    DistributionFunction(NAME, (DistributionPoint(1, 2, 0.25, 0.25, 0.25),) * 2),
    DistributionFunction(NAME, (DistributionPoint(1, 1, 0.25, 0.2, 0.3),) * 2),
    Centres((NAME,), ((1.0,), (1.0,)), (0.5, 0.5)),
    Centres((NAME, "b"), ((1.0, -2.0), (3.0, 4.0)), (0.25, 0.75)),
    Tree(NAME, Branch(NAME, "", None, (LEAF, Branch(NAME, "", None, (LEAF, LEAF))))),
    RuleList(NAME, ((NAME, NAME, 0),), NAME, 1),
    RuleList(NAME, (), NAME, 1),
    Coefficients(NAME, (NAME, "b"), (-0.5, 0.25)),
    Coefficients(NAME, (NAME,), (0.0,)),
    Components((NAME, "b"), (0.75, 0.25), ((1.0, 0.0), (0.0, 1.0))),
)


def test_every_shape_of_a_result_has_a_function() -> None:
    kinds = {kind.__name__ for kind in ResultShape.__subclasses__()}
    of_rows = {ConfusionTable.__name__, Predictions.__name__}  # of users who were not asked
    assert {kind.__name__ for kind in PICTURES} == kinds - of_rows
    assert {type(shape) for shape in SHAPES} == set(PICTURES) - {NoShape}
    assert picture_of(NoShape("a line"), Presentation()) is None
    assert picture_of(None, Presentation()) is None


@pytest.mark.parametrize("rows", [ROWS, FLAT, ROWS * 12], ids=["some", "one", "many"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape).__name__)
def test_a_picture_is_well_formed_and_named(
    shape: ResultShape, rows: tuple[EstimateRow, ...]
) -> None:
    found = picture_of(shape, Presentation(rows, shares=True))
    assert found is not None
    for drawn in found.charts:
        root = ElementTree.fromstring(str(drawn))
        assert (root.tag, root.get("role")) == ("svg", "img")
        assert root.get("aria-label") == root.findtext("title") != ""
        _, _, wide, high = map(float, str(root.get("viewBox")).split())
        places = [float(value) for one in root.iter() for value in sides(one)]
        assert places
        assert -1 <= min(places) <= max(places) <= max(wide, high) + 1
        assert not root.findall(".//b")
    assert all(len(row) == len(found.grid.heads) for row in found.grid.rows)
    assert found.grid.heads or found.grid.rows == []


def test_a_distribution_is_drawn_by_its_rows_which_are_its_table() -> None:
    points = (DistributionPoint(3, 3, 0.25, 0.22, 0.28), DistributionPoint(9, 9, 1, 1, 1))
    rows = (EstimateRow("up to 3", 0.25, 0.22, 0.28), EstimateRow("up to 9", 1.0, 1.0, 1.0))
    found = picture_of(DistributionFunction("n", points), Presentation(rows, shares=True))
    assert found is not None
    assert found.grid.rows == []
    assert found.caption == "n: share of users up to each value"
    assert "up to 3" in found.charts[0]


def test_a_mean_is_drawn_within_what_is_possible() -> None:
    shown = Presentation((EstimateRow("mean", 55.0, 48.0, 61.0),), whole=(17.0, 90.0))
    found = picture_of(NoShape("one mean is one number"), shown)
    assert found is not None
    assert found.caption == "Estimate with its interval, within 17 to 90"
    assert str(found.charts[0]).count("<circle") == 1
    ticks = re.findall('text-anchor="middle">([0-9]+)<', str(found.charts[0]))
    assert ticks == ["0", "20", "40", "60", "80", "100"]


def test_a_model_that_is_a_constant_has_no_picture() -> None:
    constant = Presentation(lines=("school",), constant=True)
    assert picture_of(Tree("education", LEAF), constant) is None


def test_quantiles_have_the_interval_of_each_value() -> None:
    points = (
        DistributionPoint(3, 4, 0.25, 0.25, 0.25),
        DistributionPoint(9, 9, 1 / 3, 1 / 3, 1 / 3),
    )
    found = picture_of(DistributionFunction("n", points), Presentation())
    assert found is not None
    assert found.grid.heads == ["Share of users", "Value from", "Value to"]
    assert found.grid.rows == [("25 %", "3", "4"), ("33.33 %", "9", "9")]
    assert found.caption == "n: value up to which each share of users lies"
    assert "25 % of users" in found.charts[0]


@pytest.mark.parametrize(("size", "drawn"), [(20, 20), (21, 11), (64, 16), (256, 20)])
def test_a_long_distribution_is_drawn_to_its_end_and_says_how_much(size: int, drawn: int) -> None:
    points = tuple(DistributionPoint(n, n, n / size, n / size, n / size) for n in range(size))
    rows = tuple(EstimateRow(f"up to {n}", *(n / size,) * 3) for n in range(size))
    found = picture_of(DistributionFunction("n", points), Presentation(rows, shares=True))
    assert found is not None
    part = "" if size == drawn else f"; {drawn} of {size} are drawn"
    assert found.caption == f"n: share of users up to each value{part}"
    assert str(found.charts[0]).count("<circle") == drawn
    assert f">up to {size - 1}<" in found.charts[0]


def sides(one: Any) -> list[str]:
    return [one.get(name) for name in ("x", "x1", "x2", "cx", "y", "y1", "cy") if one.get(name)]


def test_the_bits_of_a_parity_are_drawn() -> None:
    found = picture_of_json("masked-parity", {"r": "01" * 10, "a": 1})
    assert found is not None
    root = ElementTree.fromstring(str(found.charts[0]))
    assert len(root.findall("rect")) == 20
    assert found.grid.rows[-1] == ("a", "1")
    assert picture_of_json("frequency", {}) is None
