"""Numbers as text for readers: estimates with their half widths, shares, nats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from askance_aggregator.learners import EstimateRow

_DIGITS = 2  # of a half width; its value is shown to the same place
_MAX_DECIMALS = 9
_PERCENT = 100.0
_SLACK = 1e-9  # of a half width's last place, lost by floats


@dataclass(frozen=True, slots=True)
class EstimateText:
    """Estimate, half width, truth and ends as text.

    Args:
        estimate: value that is shown.
        half_width: of an interval around that value, without a unit.
        truth: empty where it is not known.
        low: lower end of the row's interval.
        high: upper end of it.
    """

    estimate: str
    half_width: str
    truth: str
    low: str
    high: str


def estimate_texts(
    rows: Sequence[EstimateRow], truth: Sequence[float], *, shares: bool
) -> list[EstimateText]:
    """Format rows, such that every interval that is shown contains the row's interval.

    A half width has two digits, and all figures of a row have the same decimals. Ends are rounded
    outwards.

    Args:
        rows: the estimates.
        truth: one value per row, or none at all.
        shares: whether they are shares, which are shown as percentages with the same number of
            decimals; other numbers have decimals of their own.
    """
    widest = max((_reach(row) for row in rows), default=0.0)
    known = [*truth] if len(truth) == len(rows) else [None] * len(rows)
    return [
        _estimate_text(row, true, widest if shares else _reach(row), shares=shares)
        for row, true in zip(rows, known, strict=True)
    ]


def _estimate_text(
    row: EstimateRow, true: float | None, width: float, *, shares: bool
) -> EstimateText:
    scale, unit = (_PERCENT, " %") if shares else (1.0, "")
    size = width or (0.0 if shares else abs(row.shown) / 1e3)
    places = _places(size * scale)
    value = round(row.shown * scale, places)
    half = _ceiling(max(row.high * scale - value, value - row.low * scale, 0.0), places)
    low, high = -_ceiling(-row.low * scale, places), _ceiling(row.high * scale, places)
    return EstimateText(
        f"{value:,.{places}f}{unit}",
        f"{half:,.{places}f}",
        "" if true is None else f"{true * scale:,.{places}f}{unit}",
        f"{low + 0.0:,.{places}f}{unit}",  # + 0.0: no minus before a zero
        f"{high + 0.0:,.{places}f}{unit}",
    )


def _reach(row: EstimateRow) -> float:
    """Return the distance of the farther end of an interval from the value that is shown."""
    return max(row.high - row.shown, row.shown - row.low)


def _places(width: float) -> int:
    """Return the number of decimals that show two digits of a width."""
    if width <= 0:
        return _DIGITS
    return min(max(_DIGITS - 1 - floor(log10(width)), 0), _MAX_DECIMALS)


def _ceiling(number: float, places: int) -> float:
    unit = 10.0**places
    return ceil(number * unit - _SLACK) / unit


def number_text(number: float, *, share: bool) -> str:
    """Format a figure with three digits, a large one whole; a share as a percentage."""
    if share:
        return f"{number * _PERCENT:.2g} %"
    return f"{number:,.0f}" if abs(number) >= 1e3 else f"{number:.3g}"


def share_text(share: float) -> str:
    """Format a level such as a confidence: "95 %"."""
    return f"{share * _PERCENT:.6g} %"


def nats_text(spent: float, budget: float) -> str:
    """Format "SPENT of BUDGET nats"; what was spent is never rounded down.

    Args:
        spent: nats.
        budget: nats; it is shown in full, with two decimals or more.
    """
    told = f"{budget:.9f}".rstrip("0")
    places = max(len(told.partition(".")[2]), 2)
    return f"{_ceiling(spent, places):,.{places}f} of {budget:,.{places}f} nats"
