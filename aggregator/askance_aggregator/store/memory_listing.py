"""Lists of studies of the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from askance_aggregator.store.listing import (
    ListedState,
    StudyEntry,
    StudyExtent,
    StudyList,
    StudyQuery,
    StudyState,
    key_range,
    unknown_cursor,
)
from askance_client.messages import SignedStudy


class MemoryListing:
    """Lists of studies (see `Listing`).

    Args:
      studies: returns all studies by digest, oldest first.
      entry: returns one of them.
      paused: returns the digests of those that are paused.
    """

    def __init__(
        self,
        studies: Callable[[], Mapping[bytes, SignedStudy]],
        entry: Callable[[bytes], StudyEntry | None],
        paused: Callable[[], frozenset[bytes]],
    ) -> None:
        self._studies = studies
        self._entry = entry
        self._paused = paused

    def page(self, query: StudyQuery, owner: bytes | None = None) -> StudyList[StudyEntry]:
        listed = {
            digest: signed
            for digest, signed in self._studies().items()
            if owner in (None, signed.public_key)
        }
        if query.cursor and query.cursor not in listed:
            raise unknown_cursor(query.cursor)
        places = {digest: place for place, digest in enumerate(listed)}
        paused = self._paused() if query.state is not None else frozenset[bytes]()
        fitting = [
            entry
            for digest, signed in listed.items()
            if _begins(signed.public_key, query.analyst)
            and _begins(digest, query.study)
            and (entry := self._entry(digest)) is not None
            and query.state in (None, _state(entry, paused))
        ]
        found = fitting if query.newer else fitting[::-1]
        if query.cursor:
            place = places[query.cursor]
            found = [
                one
                for one in found
                if (places[one.digest] > place if query.newer else places[one.digest] < place)
            ]
        part = found[: query.limit]
        if query.newer:
            part.reverse()
        extent = StudyExtent(len(fitting), len(listed), more=len(found) > len(part))
        return StudyList(tuple(part), extent)


def _begins(value: bytes, digits: str) -> bool:
    low, high = key_range(digits)
    return not digits or low <= value <= high


def _state(entry: StudyEntry, paused: frozenset[bytes]) -> ListedState:
    if entry.state is StudyState.OPEN and entry.digest in paused:
        return ListedState.PAUSED
    return ListedState[entry.state.name]
