"""Studies: a list by words, state, analyst and days, in an order, a page at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from starlette.responses import Response

from askance.console.link import permitted
from askance.console.routes import ConsoleRoute, Visit
from askance_aggregator.analyst import StudySummary, epochs_of, state_of
from askance_aggregator.analyst.client import MIN_PREFIX
from askance_aggregator.store import ListedState, ListOrder, StudyQuery
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

E = TypeVar("E", bound=StrEnum)
PAGE = 50  # studies of one page
STATES = tuple(ListedState)
_LIST = ("Analysts/List",)
_PROGRESS = ("Operators/Studies",)
_DAY_S = 86_400
_ID = re.compile(f"[0-9a-fA-F]{{{MIN_PREFIX},64}}")
_COLUMNS = {  # that the list is sorted by, with their heads
    ListOrder.TITLE: "Study",
    ListOrder.SUBMITTED: "Submitted",
    ListOrder.ENDED: "Ended",
    ListOrder.USERS: "Users",
}


@dataclass(frozen=True, slots=True)
class StudyFilter:
    """Part of the list of studies that an address names.

    Args:
      query: without its cursor.
      q: words, or digits that begin a digest, as they were entered.
      since: first day, and `until` the last day, on which a study was open; empty: any.
    """

    query: StudyQuery
    q: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, visit: Visit) -> StudyFilter:
        """Return the filter of a request's address; raise InvalidParameter for another text."""
        q, since, until = visit.query("q"), visit.query("since"), visit.query("until")
        is_id = bool(_ID.fullmatch(q))
        query = StudyQuery(
            state=_one_of(ListedState, "state", visit.query("state")),
            analyst=visit.query("analyst").lower(),
            study=q.lower() if is_id else "",
            words="" if is_id else q,
            order=_one_of(ListOrder, "sort", visit.query("sort")) or ListOrder.SUBMITTED,
            reversed=visit.query("reversed") == "1",
            since_unix_s=_first_second("since", since) if since else 0,
            until_unix_s=_first_second("until", until) + _DAY_S if until else 0,
            limit=PAGE,
        )
        return cls(query, q, since, until)

    @property
    def is_narrow(self) -> bool:
        """Return whether it leaves studies out."""
        return not self.query.is_whole

    def address(self, order: str = "", **more: str) -> str:
        """Return the address of this list, or of the list by another order.

        The same order again is reversed. `more` has further parameters.
        """
        query = self.query
        shown = ListOrder(order) if order else query.order
        is_reversed = query.reversed
        if order:
            is_reversed = shown is query.order and not query.reversed
        named = {
            "q": self.q,
            "state": query.state or "",
            "analyst": query.analyst,
            "since": self.since,
            "until": self.until,
            "sort": "" if shown is ListOrder.SUBMITTED else shown,
            "reversed": "1" if is_reversed else "",
            **more,
        }
        return "/studies?" + urlencode({name: text for name, text in named.items() if text})


async def _studies(visit: Visit) -> Response:
    identity = await visit.link.identity()
    shown, cursor = StudyFilter.of(visit), _cursor(visit.query("cursor"))
    query = replace(shown.query, cursor=cursor, newer=bool(cursor) and visit.query("newer") == "1")
    found = await visit.call(visit.link.aggregator.studies_page, query)
    fills_page = bool(found.studies) and (found.extent.more or not query.newer)
    if query.cursor and not fills_page:  # nothing beside the cursor, or less than a page before
        query = replace(query, cursor=b"", newer=False)
        found = await visit.call(visit.link.aggregator.studies_page, query)
    return await visit.page(
        "studies.html",
        studies=[(one, state_word(one), epochs_of(one)) for one in found.studies],
        number=found.extent.fitting,
        all=found.extent.total,
        states=STATES,
        shown=shown,
        columns=_COLUMNS,
        sees_all=identity is not None and permitted(identity.role, _PROGRESS),
        has_newer=bool(query.cursor),
        has_older=query.newer or found.extent.more,
    )


def state_word(summary: StudySummary) -> str:
    """Return the state for readers: that of an open study may be paused or scheduled."""
    state = state_of(summary).name.lower()
    return summary.reason if state == "open" and summary.reason else state


def _one_of(kind: type[E], name: str, text: str) -> E | None:
    """Return the member that a parameter names, None: none is named; else raise."""
    if text and text not in tuple(kind):
        raise InvalidParameter(
            f"{name}: expected one of {', '.join(kind)}, got {value_text(text[:80])}"
        )
    return kind(text) if text else None


def _first_second(name: str, text: str) -> int:
    """Return the first second of a day, UTC; raise InvalidParameter for another text."""
    try:
        found = int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        found = 0
    if found <= 0:
        raise InvalidParameter(
            f"{name}: expected a day such as 2026-11-20, got {value_text(text[:40])}"
        )
    return found


def _cursor(text: str) -> bytes:
    """Return the digest beside which a page begins; raise InvalidParameter for another text."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidParameter(
            f"cursor: expected hexadecimal digits, got {value_text(text[:80])}"
        ) from None


ROUTES = (ConsoleRoute("/studies", _studies, _LIST, "Studies", is_listed=True),)
