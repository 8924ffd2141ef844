"""A theorem, table or figure of the papers beside what is measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from askance_simulation.frames import to_arrow, to_pandas
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, legend_beside, plain, wide
from askance_simulation.randomness import Seed

Row = Mapping[str, Any]
"""Row of measurements: column to value (text, numbers, booleans, None)."""


class Effort(Enum):
    """Amount of measurement: QUICK takes seconds, FULL the amount of the paper's figure."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Setting:
    """Inputs of a reproduction.

    Args:
      effort: how much to measure.
      seed: of all chance in it.
      data: a folder with the data files that may not be shipped (`adult.csv`,
        `pima_indians_diabetes.csv`); None: there is none; parts that need
        one are left out, with a note.
      progress: called after each part with a short text.
    """

    effort: Effort
    seed: Seed
    data: Path | None = None
    progress: Callable[[str], None] = lambda _: None

    @property
    def quick(self) -> bool:
        """Return whether the effort is QUICK."""
        return self.effort is Effort.QUICK


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of a reproduction.

    Args:
      source: where the paper has it ("KLNRS08, Theorem 3.7").
      statement: the paper's claim, in a sentence or two of ours.
      differs_from_print: what is true instead, where the print is not; None: it is.
      rows: what was measured beside what was expected, all with the same columns.
      notes: what was left out or should be known, a sentence each.
      draw: paints the picture on a matplotlib `Figure`.
      also: whether that of the statement holds which no row claims.
    """

    name: str
    source: str
    statement: str
    differs_from_print: str | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    draw: Callable[[Any], None]
    also: bool = True

    @property
    def holds(self) -> bool:
        """Return whether the statement (the corrected one, where they differ) holds in all rows."""
        claims = (row["holds"] for row in self.rows)
        return bool(self.also) and all(claim for claim in claims if claim is not None)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` of the rows."""
        return to_arrow(self.rows)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of the rows."""
        return to_pandas(self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that `askance reproduce NAME --json` prints."""
        return {
            "name": self.name,
            "source": self.source,
            "statement": self.statement,
            "rows": [dict(row) for row in self.rows],
            "holds": self.holds,
            "differs_from_print": self.differs_from_print,
            "notes": list(self.notes),
        }


def save(found: Reproduction, path: Path) -> None:
    """Write the picture of a reproduction, the same bytes for the same rows."""
    from askance_simulation.plots.picture import Picture, new_figure

    figure = new_figure()
    found.draw(figure)
    for axes in figure.axes:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    Picture(figure).save(path)


_STYLES = ((INK, "|"), (ACCENT, "o"), (BAD, "x"), (QUIET, "s"))


def dot_plot(
    figure: Any,
    rows: Sequence[Row],
    label: Callable[[Row], str],
    columns: Mapping[str, str],
    across: str,
) -> None:
    """Draw numbers of every row beside its label.

    `columns` has the names of columns in the legend, four at most; the first is the bound. Rows
    without any of the numbers are left out.
    """
    shown = [row for row in rows if any(row[column] is not None for column in columns)]
    figure.set_size_inches(8, 1.5 + 0.22 * len(shown))
    axes = figure.subplots()
    plain(axes, "", across, "")
    values: list[float] = []
    for (column, name), (color, marker) in zip(columns.items(), _STYLES, strict=False):
        places = [place for place, row in enumerate(shown) if row[column] is not None]
        numbers = [float(shown[place][column]) for place in places]
        values += numbers
        size = 12 if marker == "|" else 5
        axes.plot(numbers, places, marker, color=color, markersize=size, label=name)
    axes.set_yticks(range(len(shown)), [label(row) for row in shown], fontsize=7)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    if values and wide(values):
        axes.set_xscale("log")
    legend_beside(axes)
    figure.tight_layout()


def paired(rows: Sequence[Row], column: str) -> list[Row]:
    """Join every second row to the one before it: its number becomes the column "other"."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return [{**one, "other": other[column]} for one, other in pairs]
