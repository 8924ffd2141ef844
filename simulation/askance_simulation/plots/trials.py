"""A simulation's result: estimates beside the truth where it has them, else errors by trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.estimates import estimates_beside_truth
from askance_simulation.plots.picture import Picture, new_figure


def result(
    cells: Mapping[str, Mapping[str, float]] | None,
    truth: Sequence[float],
    assessments: Sequence[tuple[float | None, bool | None]],
    confidence: float,
    title: str,
) -> Picture:
    """Draw the result of a study.

    Args:
      cells: trial 0's estimates with their intervals, by name; None: it has none.
      truth: of each.
      assessments: every trial's error, and whether it found the target.
      confidence: of the intervals.
      title: above the picture.

    Raises:
      InvalidParameter: neither estimates nor errors.
    """
    if cells and truth:
        return estimates_beside_truth(cells, truth, confidence, title)
    figure = new_figure(height=3.6)
    _errors(figure.add_subplot(), assessments, title)
    return Picture(figure)


def _errors(axes: Any, assessments: Sequence[tuple[float | None, bool | None]], title: str) -> None:
    errors = [error for error, _ in assessments if error is not None]
    if len(errors) < len(assessments):
        raise InvalidParameter("plot: expected a hypothesis with a truth to hold it to, got none")
    wrong = [place for place, (_, right) in enumerate(assessments) if right is False]
    others = [place for place in range(len(assessments)) if place not in set(wrong)]
    judged = any(right is not None for _, right in assessments)
    for places, colour, marker, label in (
        (others, style.ACCENT, "o", "the target" if judged else "a trial"),
        (wrong, style.BAD, "X", "not the target"),
    ):
        if places:
            heights = [errors[place] for place in places]
            axes.scatter(places, heights, c=colour, s=24, marker=marker, label=label)
    style.plain(axes, title=title, across="trial", up="error")
    if judged:
        style.legend_beside(axes)
    top = max(0.1, 1.1 * max(errors))
    axes.set_ylim(bottom=-top / 40, top=top)  # space for the points on zero
    # Space around whole numbers, also around a single one.
    axes.set_xlim(-0.5, len(assessments) - 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
