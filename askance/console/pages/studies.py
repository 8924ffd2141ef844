"""Studies: a list, newest first, by state and analyst, a page at a time."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from askance.console.link import permitted
from askance.console.routes import ConsoleRoute, Visit
from askance_aggregator.analyst import StudySummary, epochs_of, state_of
from askance_aggregator.store import ListedState, StudyQuery
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

PAGE = 50  # studies of one page
STATES = tuple(ListedState)
_LIST = ("Analysts/List",)
_PROGRESS = ("Operators/Studies",)


async def _studies(visit: Visit) -> Response:
    identity = await visit.link.identity()
    state, analyst = visit.query("state"), visit.query("analyst").lower()
    cursor = _cursor(visit.query("cursor"))
    query = StudyQuery(
        state=_state(state),
        analyst=analyst,
        cursor=cursor,
        newer=bool(cursor) and visit.query("newer") == "1",
        limit=PAGE,
    )
    found = await visit.call(visit.link.aggregator.studies_page, query)
    fills_page = bool(found.studies) and (found.extent.more or not query.newer)
    if query.cursor and not fills_page:  # nothing beside the cursor, or less than a page newer
        query = replace(query, cursor=b"", newer=False)
        found = await visit.call(visit.link.aggregator.studies_page, query)
    return await visit.page(
        "studies.html",
        studies=[(one, state_word(one), epochs_of(one)) for one in found.studies],
        number=found.extent.fitting,
        all=found.extent.total,
        states=STATES,
        state=state,
        analyst=analyst,
        sees_all=identity is not None and permitted(identity.role, _PROGRESS),
        has_newer=bool(query.cursor),
        has_older=query.newer or found.extent.more,
    )


def state_word(summary: StudySummary) -> str:
    """Return the state for readers: that of an open study may be paused or scheduled."""
    state = state_of(summary).name.lower()
    return summary.reason if state == "open" and summary.reason else state


def _state(text: str) -> ListedState | None:
    """Return the state that a filter names, None: any; raise InvalidParameter for another text."""
    if text and text not in STATES:
        raise InvalidParameter(
            f"state: expected one of {', '.join(STATES)}, got {value_text(text)}"
        )
    return ListedState(text) if text else None


def _cursor(text: str) -> bytes:
    """Return the digest beside which a page begins; raise InvalidParameter for another text."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidParameter(
            f"cursor: expected hexadecimal digits, got {value_text(text[:80])}"
        ) from None


ROUTES = (ConsoleRoute("/studies", _studies, _LIST, "Studies", is_listed=True),)
