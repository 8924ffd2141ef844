"""A reproduction's picture, written to a file."""

from __future__ import annotations

from pathlib import Path

from askance_papers.reproduce.reproduction import Reproduction


def save(found: Reproduction, path: Path) -> None:
    """Write the picture, the same bytes for the same rows."""
    from askance_simulation.plots.picture import Picture, new_figure

    figure = new_figure()
    found.draw(figure)
    for axes in figure.axes:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    Picture(figure).save(path)
