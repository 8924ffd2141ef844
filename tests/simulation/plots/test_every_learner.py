"""Pictures of every learner of the registry: drawn and readable at 600 pixels, or refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from askance_aggregator.learners import (
    Marginal,
    Marginals,
    MeanEstimate,
    Quantile,
    Quantiles,
    hypothesis_json,
    learners,
    presentation_of,
)
from askance_aggregator.learners import shapes as shapes_module
from askance_aggregator.learners.learning import Answer
from askance_aggregator.learners.presentation import EstimateRow
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
    shape_on_rows,
)
from askance_aggregator.oracles import learn
from askance_client.errors import InvalidParameter
from askance_simulation.plots import result_picture
from askance_simulation.plots.drawings import DRAWINGS, draw
from askance_simulation.plots.picture import Content, Picture
from tests.worlds import ORACLES, world

NAMES = [entry.name for entry in learners()]
WIDTH = 600  # pixels
LEAST_HEIGHT = 9  # pixels of a text at that width
REFUSED = {
    "masked-parity": "one line of text",
    "mean": "one mean is one number",
    "linear-svm": "expected two weights or more",
    "logistic-regression": "expected two weights or more",
    "perceptron": "expected two weights or more",
    "random-features": "is curved",
    "linear-regression": "expected two weights or more",
    "ridge-regression": "expected two weights or more",
    "huber-regression": "expected two weights or more",
}
"""Learners whose small worlds have too little for a picture of the JSON alone, and the reason."""


def check_readable(picture: Picture, path: Path) -> None:
    """Check a picture as it is at 600 pixels: title, axes' names, and texts that do not touch."""
    figure = picture.figure
    figure.set_dpi(WIDTH / figure.get_size_inches()[0])
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    title = figure._suptitle
    assert title is not None
    assert len(title.get_text().split("\n")) >= 2
    renderer = canvas.get_renderer()
    height = figure.get_size_inches()[1] * figure.get_dpi()
    texts = [title, *([figure._supxlabel] if figure._supxlabel is not None else [])]
    for axes in figure.axes:
        named = axes.get_xlabel() and (axes.get_ylabel() or axes.get_yticklabels())
        assert named or not axes.axison
        for axis in (axes.xaxis, axes.yaxis):
            labels = _shown(axis, axes)
            check_apart([label.get_window_extent(renderer) for label in labels], labels)
            texts += labels
        texts += axes.texts
    for text in texts:
        if not text.get_text():
            continue
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1, text
        assert box.x1 <= WIDTH + 1, text
        assert -1 <= box.y0 <= box.y1 <= height + 1, text
        assert text.get_fontsize() * figure.get_dpi() / 72 >= LEAST_HEIGHT, text


def _shown(axis: Any, axes: Any) -> list[Any]:
    if not axes.axison:
        return []
    low, high = sorted(axis.get_view_interval())
    return [
        tick.label1
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high and tick.label1.get_text()
    ]


def check_apart(boxes: list[Any], labels: list[Any]) -> None:
    """Check that names of ticks do not overlap; of turned ones their start is compared."""
    for (one, box), (other, next_) in zip(
        zip(labels, boxes, strict=True), list(zip(labels, boxes, strict=True))[1:], strict=False
    ):
        if one.get_rotation() % 90:
            size = one.get_fontsize() * one.figure.get_dpi() / 72
            assert abs(next_.x1 - box.x1) >= 0.9 * size, (one, other)
        else:
            assert not box.overlaps(next_), (one, other)


@pytest.fixture(scope="module", params=NAMES)
def learned(request: pytest.FixtureRequest) -> tuple[str, Any, Any]:
    of = world(request.param)
    with ORACLES["empirical"](of) as answers:
        return request.param, learn(of.learner, answers), of.people


def _content(name: str, hypothesis: Any) -> Content:
    shown = presentation_of(hypothesis)
    return Content(
        f"{name}, 2,000 users, ε = 8", shown.rows, (), shown.shares, shown.ranked, shown.subject
    )


def test_every_learner_s_result_draws_from_its_json_or_is_refused_with_a_sentence(
    learned: tuple[str, Any, Any], tmp_path: Path
) -> None:
    name, hypothesis, _ = learned
    data = json.loads(json.dumps(hypothesis_json(hypothesis)))
    content = {
        "learner": name,
        "hypothesis": data,
        "users": 2000,
        "confidence": 0.95,
        "epsilon": {"budget": 8.0},
    }
    if name in REFUSED:
        with pytest.raises(InvalidParameter, match=REFUSED[name]) as caught:
            result_picture(content)
        assert "\n" not in str(caught.value)
        return
    check_readable(result_picture(content), tmp_path / f"{name}.png")


