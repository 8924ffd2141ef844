"""Curves of test errors: CM08's Figures 1, 3 and 4 have the same rows and the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from askance_papers.reproduce.cm08.trials import STANDARD, Algorithm, Errors, Version, pair
from askance_papers.reproduce.reproduction import Row

SLACK = 4.0  # standard errors, of every claim
NOISE = (
    "noise: mean length of the noise that was drawn, recovered from the releases, over the claimed"
    " one; every row that has one claims it from both sides (a Gamma law in a uniform and fresh"
    " direction, 1e-6 a row), and so do all directions of a data set together."
)
NOT_PRIVATE = (
    "The printed algorithms are not private (see logistic-figure-2); where the paper says eps they"
    " are (eps, delta)-private with a delta of up to a half."
)
_INK, _ACCENT, _QUIET, _BAD = "#222222", "#0b6e99", "#b0b0b0", "#c0392b"
_STYLES = {"none": "-", "output": "--", "objective": "-"}


def lines(epsilon: str, others: Sequence[str] = ()) -> tuple[Algorithm, ...]:
    """Return the algorithms.

    Not private, as printed, corrected at the paper's and at other epsilons.
    """
    corrected = [one for each in (epsilon, *others) for one in pair(Version.CORRECTED, each)]
    return (STANDARD, *pair(Version.PRINTED, epsilon), *corrected)


def curve_row(
    data: str,
    n: int,
    algorithm: Algorithm,
    errors: Errors,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """Return a point of a curve.

    A claim of `at_least` or `at_most` is held but for `SLACK` standard errors; None: no such claim.
    """
    slack = SLACK * errors.standard_error
    claims = [] if at_least is None else [errors.mean >= at_least - slack]
    claims += [] if at_most is None else [errors.mean <= at_most + slack]
    claims += [] if errors.noise is None else [errors.noise.possible]
    return {
        "data": data,
        "n": n,
        "version": str(algorithm.version),
        "mechanism": algorithm.mechanism,
        "epsilon": None if algorithm.epsilon is None else float(algorithm.epsilon),
        "private": algorithm.private,
        "error": errors.mean,
        "standard_error": errors.standard_error,
        "runs": len(errors.each),
        "noise": None if errors.noise is None else errors.noise.ratio,
        "at_least": at_least,
        "at_most": at_most,
        "holds": all(claims) if claims else None,
    }


def draw_curves(axes: Any, rows: Sequence[Row], along: str) -> None:
    """Draw a line for every algorithm of the rows, with bands of two standard errors."""
    keys = ("version", "mechanism") if along == "epsilon" else ("version", "mechanism", "epsilon")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        shown = [row for row in rows if tuple(row[name] for name in keys) == key]
        color, alpha = _color(shown[0], along)
        places = [row[along] for row in shown]
        means = [row["error"] for row in shown]
        axes.plot(
            places,
            means,
            _STYLES[shown[0]["mechanism"]],
            color=color,
            alpha=alpha,
            marker="o",
            markersize=3,
            label=_label(shown[0], along),
        )
        axes.fill_between(
            places,
            [row["error"] - 2 * row["standard_error"] for row in shown],
            [row["error"] + 2 * row["standard_error"] for row in shown],
            color=color,
            alpha=0.1 * alpha,
            linewidth=0,
        )
    axes.set_ylim(-0.02, 0.65)
    axes.grid(axis="y", color=_QUIET, alpha=0.3)
    axes.set_ylabel("test error")


def legend_below(figure: Any, axes: Any) -> None:
    """Draw one legend for all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(
        handles,
        labels,
        loc="upper center",
        ncols=3,
        frameon=False,
        title="bands: two standard errors",
        bbox_to_anchor=(0.5, 0),
    )


def title(axes: Any, text: str) -> None:
    """Set a panel's title."""
    axes.set_title(text, loc="left", fontsize=11, color=_INK)


def _color(row: Row, along: str) -> tuple[str, float]:
    if row["mechanism"] == "none":
        return _INK, 1.0
    if row["version"] == Version.PRINTED:
        return _BAD, 1.0
    return _ACCENT, 0.45 if along == "n" and row["epsilon"] >= 1 else 1.0


def _label(row: Row, along: str) -> str:
    if row["mechanism"] == "none":
        return "standard (no privacy)"
    kind = "printed (not private)" if row["version"] == Version.PRINTED else row["version"]
    stated = "" if along == "epsilon" else f", ε = {row['epsilon']:g}"
    return f"{kind}, {row['mechanism']} perturbation{stated}"
