"""Numbers, sizes and times as text and markup of pages."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

from askance_aggregator.reports.figures import bytes_text, share_text
from askance_aggregator.reports.texts import counted
from askance_client.accounting import format_nats

_FAR = Markup("after the year 9999")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def count_text(number: int) -> str:
    """Format a whole number with separators, as 1,234,567."""
    return f"{number:,}"


def rate_text(per_s: float) -> str:
    """Format a rate per second: whole above 100, else with one decimal."""
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.1f}"


def length_text(seconds: float) -> str:
    """Format a length of time by its two greatest units, as 3 h 12 min."""
    whole = max(int(seconds), 0)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    if whole < 10 * _DAY_S:
        return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"
    return f"{whole // _DAY_S} d"


def nats_text(nano_nats: int) -> str:
    """Format a privacy loss in nats exactly, from whole nano-nats."""
    return format_nats(nano_nats)


def nats_markup(nano_nats: int) -> Markup:
    """Return a sum of privacy losses, rounded; its title has it exactly."""
    nats = nano_nats / 1e9
    shown = f"{nats:.3f}".rstrip("0").rstrip(".") if nats >= 1 else f"{nats:.3g}"
    return Markup('<span title="{} nats">{}</span>').format(nats_text(nano_nats), shown)


def part_text(part: int, whole: int) -> str:
    """Format a part as a percentage; a dash of nothing."""
    return share_text(part / whole, 0) if whole else "–"


def id_text(data: bytes) -> str:
    """Format an id, a digest or a key in hexadecimal."""
    return data.hex()


def time_markup(unix_s: int) -> Markup:
    """Return a time in UTC as an element that a script of ours shows in the viewer's zone."""
    at = _utc(unix_s)
    if at is None:
        return _FAR
    return Markup('<time datetime="{}" data-zone="time">{} UTC</time>').format(
        at.strftime("%Y-%m-%dT%H:%M:%SZ"), at.strftime("%Y-%m-%d %H:%M:%S")
    )


def day_markup(day: int | None) -> Markup:
    """Return a day since 1970, UTC; a dash if it is not known. A day has no zone."""
    if not day:
        return Markup('<span class="none">–</span>')
    at = _utc(day * _DAY_S)
    if at is None:
        return _FAR
    return Markup('<time datetime="{0}">{0}</time>').format(at.strftime("%Y-%m-%d"))


def day_of_markup(unix_s: int) -> Markup:
    """Return the day of a time, UTC."""
    return day_markup(unix_s // _DAY_S)


def _utc(unix_s: int) -> datetime | None:
    """Return a time that a calendar has; None: it is beyond its last year."""
    try:
        return datetime.fromtimestamp(unix_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None


FILTERS = {
    "count": count_text,
    "counted": counted,
    "rate": rate_text,
    "size": bytes_text,
    "duration": length_text,
    "nats": nats_text,
    "rounded_nats": nats_markup,
    "id": id_text,
    "time": time_markup,
    "day": day_markup,
    "day_of": day_of_markup,
    "share": part_text,
}
"""Filters of the templates, by name."""