def test_every_learner_that_predicts_is_drawn_on_rows_of_users_who_were_not_asked(
    learned: tuple[str, Any, Any], tmp_path: Path
) -> None:
    name, hypothesis, people = learned
    if people.unseen is None:
        return
    shape = shape_on_rows(hypothesis, people.unseen(500), people.schema)
    if shape is not None:
        check_readable(draw(shape, _content(name, hypothesis)), tmp_path / f"{name}.png")


def test_every_shape_has_a_drawing() -> None:
    kinds = {
        kind
        for kind in vars(shapes_module).values()
        if isinstance(kind, type) and issubclass(kind, ResultShape) and kind is not ResultShape
    }
    assert kinds == set(DRAWINGS)


LONG = tuple(f"a value whose name does not end before the {n}th word, $x_{n}$" for n in range(30))
ROWS = tuple(EstimateRow(name, 0.03, 0.01, 0.05) for name in LONG)
EPOCHS = [EstimateRow(f"2026-{n:03}", n / 300, n / 400, n / 200) for n in range(256)]
TABLE = TwoWayTable("sex", "place", ("f", "m"), LONG, ((1 / 60,) * 30,) * 2)
CELL = TwoWayTable("a", "b", ("x",), ("y",), ((0.0,),))
SQUARE = TwoWayTable("a", "b", ("x", "y"), ("u", "v"), ((0.2, 0.3),) * 2)
STEPS = tuple(DistributionPoint(n, n, n / 9, n / 9, n / 9) for n in range(10))
HOSTILE = {
    "thirty long names": (Intervals(), ROWS),
    "long names over a threshold": (FrequentValues(0.02), ROWS),
    "an effect without limits": (Effect("Difference", "means", 0.0, "none"), ROWS[:1]),
    "an effect of zero": (
        Effect("Correlation", "r", 0.0, "none", (-1.0, 1.0)),
        (EstimateRow("r", 0.0, 0.0, 0.0),),
    ),
    "tables with thirty columns": (Tables("Shares", "share", (TABLE, TABLE)), ()),
    "one cell": (Tables("Shares", "share", (CELL,)), ()),
    "ten tables": (Tables("Shares", "share", (SQUARE,) * 10), ()),
    "a step": (
        DistributionFunction("n", STEPS),
        (),
    ),
    "equal centres": (Centres(("x", "y"), ((1.0, 1.0),) * 3, (0.5, 0.5, 0.0)), ()),
    "centres of large numbers": (
        Centres(("income", "b"), ((1e9, 0.1), (2e9, 0.2)), (0.5, 0.5), ((1e8, 0.1),) * 2),
        (),
    ),
    "a series of thirty long names": (TimeSeries(), ROWS),
    "a series of 256 epochs": (TimeSeries(), tuple(EPOCHS)),
    "a leaf": (Tree("y", Branch("yes", "all", 0)), ()),
    "a rule of none": (RuleList("y", (), "1", 1), ()),
    "rules of long names": (RuleList("y", tuple((name, "0", 0) for name in LONG), "1", 1), ()),
    "thirty classes": (ConfusionTable("y", LONG, ((1,) * 30,) * 30), ()),
    "a class without rows": (ConfusionTable("y", ("a", "b"), ((5, 0), (0, 0))), ()),
    "one row": (Predictions("y", (1.0,), (0.0,)), ()),
    "forty weights": (Coefficients("y", LONG + LONG[:10], (0.5,) * 40), ()),
    "components of ten numbers": (
        Components(tuple(LONG[:10]), (0.5, 0.3), ((0.1,) * 10, (-0.2,) * 10)),
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_long_names_and_empty_parts_stay_readable(case: str, tmp_path: Path) -> None:
    shape, rows = HOSTILE[case]
    content = Content("learner, 2,000 users, ε = 1", rows, shares=True, remark="a remark; " * 20)
    check_readable(draw(shape, content), tmp_path / "picture.png")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (NoShape("a number"), "got none: a number"),
        (None, "got lines of text"),
        (
            DistributionFunction("age", (DistributionPoint(1, 2, 0.5, 0.5, 0.5),)),
            "two quantiles or more of age, got one, .*--levels 1/4,1/2,3/4",
        ),
        (Centres(("x",), ((0.0,),), (1.0,)), "expected two centres or more, got one"),
        (Coefficients("y", ("a",), (0.25,)), "one is not 0, got 0.25"),
        (Coefficients("y", ("a", "b"), (0.0, 0.0)), "got 0 of every feature"),
    ],
)
def test_a_picture_that_would_say_nothing_is_refused_in_one_line(
    shape: ResultShape | None, reason: str
) -> None:
    with pytest.raises(InvalidParameter, match=reason) as caught:
        draw(shape, Content("run"))
    assert "\n" not in str(caught.value)


