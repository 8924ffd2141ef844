"""A picture that is drawn: to be saved, or shown by a notebook."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance_aggregator.extras import not_installed
from askance_aggregator.learners.presentation import EstimateRow
from askance_client.errors import InvalidParameter
from askance_simulation.output_files import write_whole


@dataclass(frozen=True, slots=True)
class Content:
    """Rows and text beside a shape.

    Args:
        run: learner, users and epsilon; the second line of the title.
        rows: estimates of the presentation.
        truth: of each row; empty: not known.
        shares: whether the rows are shares of users.
        ranked: whether the greatest row is drawn on top; False: the rows have an order.
        subject: name of what was learned about; may be empty.
        confidence: of the intervals.
        remark: sentence below the picture; empty: none.
    """

    run: str
    rows: tuple[EstimateRow, ...] = ()
    truth: tuple[float, ...] = ()
    shares: bool = False
    ranked: bool = True
    subject: str = ""
    confidence: float = 0.95
    remark: str = ""

    def title(self, heading: str) -> str:
        """Return both lines of the title."""
        return f"{heading}\n{self.run}"

    @property
    def interval(self) -> str:
        """Name of the intervals, for a legend."""
        return f"interval ({self.confidence:.0%}, joint)"

    @property
    def true_by_row(self) -> tuple[float, ...]:
        """Truth of each row; empty: not known of each."""
        return self.truth if len(self.truth) == len(self.rows) else ()


SUFFIXES = (".png", ".svg")
_WIDTH = 6.4  # inches


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A matplotlib `Figure` that knows how to be written; a notebook shows it as it is."""

    figure: Any

    def save(self, path: Path | str) -> None:
        """Write a .png or .svg file, the same bytes for the same picture.

        Raises:
          InvalidParameter: another suffix.
          OSError: it cannot be written, as on a full disk; no part of it is left.
        """
        where = Path(path)
        if where.suffix not in SUFFIXES:
            raise InvalidParameter(f"expected a file named *.png or *.svg, got {where}")
        from matplotlib import rc_context

        metadata = {"Date": None} if where.suffix == ".svg" else None
        # Without a salt, an SVG's names are drawn at random.
        data = io.BytesIO()
        with rc_context({"svg.hashsalt": "askance"}):
            self.figure.savefig(
                data, format=where.suffix[1:], bbox_inches="tight", metadata=metadata
            )
        write_whole(where, data.getvalue())

    def _repr_png_(self) -> bytes:
        """Return the PNG that a notebook shows."""
        data = io.BytesIO()
        self.figure.savefig(data, format="png", bbox_inches="tight")
        return data.getvalue()


def fitted_figure(height: float) -> Any:
    """Make an empty figure of fixed width, in which all text is inside; height in inches.

    At 600 pixels its smallest text is 11 pixels high.
    """
    figure = new_figure(_WIDTH, height)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    return figure


def new_figure(width: float = 7.5, height: float = 4.2) -> Any:
    """Make an empty figure of that size, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise not_installed("plot", "matplotlib", "plots") from None
    return Figure(figsize=(width, height), dpi=150)
