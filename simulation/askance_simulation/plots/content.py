"""Content of a result's picture: estimates, their truth, and lines of text."""

from __future__ import annotations

from dataclasses import dataclass

from askance_aggregator.learners.presentation import EstimateRow


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