class TestContent:
    def test_a_confusion_counts_what_the_assessment_calls_wrong(self) -> None:
        of = world("naive-bayes")
        with ORACLES["exact"](of) as answers:
            hypothesis = learn(of.learner, answers)
        assert of.people.unseen is not None
        rows = of.people.unseen(2_000)
        shape = shape_on_rows(hypothesis, rows, of.people.schema)
        assert isinstance(shape, ConfusionTable)
        labels = [hypothesis.classes[code] for code in rows.values["y"]]
        right = sum(a == b for a, b in zip(labels, hypothesis.predict(rows).tolist(), strict=True))
        assert shape.counts[0][0] + shape.counts[1][1] == right
        assert sum(map(sum, shape.counts)) == len(labels)

    def test_a_table_s_cells_are_the_nearest_distribution_by_its_labels(self) -> None:
        values = (0.4, 0.1, 0.2, 0.3, 0.0)
        marginal = Marginal(
            ("sex", "smokes"), (("f", "m"), ("no", "yes")), Answer(values, values, values)
        )
        shape = Marginals((marginal,)).to_shape()
        assert isinstance(shape, Tables)
        (axes,) = draw(shape, Content("run")).figure.axes
        assert axes.images[0].get_array().tolist() == [
            pytest.approx([0.4, 0.1]),
            pytest.approx([0.2, 0.3]),
        ]
        assert [text.get_text() for text in axes.texts] == ["40", "10", "20", "30"]
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("sex", "smokes")
        assert [label.get_text() for label in axes.get_yticklabels()] == ["f", "m"]

    def test_a_band_is_as_wide_as_the_intervals(self) -> None:
        points = tuple(
            DistributionPoint(n, n, n / 4, n / 4 - 0.05, n / 4 + 0.1) for n in range(1, 4)
        )
        (axes,) = draw(DistributionFunction("n", points), Content("run")).figure.axes
        (band,) = axes.collections
        corners = {(x, round(y, 9)) for x, y in band.get_paths()[0].vertices.tolist()}
        assert {(p.value_low, round(end, 9)) for p in points for end in (p.low, p.high)} <= corners

    def test_a_quantile_s_bar_spans_its_cell(self) -> None:
        found = Quantiles(
            "age", (Quantile(Fraction(1, 4), 20, 30), Quantile(Fraction(3, 4), 50, 60))
        )
        (axes,) = draw(found.to_shape(), Content("run")).figure.axes
        bars = [path.vertices.tolist() for path in axes.collections[0].get_paths()]
        assert bars == [[[20, 0.25], [30, 0.25]], [[50, 0.75], [60, 0.75]]]

    def test_an_effect_says_whether_its_interval_contains_the_null(self) -> None:
        shape = Effect("Correlation", "r", 0.0, "no correlation", (-1.0, 1.0))
        for low, told in ((0.1, "does not contain 0"), (-0.1, "contains 0")):
            row = EstimateRow("r", 0.2, low, 0.3)
            figure = draw(shape, Content("run", (row,))).figure
            assert told in figure._supxlabel.get_text()
            assert figure.axes[0].get_xlim()[0] < 0 < figure.axes[0].get_xlim()[1]

    def test_the_accuracy_is_drawn_beside_the_most_frequent_class(self) -> None:
        shape = ConfusionTable("y", ("a", "b"), ((50, 10), (20, 20)))
        _, bars = draw(shape, Content("run")).figure.axes
        assert bars.patches[0].get_height() == pytest.approx(0.7)
        assert bars.get_lines()[0].get_ydata()[0] == pytest.approx(0.6)

    def test_one_mean_says_its_number(self) -> None:
        shape = presentation_of(MeanEstimate(0.5, 0.25, 0.75)).shape
        assert isinstance(shape, NoShape)
        assert "0.5 (0.25 .. 0.75)" in shape.reason
