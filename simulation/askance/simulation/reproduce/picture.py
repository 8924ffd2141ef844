"""A reproduction's picture, written to a file."""

from __future__ import annotations

from pathlib import Path

from askance.simulation.reproduce.reproduction import Reproduction


def save(found: Reproduction, path: Path) -> None:
    """Write the picture, the same bytes for the same rows.

    Args:
      found: result of a reproduction.
      path: *.png or *.svg.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), dpi=150)
    found.draw(figure)
    for axes in figure.axes:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with rc_context({"svg.hashsalt": found.name}):  # else its names are drawn at random
        figure.savefig(path, bbox_inches="tight", metadata=metadata)
