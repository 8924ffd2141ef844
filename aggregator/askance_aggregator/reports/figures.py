"""Numbers as text for readers: estimates with their half widths, shares, nats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.risk import LITTLE_NANO_NATS, sure

if TYPE_CHECKING:
    from askance_aggregator.learners import EstimateRow

_DIGITS = 2  # of a half width; its value is shown to the same place
_MAX_DECIMALS = 9
_LEVEL_DECIMALS = 4  # of a confidence in percent
_PERCENT = 100.0
_KILO = 1e3
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_PERIODS = ((1, "second"), (60, "minute"), (3_600, "hour"))
_ASYMMETRIC = 1.5  # times the shorter side of an interval
_SLACK = 1e-9  # of a half width's last place, lost by floats


@dataclass(frozen=True, slots=True)
class EstimateText:
    """Estimate, half width, truth and ends as text.

    The half width is of an interval around the estimate, without a unit; `low` and `high` are the
    ends of the row's interval; `truth` is empty where it is not known. A number that lies much
    nearer to one end than to the other, as in an interval that is cut off at what is possible, is
    asymmetric: its ends say more than a half width. So is one whose interval misses the truth,
    which lies within the half width of its farther end.
    """

    estimate: str
    half_width: str
    truth: str
    low: str
    high: str
    is_asymmetric: bool = False


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
    is_missed = true is not None and not row.low <= true <= row.high
    is_within = true is not None and abs(true * scale - value) <= half
    return EstimateText(
        f"{value:z,.{places}f}{unit}",
        f"{half:,.{places}f}",
        "" if true is None else f"{true * scale:z,.{places}f}{unit}",
        f"{low:z,.{places}f}{unit}",  # z: no minus before a zero
        f"{high:z,.{places}f}{unit}",
        (is_missed and is_within) or (not shares and _is_asymmetric(row)),
    )


def _is_asymmetric(row: EstimateRow) -> bool:
    sides = row.high - row.shown, row.shown - row.low
    return max(sides) > _ASYMMETRIC * max(min(sides), 0.0) + _SLACK


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
        scaled = number * _PERCENT
        return f"{scaled:,.0f} %" if abs(scaled) >= _PERCENT - 0.5 else f"{scaled:.2g} %"
    return f"{number:,.0f}" if abs(number) >= _KILO - 0.5 else f"{number:.3g}"


def least_text(number: float, digits: int = 3) -> str:
    """Format a bound from below with some digits, rounded down."""
    return _plain(_rounded(number, digits, ROUND_FLOOR))


def most_text(number: float, digits: int = 3) -> str:
    """Format a bound from above with some digits, rounded up."""
    return _plain(_rounded(number, digits, ROUND_CEILING))


def delta_text(delta: float) -> str:
    """Format a delta with three digits, rounded up."""
    return f"{float(_rounded(delta, 3, ROUND_CEILING)):.3g}"


def _rounded(number: float, digits: int, rounding: str) -> Decimal:
    """Round the shortest decimal that is read as the number."""
    return Context(prec=digits, rounding=rounding).create_decimal(repr(float(number)))


def _plain(rounded: Decimal) -> str:
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def bytes_text(number: float) -> str:
    """Format a number of bytes with three digits and a decimal unit: "711 kB"."""
    place = 0
    while abs(number) >= _KILO - 0.5 and place < len(_BYTE_UNITS) - 1:
        number, place = number / _KILO, place + 1
    return f"{number:.3g} {_BYTE_UNITS[place]}"


def rate_text(per_s: float, amount: Callable[[float], str] | None = None) -> str:
    """Format a rate with three digits, per second, or per minute or hour where that is below 1.

    `amount` formats an amount, as `bytes_text` does; None: a number without a unit.
    """
    periods = ((seconds, name) for seconds, name in _PERIODS if per_s * seconds >= 1)
    seconds, name = next(periods, _PERIODS[-1])
    of_period = per_s * seconds
    shown = number_text(of_period, share=False) if amount is None else amount(of_period)
    return f"{shown} per {name}"


def share_text(share: float, decimals: int = 1) -> str:
    """Format a share or a level as a percentage, without zeros at its end: "95 %", "16.7 %"."""
    digits = f"{share * _PERCENT:z.{decimals}f}"
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} %"


def level_text(level: float) -> str:
    """Format a confidence as a percentage: "95 %", "99.9999 %"."""
    return share_text(level, _LEVEL_DECIMALS)


def risk_line(spent: float) -> str:
    """Return a sentence on what so many nats mean for a user who spends them."""
    return (
        "Of two equally likely values a reader of reports is at most"
        f" {sure(round(spent * NANO_NATS_PER_NAT))} sure of the true one; epsilons of several"
        " studies add up."
    )


def risk_notes(epsilon: float) -> tuple[str, ...]:
    """Return the warning of a budget that protects little; none of 8 nats or less.

    The risk itself is said by `risk_line`, beside it.
    """
    nano_nats = round(epsilon * NANO_NATS_PER_NAT)
    if nano_nats <= LITTLE_NANO_NATS:
        return ()
    return (f"epsilon {epsilon:.9g} protects little",)


def nats_text(spent: float, budget: float) -> str:
    """Format "SPENT of BUDGET nats"; what was spent is never rounded down.

    The budget is shown in full, with two decimals or more.
    """
    places = _nats_places(budget)
    return f"{_ceiling(spent, places):,.{places}f} of {budget:,.{places}f} nats"


def whole_nats_text(nats: float) -> str:
    """Format nats with two decimals or more, as many as they have."""
    return f"{nats:,.{_nats_places(nats)}f}"


def _nats_places(nats: float) -> int:
    return max(len(f"{nats:.9f}".rstrip("0").partition(".")[2]), 2)
