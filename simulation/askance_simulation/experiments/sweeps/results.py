"""Rows of a sweep: chosen, summarized, drawn, and as tables."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from askance_aggregator.names import unknown_name
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_simulation import frames
from askance_simulation.experiments.sweeps.row_file import Row, read_rows
from askance_simulation.levels import Level, level, sort_key
from askance_simulation.plots import Picture, curves, needs
from askance_simulation.summaries import Summary, summarise

_AXES = ("learner", "population", "randomizer", "beta", "epsilon", "users")


class Sweep:
    """The trials of a grid, a row each (see `sweep`), in the order of their cells.

    Args:
      rows: as `sweep` writes them, in any order.

    Example:
      >>> found = ask.sweep("frequency", {"epsilon": [1, 4], "users": 3_000}, trials=2)
      >>> found.axes
      ('epsilon',)
      >>> [row["epsilon"] for row in found.where(epsilon=4).rows]
      [4.0, 4.0]
    """

    def __init__(self, rows: tuple[Row, ...]) -> None:
        settings = sorted({name for row in rows for name in row["settings"]})
        self._names = (*_AXES[:-2], *settings, *_AXES[-2:])
        self._rows = tuple(
            sorted(rows, key=lambda row: (*map(sort_key, self._point(row)), row["trial"]))
        )

    @classmethod
    def read(cls, path: Path | str) -> Sweep:
        """Read a *.jsonl file, which a sweep may still be writing.

        Raises:
          InvalidParameter: no such file, or one of something else.
        """
        return cls(tuple(read_rows(Path(path))))

    @property
    def rows(self) -> tuple[Row, ...]:
        """All settings and results, one row per trial."""
        return self._rows

    @property
    def axes(self) -> tuple[str, ...]:
        """The names in which cells differ: `epsilon`, `users`, `learner`, ..., and settings."""
        points = [self._point(row) for row in self._rows]
        return tuple(
            name
            for place, name in enumerate(self._names)
            if len({point[place] for point in points}) > 1
        )

    def where(self, **at: object) -> Sweep:
        """Return the part of it with these values, as `sweep.where(epsilon=1, d=8)`.

        Raises:
          InvalidParameter: a name that it does not have, or nothing there.
        """
        for name in at:
            if name not in self._names:
                raise unknown_name("sweep", name, self._names)
        wanted = {self._names.index(name): level(value) for name, value in at.items()}
        found = [
            row
            for row in self._rows
            if all(self._point(row)[place] == value for place, value in wanted.items())
        ]
        if not found:
            raise InvalidParameter(f"sweep: expected a trial with {at}, got none")
        return Sweep(tuple(found))

    def summary(self, confidence: float = 0.95) -> Summary:
        """Return one line per cell: mean error and success rate with their bands (see `bands`)."""
        if not 0 < confidence < 1:
            raise InvalidParameter(
                f"confidence: expected a number between 0 and 1, got {confidence}"
            )
        cells: defaultdict[str, list[Row]] = defaultdict(list)
        for row in self._rows:
            cells[row["cell"]].append(row)
        summaries = (
            summarise(dict(zip(self._names, self._point(rows[0]), strict=True)), rows, confidence)
            for rows in cells.values()
        )
        return Summary(tuple(summaries), confidence, self.axes)

    def picture(self, x: str | None = None, y: str = "error", confidence: float = 0.95) -> Picture:
        """Draw one measure against one axis, with a line per value of the others.

        Args:
          x: an axis with numbers; None: users if they vary, else epsilon, else a setting that does.
          y: "error", "success" or "users": how many are needed (see `needs`).
          confidence: of the bands.
        """
        summary = self.summary(confidence)
        if y == "users":
            return needs(summary, x or self._first_axis(("epsilon",), besides="users"))
        return curves(summary, x or self._first_axis(("users", "epsilon")), y)

    def plot(self, path: Path | str, x: str | None = None, y: str = "error") -> None:
        """Write `picture` to a .png or .svg file."""
        self.picture(x, y).save(path)

    def _first_axis(self, wanted: tuple[str, ...], besides: str | None = None) -> str:
        numbers = [
            name
            for name in self.axes
            if name != besides
            and all(isinstance(self._at(row, name), int | float) for row in self._rows)
        ]
        if not numbers:
            raise InvalidParameter(
                f"plot: expected an axis with two numbers or more, got {value_text(self.axes)}"
            )
        return next((name for name in wanted if name in numbers), numbers[0])

    def flat(self) -> list[Row]:
        """Return the rows as a table has them (see `frames.flat`)."""
        return frames.flat(self._rows)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table`, one row per trial."""
        return frames.to_arrow(self._rows)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, one row per trial."""
        return frames.to_pandas(self._rows)

    def _point(self, row: Row) -> tuple[Level, ...]:
        return tuple(self._at(row, name) for name in self._names)

    def _at(self, row: Row, name: str) -> Level:
        return level(row[name] if name in _AXES else row["settings"].get(name))
