"""Users whose exact totals, and missing values, are found while a fleet reads their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from threading import Lock
from typing import Any

from askance_aggregator.learners.totals import AnswerTotals, sum_columns
from askance_aggregator.queries import EncodedColumns, everywhere
from askance_client.queries import Query, Schema
from askance_simulation.populations.population import Population

Stretch = tuple[int, int]
"""First ordinal of a stretch of users, and the one past it."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadingSums:
    """Sums over users whose records were read; they add up over disjoint users.

    Args:
        stretches: the users, in ordinal order; no two stretches overlap or adjoin.
        totals: exact totals, one per query of the `Observation`.
        gaps: fields that some of these users do not have.
    """

    stretches: tuple[Stretch, ...]
    totals: tuple[AnswerTotals, ...]
    gaps: frozenset[str]

    def __add__(self, other: ReadingSums) -> ReadingSums:
        """Return the sums over the users of both, who are different ones."""
        stretches: list[Stretch] = []
        for start, stop in sorted(self.stretches + other.stretches):
            if stretches and stretches[-1][1] == start:
                start, _ = stretches.pop()
            stretches.append((start, stop))
        totals = tuple(map(add, self.totals, other.totals))
        return ReadingSums(tuple(stretches), totals, self.gaps | other.gaps)

    def meets(self, start: int, stop: int) -> bool:
        """Return whether some of the users start .. stop-1 are among these."""
        return any(first < stop and start < end for first, end in self.stretches)


@dataclass(frozen=True, slots=True)
class Observation:
    """Specification of the sums that are taken of records as they are read, by any process."""

    queries: tuple[Query, ...]
    fields: frozenset[str]

    def sums(self, start: int, columns: EncodedColumns) -> ReadingSums:
        """Sum the records of consecutive users, of whom `start` is the first one's ordinal."""
        return ReadingSums(
            ((start, start + columns.rows),),
            tuple(sum_columns(self.queries, columns)),
            frozenset(name for name in self.fields if not everywhere(columns.present[name])),
        )


class ObservedUsers:
    """Users of a study, as its judge reads them (`assessments.Users`).

    A fleet reads records of `population`, takes the sums that `observation` specifies where it
    reads them, and gives these to `add`, or the records to `read`. When it has read every user's
    record, the totals of the study's queries are known without another pass, and so are the fields
    that all users have; else, and of other queries, totals are computed when they are asked for.
    They are the same integers either way.

    Args:
        users: the population.
        queries: those that the judge may ask the totals of.
        fields: those that a study may ask about; None: all. No other is looked at.
    """

    def __init__(
        self,
        users: Population,
        queries: Sequence[Query] = (),
        fields: Collection[str] | None = None,
    ) -> None:
        self.population = users
        self._observation = Observation(
            tuple(queries), frozenset(users.schema.fields if fields is None else fields)
        )
        self._sums: ReadingSums | None = None
        self._lock = Lock()

    @property
    def observation(self) -> Observation | None:
        """Sums to be taken; None: none are wanted or left, or users change from round to round."""
        wanted = bool(self._observation.queries or self._observation.fields)
        changes = self.population.drift is not None
        return self._observation if wanted and not changes and not self._complete else None

    def add(self, sums: ReadingSums) -> None:
        """Add sums; those over a user who was read before are ignored."""
        with self._lock:
            if self._sums is None:
                self._sums = sums
            elif not any(self._sums.meets(*stretch) for stretch in sums.stretches):
                self._sums += sums

    def read(self, start: int, columns: EncodedColumns) -> None:
        """Sum the records of consecutive users, of whom `start` is the first one's ordinal."""
        observation, known = self.observation, self._sums
        again = known is not None and known.meets(start, start + columns.rows)
        if observation is not None and not again:
            self.add(observation.sums(start, columns))

    @property
    def whole(self) -> frozenset[str]:
        """Fields of the study that all users were seen to have; of others it is not known."""
        if self._sums is None or not self._complete:
            return frozenset()
        return self._observation.fields - self._sums.gaps

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self.population.schema

    @property
    def size(self) -> int:
        """Number of users."""
        return self.population.size

    @property
    def target(self) -> Any:
        """Hypothesis that the labels follow; None if there is none."""
        return self.population.target

    @property
    def unseen(self) -> Callable[[int], EncodedColumns] | None:
        """Maker of rows of users who were not asked; None if there are none."""
        return self.population.unseen

    def stretches(self) -> Iterator[Stretch]:
        """Generate stretches of ordinals: the first one of each and the one past it."""
        return self.population.stretches()

    def columns(self, start: int, stop: int) -> EncodedColumns:
        """Return the records of a stretch."""
        return self.population.columns(start, stop)

    def totals(self, queries: Sequence[Query]) -> list[AnswerTotals]:
        """Return the exact totals of queries over all users."""
        if self._sums is not None and self._complete:
            known = dict(zip(self._observation.queries, self._sums.totals, strict=True))
            if known.keys() >= set(queries):
                return [known[query] for query in queries]
        return self.population.totals(queries)

    @property
    def _complete(self) -> bool:
        """True if each user's record was summed."""
        return self._sums is not None and self._sums.stretches == ((0, self.size),)
