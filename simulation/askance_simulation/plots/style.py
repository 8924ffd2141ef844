"""Colours, markers, axes and their ticks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INK, ACCENT, QUIET, BAD = "#222222", "#0072b2", "#8a8a8a", "#d55e00"
PALE = ("#cfe3f2", "#fbdcc4", "#c9ece0", "#f3dbe7", "#fbeac9", "#dcf0fb")
"""Backgrounds of outcomes, behind dark text that names them."""
REFERENCE = {"color": BAD, "linestyle": "--", "linewidth": 1.5}
"""Look of a line at a value to compare with."""
MARKERS = "os^DvPX*"
MOST_LINES = len(MARKERS)
_NAMES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a8a")
_DARK, _LIGHT = 0.0, 0.82  # of viridis; its yellow end is too pale for a line on white
_APART = 0.06
_WIDE = 4.0  # a span from which on an axis is logarithmic
_MOST_TICKS = 8
_LINE = 90  # characters of a line of text across a picture
_TITLE = 74  # characters of a line of a title
_NAME = 30  # characters of a name beside an axis
_ACROSS = 36  # characters of all names below an axis; more are turned
_TURNED, _UPRIGHT = 16, 24  # names below an axis that are turned, or upright; of more some
_SHORT = 16  # characters of a name that is turned; of a longer one the start is cut off
_CHARACTER = 0.085  # inches
_LEGEND = 62  # characters of a legend in one line


def colours(values: Sequence[object]) -> list[Any]:
    """Assign a colour per value: along a scale for numbers, maximally different for names."""
    numbers = all(isinstance(value, int | float) for value in values)
    if not numbers or len(values) < 3:
        return list(_NAMES[: len(values)])
    from matplotlib import colormaps

    step = (_LIGHT - _DARK) / (len(values) - 1)
    return [colormaps["viridis"](_DARK + step * place) for place in range(len(values))]


@dataclass(frozen=True, slots=True)
class MarkerStyle:
    """Marker and colour that distinguish one line of several.

    Args:
      shift: a factor close to 1 that puts its points beside the others'.
    """

    colour: Any
    marker: str
    shift: float

    @classmethod
    def of(cls, place: int, values: Sequence[object]) -> MarkerStyle:
        """Return the mark of the line at this place, of as many as there are values."""
        shift = 1 + _APART * (place - (len(values) - 1) / 2)
        return cls(colours(values)[place], MARKERS[place], shift)


def plain(axes: Any, title: str, across: str, up: str) -> None:
    """Remove the axes' frame and put their title on the left."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=QUIET, alpha=0.25)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(across)
    axes.set_ylabel(up)


def grid_across(axes: Any) -> None:
    """Draw the grid's upright lines alone."""
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=QUIET, alpha=0.25)


def wide(values: Sequence[float]) -> bool:
    """Return whether an axis with these values is to be logarithmic."""
    return min(values) > 0 and max(values) >= _WIDE * min(values)


def across(axis: Any, values: Sequence[float]) -> None:
    """Put ticks at the values themselves, if there are few."""
    if len(values) <= _MOST_TICKS:
        axis.set_ticks(list(values), [short(value) for value in values])
        axis.set_minor_locator(_none())
    else:
        axis.set_major_formatter(lambda value, _: short(value))


def logarithmic(axes: Any) -> None:
    """Make the vertical axis logarithmic.

    Ticks are at 1, 2 and 5 times powers of ten; at the powers alone if they are many.
    """
    from matplotlib.ticker import LogLocator

    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=subs, numticks=20))
    axes.yaxis.set_minor_locator(_none())
    axes.yaxis.set_major_formatter(lambda value, _: short(value))


def caption(figure: Any, text: str) -> None:
    """Add an explanation below the picture."""
    figure.text(0.0, -0.01, text, fontsize=8, color="#555555", ha="left", va="top")


def head(figure: Any, title: str) -> None:
    """Put a title above all axes, on the left, broken into lines that fit."""
    lines = [part for line in title.split("\n") for part in textwrap.wrap(line, _TITLE)]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=11, color=INK)


def remark(figure: Any, *parts: str) -> None:
    """Put an explanation below all axes, on the left; parts that are empty are left out."""
    text = "; ".join(filter(None, parts))
    if text:
        lines = "\n".join(textwrap.wrap(text, _LINE))
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=9, color="#555555")


def name(text: str, most: int = _NAME) -> str:
    """Return a name that fits beside an axis; a dollar sign would start a formula."""
    kept = text if len(text) <= most else f"{text[: most - 1]}…"
    return kept.replace("$", r"\$")


def names_across(axes: Any, names: Sequence[str]) -> None:
    """Put names at 0, 1, ... below the axes, turned where they would touch, some of many."""
    step = -(-len(names) // _UPRIGHT)
    places = list(range(0, len(names), step))
    drawn = [name(names[place]) for place in places]
    angle = _angle(drawn)
    if angle in (0, 90):
        axes.set_xticks(places, drawn, rotation=angle, fontsize=8.5 if angle else 10)
    else:
        axes.set_xticks(places, drawn, rotation=angle, ha="right", rotation_mode="anchor")


def height_of_names(names: Sequence[str]) -> float:
    """Return the inches that names below an axis need."""
    drawn = [name(text) for text in names]
    return 0.2 + _CHARACTER * max(map(len, drawn)) * _angle(drawn) / 90


def _angle(names: Sequence[str]) -> int:
    """Return the degrees by which names below an axis are turned."""
    if sum(map(len, names)) <= _ACROSS:
        return 0
    return 35 if len(names) <= _TURNED and max(map(len, names)) <= _SHORT else 90


def legend_above(axes: Any) -> None:
    """Put the legend between the title and the axes, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    columns = len(labels) if sum(len(label) + 6 for label in labels) <= _LEGEND else 2
    axes.legend(
        handles, labels, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0),
        ncols=columns, fontsize=9, borderaxespad=0.2, handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip


def legend_beside(axes: Any, title: str | None = None, **what: Any) -> None:
    """Put the legend on the right of the axes, where it hides nothing."""
    found = axes.legend(
        title=title, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9, **what
    )
    found.get_title().set_fontsize(9)
    found._legend_box.align = "left"


def short(value: float, digits: int = 4) -> str:
    """Format 1,000,000 as 1M; small numbers as they are."""
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.{digits}g}{letter}"
    return f"{value:.{digits}g}"


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
