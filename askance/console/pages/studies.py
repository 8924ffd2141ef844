"""Studies: a list, newest first, by state and analyst, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from askance.console.link import permitted
from askance.console.routes import ConsoleRoute, Visit
from askance_aggregator.analyst import StudySummary
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

PAGE = 50  # studies of one page
STATES = ("open", "paused", "done", "failed", "cancelled")
_LIST = ("Analysts/List",)
_PROGRESS = ("Operators/Studies",)
_MAX_PAGE = 1 << 31
_KEY_DIGITS = 64


@dataclass(frozen=True, slots=True)
class ListedStudy:
    """Row of the list.

    Args:
      summary: of the study.
      state: open, paused, scheduled, done, failed or cancelled.
      analyst: public key in hexadecimal; empty: the caller's own.
    """

    summary: StudySummary
    state: str
    analyst: str


async def _studies(visit: Visit) -> Response:
    identity = await visit.link.identity()
    sees_all = identity is not None and permitted(identity.role, _PROGRESS)
    state, analyst = visit.query("state"), visit.query("analyst").lower()
    _check(state, analyst)
    place = visit.number("page", 1, 1, _MAX_PAGE)
    summaries = await visit.call(visit.link.aggregator.studies)
    keys = {}
    if sees_all:
        progress = await visit.call(visit.link.operator.studies)
        keys = {one.digest: one.public_key.hex() for one in progress}
    listed = [
        ListedStudy(one, state_word(one), keys.get(one.digest, "")) for one in reversed(summaries)
    ]
    chosen = [
        one
        for one in listed
        if (not state or one.state == state) and one.analyst.startswith(analyst)
    ]
    start = (place - 1) * PAGE
    return await visit.page(
        "studies.html",
        studies=chosen[start : start + PAGE],
        number=len(chosen),
        all=len(listed),
        states=STATES,
        state=state,
        analyst=analyst,
        sees_all=sees_all,
        place=place,
        last=max(-(-len(chosen) // PAGE), 1),
    )


def state_word(summary: StudySummary) -> str:
    """Return the state for readers: that of an open study may be paused or scheduled."""
    state = summary.state.name.lower()
    return summary.reason if state == "open" and summary.reason else state


def _check(state: str, analyst: str) -> None:
    """Refuse a filter that fits no study.

    Raises:
      InvalidParameter: no such state, or no digits of a key.
    """
    if state and state not in STATES:
        raise InvalidParameter(f"state: expected {', '.join(STATES)}, got {value_text(state)}")
    if len(analyst) > _KEY_DIGITS or not set(analyst) <= set("0123456789abcdef"):
        raise InvalidParameter(
            f"analyst: expected hexadecimal digits of a public key, got {value_text(analyst)}"
        )


ROUTES = (ConsoleRoute("/studies", _studies, _LIST, "Studies", is_listed=True),)
