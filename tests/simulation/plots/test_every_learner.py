"""Pictures of every learner of the registry: drawn and readable at 600 pixels, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from askance_aggregator.learners import hypothesis_json, learners, presentation_of
from askance_aggregator.learners import shapes as shapes_module
from askance_aggregator.learners.shapes import (
    Shape,
    shape_on_rows,
)
from askance_aggregator.oracles import learn
from askance_client.errors import InvalidParameter
from askance_simulation.experiments.worlds import ORACLES, world
from askance_simulation.plots import result_picture
from askance_simulation.plots.content import Content
from askance_simulation.plots.drawings import DRAWINGS, draw
from askance_simulation.plots.picture import Picture

NAMES = [entry.name for entry in learners()]
WIDTH = 600  # pixels
LEAST_HEIGHT = 9  # pixels of a text at that width
REFUSED = {
    "masked-parity": "one line of text",
    "mean": "one mean is one number",
    "linear-svm": "expected two weights or more",
    "logistic-regression": "expected two weights or more",
    "perceptron": "expected two weights or more",
    "linear-regression": "expected two weights or more",
    "ridge-regression": "expected two weights or more",
    "huber-regression": "expected two weights or more",
}
"""Learners whose small worlds have too little for a picture of the JSON alone, and the reason."""


def check_readable(picture: Picture, path: Path) -> None:
    """Check a picture as it is at 600 pixels: title, axes' names, and texts that do not touch."""
    figure = picture.figure
    figure.set_dpi(WIDTH / figure.get_size_inches()[0])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    figure.savefig(path, dpi=figure.get_dpi())
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
        if isinstance(kind, type) and issubclass(kind, Shape) and kind is not Shape
    }
    assert kinds == set(DRAWINGS)
