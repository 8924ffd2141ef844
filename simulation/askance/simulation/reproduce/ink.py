"""Colours and axes of the pictures of statistical queries."""

from __future__ import annotations

from typing import Any

INK, ACCENT, QUIET, BAD = "#222222", "#0b6e99", "#b0b0b0", "#c0392b"


def plain(axes: Any, title: str, across: str, up: str) -> None:
    """Remove the axes' frame and put their title on the left."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=QUIET, alpha=0.3)
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
