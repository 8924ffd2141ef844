"""Users whose exact totals, and missing values, are found while a fleet reads their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from askance_aggregator.learners.totals import AnswerTotals, sum_columns
from askance_aggregator.queries import EncodedColumns, everywhere
from askance_client.queries import Query, Schema
from askance_simulation.populations.population import Population


class ObservedUsers:
    """Users of a study, as its judge reads them (`assessments.Users`).

    A fleet is given `population`. When it has read every user's record in stretches that do not
    overlap, the totals of the study's queries are known without another pass, and so are the fields
    that all users have; else, and of other queries, totals are computed when they are asked for.
    They are the same integers either way. A population that changes from round to round is not
    observed.

    Args:
        users: the population.
        queries: those that the judge may ask the totals of.
        fields: those that a study may ask about; None: all. No other is looked at.
    """

    def __init__(
        self,
        users: Population,
        queries: Sequence[Query],
        fields: Collection[str] | None = None,
    ) -> None:
        self._users = users
        self._queries = tuple(queries)
        self._fields = frozenset(users.schema.fields if fields is None else fields)
        self._gaps: set[str] = set()
        self._read: dict[int, int] = {}  # first ordinal of a stretch -> the one past it
        self._totals: dict[Query, AnswerTotals] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the users alone: what another process reads is not observed here."""
        return ObservedUsers, (self._users, (), self._fields)

    @property
    def population(self) -> Population:
        """The users, whose records are summed as they are read."""
        changes = self._users.drift is not None
        return self._users if changes else replace(self._users, columns=self._columns)

    @property
    def whole(self) -> frozenset[str]:
        """Fields of the study that all users were seen to have; of others it is not known."""
        return self._fields - self._gaps if self._complete else frozenset()

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self._users.schema

    @property
    def size(self) -> int:
        """Number of users."""
        return self._users.size

    @property
    def target(self) -> Any:
        """Hypothesis that the labels follow; None if there is none."""
        return self._users.target

    @property
    def unseen(self) -> Callable[[int], EncodedColumns] | None:
        """Maker of rows of users who were not asked; None if there are none."""
        return self._users.unseen

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Generate stretches of ordinals: the first one of each and the one past it."""
        return self._users.stretches()

    def columns(self, start: int, stop: int) -> EncodedColumns:
        """Return the records of a stretch."""
        return self._users.columns(start, stop)

    def totals(self, queries: Sequence[Query]) -> list[AnswerTotals]:
        """Return the exact totals of queries over all users."""
        if self._complete and all(query in self._totals for query in queries):
            return [self._totals[query] for query in queries]
        return self._users.totals(queries)

    @property
    def _complete(self) -> bool:
        """True if each user's record was summed once."""
        reached = 0
        for start, stop in sorted(self._read.items()):
            if start != reached:
                return False
            reached = stop
        return reached == self.size

    def _columns(self, start: int, stop: int) -> EncodedColumns:
        columns = self._users.columns(start, stop)
        if self._read.get(start) == stop:
            return columns
        found = sum_columns(self._queries, columns)
        gaps = [name for name in self._fields if not everywhere(columns.present[name])]
        with self._lock:
            if self._read.get(start) is None:
                self._read[start] = stop
                self._gaps.update(gaps)
                for query, totals in zip(self._queries, found, strict=True):
                    before = self._totals.get(query)
                    self._totals[query] = totals if before is None else before + totals
        return columns
