"""Pictures of a simulation: estimates with their intervals beside the truth, or errors by trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.client.errors import InvalidParameter
from askance.simulation.experiments.records import estimates

if TYPE_CHECKING:
    from askance.simulation.experiments.trials import Simulation

_MAX_ROWS = 200  # of the cells with the greatest shares; more make no picture
_INK, _ACCENT, _QUIET = "#222222", "#0b6e99", "#b0b0b0"


def plot(simulation: Simulation, path: Path) -> None:
    """Draws trial 0's estimates where the hypothesis has them, else every trial's error.

    Raises:
      InvalidParameter: a file that is neither .png nor .svg.
    """
    if path.suffix not in (".png", ".svg"):
        raise InvalidParameter(f"expected a file named *.png or *.svg, found {path}")
    from matplotlib.figure import Figure

    truth = simulation.trials[0].verdict.truth
    cells = estimates(simulation.to_json()["hypothesis"], simulation.study.learner.name)
    shown = min(len(truth), _MAX_ROWS) if cells else 0
    figure = Figure(figsize=(7.5, max(2.4, 0.3 * shown + 1.4) if shown else 3.6), dpi=150)
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if cells and truth:
        _estimates(axes, cells, truth, float(simulation.study.confidence))
    else:
        _errors(axes, simulation)
    study, first = simulation.study, simulation.trials[0]
    axes.set_title(
        f"{study.learner.name}: {first.population.size:,} users, ε = {study.epsilon:g} each",
        loc="left",
        fontsize=11,
        color=_INK,
    )
    figure.savefig(
        path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None
    )


def _estimates(
    axes: Any, cells: dict[str, dict[str, float]], truth: tuple[float, ...], confidence: float
) -> None:
    """The greatest truth on top; raw estimates may lie outside their interval's possible range."""
    order = sorted(range(len(truth)), key=lambda place: truth[place])[-_MAX_ROWS:]
    names = list(cells)
    for row, place in enumerate(order):
        cell = cells[names[place]]
        axes.hlines(row, cell["low"], cell["high"], color=_ACCENT, alpha=0.35, linewidth=5)
    estimates = [cells[names[place]]["estimate"] for place in order]
    axes.plot(estimates, range(len(order)), "o", color=_ACCENT, markersize=5, label="estimate")
    axes.plot(
        [truth[place] for place in order],
        range(len(order)),
        "|",
        color=_INK,
        markersize=13,
        markeredgewidth=2,
        label="truth",
    )
    axes.set_yticks(range(len(order)), [names[place].replace("$", r"\$") for place in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.grid(axis="x", color=_QUIET, alpha=0.3)
    axes.set_xlabel(f"estimate (bars: {confidence:.0%} intervals, joint)")
    axes.legend(frameon=False, loc="lower right")


def _errors(axes: Any, simulation: Simulation) -> None:
    errors = [trial.verdict.error for trial in simulation.trials if trial.verdict.error is not None]
    if len(errors) < len(simulation.trials):
        raise InvalidParameter("plot: expected a hypothesis with a truth to hold it to, found none")
    colors = [_ACCENT if trial.verdict.success else "#c0392b" for trial in simulation.trials]
    axes.scatter(range(len(errors)), errors, c=colors, s=22)
    axes.set_xlabel("trial (red: not the target)")
    axes.set_ylabel("error")
    top = max(0.1, 1.1 * max(errors))
    axes.set_ylim(bottom=-top / 40, top=top)  # room for the points on zero
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=_QUIET, alpha=0.3)
