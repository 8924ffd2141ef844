"""A simulation's result: estimates where it has them, else errors beside a constant guess's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from askance_aggregator.learners import Assessment
from askance_aggregator.learners.presentation import Presentation
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.estimates import estimates_beside_truth
from askance_simulation.plots.picture import Picture, new_figure


def result(
    presentation: Presentation, assessments: Sequence[Assessment], confidence: float, title: str
) -> Picture:
    """Draw the result of a study.

    Args:
        presentation: of trial 0's hypothesis.
        assessments: of every trial.
        confidence: of the intervals.
        title: above the picture.

    Raises:
        InvalidParameter: there are neither estimates nor errors, or one error and nothing beside
            which it says something.
    """
    if presentation.rows:
        return estimates_beside_truth(presentation, assessments[0].truth, confidence, title)
    errors = [one.error for one in assessments if one.error is not None]
    if len(errors) < len(assessments):
        raise InvalidParameter("plot: expected a hypothesis with a truth to hold it to, got none")
    baselines = [one.baseline for one in assessments if one.baseline is not None]
    guess = sum(baselines) / len(baselines) if baselines else None
    figure = new_figure(height=3.6 if len(errors) > 1 else 2.2)
    if len(errors) > 1:
        _errors(figure.add_subplot(), errors, [one.success for one in assessments], guess, title)
    elif guess is not None:
        _beside_guess(figure.add_subplot(), errors[0], guess, title)
    else:
        raise InvalidParameter(
            f"plot: expected several trials, got one, whose error of {errors[0]:.4g} is no picture"
            " by itself (--trials 20; or --plot-kind rounds)"
        )
    return Picture(figure)


def _beside_guess(axes: Any, error: float, guess: float, title: str) -> None:
    """Draw the error of one trial above that of a constant guess."""
    axes.barh([1, 0], [error, guess], color=[style.ACCENT, style.QUIET], height=0.6)
    for place, value in ((1, error), (0, guess)):
        axes.annotate(
            f"{value:.3g}", (value, place), xytext=(4, 0), textcoords="offset points", va="center"
        )
    style.plain(axes, title=title, across="error", up="")
    axes.set_yticks([1, 0], ["this result", "a constant guess"])
    axes.set_xlim(0, 1.15 * max(error, guess, 1e-9))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)


def _errors(
    axes: Any,
    errors: Sequence[float],
    successes: Sequence[bool | None],
    guess: float | None,
    title: str,
) -> None:
    """Draw every trial's error, and a line at a constant guess's."""
    wrong = [place for place, right in enumerate(successes) if right is False]
    others = [place for place in range(len(errors)) if place not in set(wrong)]
    judged = any(right is not None for right in successes)
    for places, colour, marker, label in (
        (others, style.ACCENT, "o", "a success" if judged else "a trial"),
        (wrong, style.BAD, "X", "no success"),
    ):
        if places:
            heights = [errors[place] for place in places]
            axes.scatter(places, heights, c=colour, s=24, marker=marker, label=label)
    if guess is not None:
        axes.axhline(guess, color=style.QUIET, linestyle="--", label="a constant guess")
    style.plain(axes, title=title, across="trial", up="error")
    style.legend_beside(axes)
    top = max(0.1, 1.1 * max(*errors, guess or 0.0))
    axes.set_ylim(bottom=-top / 40, top=top)  # space for the points on zero
    # Space around whole numbers, also around a few.
    axes.set_xlim(-0.5, len(errors) - 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
