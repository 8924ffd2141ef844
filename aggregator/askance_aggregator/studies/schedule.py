"""Time at which an aggregator begins a study, as the analyst signs it.

It is a parameter of the signed study, under a name that no learner has (see `keep`): devices pass
it on unread. An aggregator of an earlier version refuses such a study, so it never begins it early.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from askance_client.errors import InvalidParameter
from askance_client.messages import StudyTerms
from askance_client.printable import value_text

START = "schedule.start_unix_s"
_DIGITS = 11  # of seconds since 1970, for some thousand years
_EXAMPLE = '"2026-12-01T08:00Z"'


def start_of(terms: StudyTerms) -> int:
    """Read the time before which no user is asked, in seconds since 1970, UTC; 0: at once."""
    text = dict(terms.parameters).get(START, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InvalidParameter(f"{START}: expected whole seconds since 1970, got {text[:20]!r}")
    return int(text)


def parse_start(value: object) -> int:
    """Parse a time in UTC, such as "2026-12-01T08:00Z"; return seconds since 1970."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() != timedelta(0) or moment.timestamp() < 0:
        raise InvalidParameter(
            f"expected a time in UTC such as {_EXAMPLE}, got {value_text(value)}"
        )
    return int(moment.timestamp())


def time_text(unix_s: int) -> str:
    """Format a time as `parse_start` reads it."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%MZ}"
