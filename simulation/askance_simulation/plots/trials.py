"""Errors of trials, and of one trial beside a constant guess's."""

from __future__ import annotations

from collections.abc import Sequence

from askance_aggregator.learners import Assessment
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure


def trials(assessments: Sequence[Assessment], content: Content) -> Picture:
    """Draw every trial's error, and a line at a constant guess's.

    Raises:
        InvalidParameter: a trial has no error, or there is one trial.
    """
    errors = _errors(assessments)
    if len(errors) < 2:
        raise InvalidParameter("plot: expected several trials, got one (--trials 20)")
    guess = _guess(assessments)
    successes = [one.success for one in assessments]
    wrong = [place for place, right in enumerate(successes) if right is False]
    others = [place for place in range(len(errors)) if place not in set(wrong)]
    judged = any(right is not None for right in successes)
    figure = fitted_figure(3.6)
    axes = figure.add_subplot()
    for places, colour, marker, label in (
        (others, style.ACCENT, "o", "a success" if judged else "a trial"),
        (wrong, style.BAD, "X", "no success"),
    ):
        if places:
            heights = [errors[place] for place in places]
            across = [place + 1 for place in places]
            axes.scatter(across, heights, c=colour, s=24, marker=marker, label=label)
    if guess is not None:
        axes.axhline(guess, color=style.QUIET, linestyle="--", label="a constant guess")
    style.plain(axes, title="", across="trial", up="error")
    style.head(figure, content.title("Error of each trial"))
    style.legend_above(axes)
    top = 1.1 * max(*errors, guess or 0.0) or 0.1
    axes.set_ylim(bottom=-top / 40, top=top)  # space for the points on zero
    # Space around whole numbers, also around a few.
    axes.set_xlim(0.5, len(errors) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    style.remark(figure, content.remark)
    return Picture(figure)


def beside_guess(assessment: Assessment, content: Content) -> Picture:
    """Draw the error of one trial above that of a constant guess.

    Raises:
        InvalidParameter: there is no error, or no guess beside which it says something.
    """
    (error,) = _errors([assessment])
    guess = _guess([assessment])
    if guess is None:
        raise InvalidParameter(
            f"plot: expected several trials, got one, whose error of {error:.4g} is no picture"
            " by itself (--trials 20; or --picture rounds)"
        )
    figure = fitted_figure(2.4)
    axes = figure.add_subplot()
    axes.barh([1, 0], [error, guess], color=[style.ACCENT, style.QUIET], height=0.6)
    for place, value in ((1, error), (0, guess)):
        axes.annotate(
            f"{value:.3g}", (value, place), xytext=(4, 0), textcoords="offset points", va="center"
        )
    style.plain(axes, title="", across="error", up="")
    style.head(figure, content.title("Error beside that of a constant guess"))
    axes.set_yticks([1, 0], ["this result", "a constant guess"])
    axes.set_xlim(0, 1.15 * max(error, guess, 1e-9))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    style.remark(figure, content.remark)
    return Picture(figure)


def _errors(assessments: Sequence[Assessment]) -> list[float]:
    errors = [one.error for one in assessments if one.error is not None]
    if len(errors) < len(assessments):
        raise InvalidParameter("plot: expected a hypothesis with a truth to compare with, got none")
    return errors


def _guess(assessments: Sequence[Assessment]) -> float | None:
    """Return the mean error of the constant guess; None: no trial has one."""
    known = [one.baseline for one in assessments if one.baseline is not None]
    return sum(known) / len(known) if known else None
