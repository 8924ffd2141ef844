"""Queries of lists of studies, as values and as bytes; of analysts' and of operators' lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from askance_aggregator.store import (
    MAX_STUDIES,
    ListedState,
    StudyExtent,
    StudyList,
    StudyQuery,
)
from askance_aggregator.store.listing import ListedStudy
from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_protos.v1 import analyst_pb2 as pb

_STATES = {state: pb.ListedState.Value(f"LISTED_STATE_{state.name}") for state in ListedState}


T = TypeVar("T", bound=ListedStudy)


def encode_query(query: StudyQuery) -> pb.StudyQuery:
    """Return the message of a query; without a limit it asks for the longest part."""
    return pb.StudyQuery(
        limit=query.limit or MAX_STUDIES,
        cursor=query.cursor,
        newer=query.newer,
        state=pb.LISTED_STATE_UNSPECIFIED if query.state is None else _STATES[query.state],
        analyst=query.analyst,
        study=query.study,
    )


def decode_query(message: pb.StudyQuery) -> StudyQuery:
    """Return the query of a message.

    Raises:
      RemoteProtocolError: a state that is not known; a limit, or digits, of no list.
    """
    states = {number: state for state, number in _STATES.items()}
    if message.state and message.state not in states:
        raise RemoteProtocolError(
            f"query: expected a known state, found number {int(message.state)}"
        )
    try:
        return StudyQuery(
            states.get(message.state),
            message.analyst.lower(),
            message.study.lower(),
            message.cursor,
            message.newer,
            message.limit,
        )
    except InvalidParameter as error:
        raise RemoteProtocolError(str(error)) from None


def encode_extent(extent: StudyExtent | None) -> pb.StudyExtent | None:
    """Return the message of an extent."""
    if extent is None:
        return None
    return pb.StudyExtent(fitting=extent.fitting, total=extent.total, more=extent.more)


def decode_extent(message: pb.StudyExtent) -> StudyExtent:
    """Return the extent of a message."""
    return StudyExtent(message.fitting, message.total, message.more)


def every_study(
    fetch: Callable[[StudyQuery], StudyList[T]], query: StudyQuery, limit: int | None = None
) -> list[T]:
    """Return the studies that fit a query, the oldest first; they are fetched a part at a time.

    Args:
      fetch: returns a part.
      query: its filters.
      limit: how many at most, the newest ones; None: all.

    Raises:
      InvalidParameter: a limit below 1.
      RemoteProtocolError: the parts do not end after as many as there are by the first one.
    """
    if limit is not None and limit < 1:
        raise InvalidParameter(f"limit: expected 1 study or more, got {limit}")
    found: list[T] = []
    more, total = True, 0
    while more and (limit is None or len(found) < limit):
        most = MAX_STUDIES if limit is None else min(limit - len(found), MAX_STUDIES)
        cursor = found[-1].digest if found else b""
        part = fetch(replace(query, cursor=cursor, newer=False, limit=most))
        total = total if found else part.extent.total
        found += part.studies
        more = part.extent.more and bool(part.studies)
        if more and len(found) > total:
            raise RemoteProtocolError(f"studies: expected {total} in all, got {len(found)} or more")
    return found[:limit][::-1]
