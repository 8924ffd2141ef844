"""Classes of a chunk's users with equal histories, and the actions of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.studies import Cohort, Permutation
from askance_client.messages import Reason
from askance_simulation.disturbances import Behaviour
from askance_simulation.fleets.histories import AnsweredAsk, Ask, Outcome, replay

Ordinals = NDArray[np.int64]
Rows = NDArray[np.int64] | slice

_FEW = 16  # one user in this many or fewer: users who are asked are listed, not searched

Does = tuple[tuple[int, Outcome | None], ...]
"""For each group whose cohort a user is in, by its number: what the user does; None: nothing."""


@dataclass(frozen=True, slots=True)
class ClassResponse:
    """Response of a user to a group's request: a charge or a refusal, and the study's spending."""

    group: int
    refused: Reason | None
    charged: int
    spent: int


@dataclass(frozen=True, slots=True, eq=False)
class UserClass:
    """Users of a chunk with equal histories.

    Args:
      rows: where they stand in the chunk: sorted positions, or a slice of all.
      does: what they do, group by group, where they are asked.
      says: their responses, if they are present.
    """

    rows: Rows
    users: int
    does: Does
    says: tuple[ClassResponse, ...]


class Classes:
    """Partition of a chunk's users into classes of equal history.

    A user's place in the permutations that cohorts were taken from, and the rounds at which it was
    there, are its history; replays are remembered by it.

    Args:
      asks: all that was asked and can matter, oldest first; the last `groups` of them are the
        round's own.
      behaviour: which users were present.
    """

    def __init__(self, asks: tuple[Ask, ...], groups: int, behaviour: Behaviour) -> None:
        self._asks = asks
        self._groups = groups
        self._behaviour = behaviour
        edges: dict[Permutation, set[int]] = {}
        for ask in asks:
            if not ask.cohort.whole:
                ends = edges.setdefault(ask.cohort.permutation, set())
                ends |= {ask.cohort.start, ask.cohort.stop}
        self._edges = {order: np.array(sorted(ends)) for order, ends in edges.items()}
        self._listed = _listed([ask.cohort for ask in asks[len(asks) - groups :]])
        rounds = dict.fromkeys((ask.study, ask.round) for ask in asks)
        self._rounds = tuple(rounds) if behaviour.absences else ()
        self._replayed: dict[tuple[int, ...], tuple[Does, tuple[ClassResponse, ...]]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the inputs without the remembered replays."""
        return Classes, (self._asks, self._groups, self._behaviour)

    def of(self, start: int, stop: int) -> Iterator[UserClass]:
        """Generate the classes among the users start .. stop-1 that the round asks anything."""
        count = stop - start
        if not self._edges and not self._rounds:
            does, says = self._does(())
            if does:
                yield UserClass(slice(0, count), count, does, says)
            return
        ordinals = self._candidates(start, stop)
        if not len(ordinals):
            return
        signs = list(self._signs(ordinals))
        codes = np.zeros(len(ordinals), np.int64)
        for sign in signs:
            codes = _compact(codes * (int(sign.max()) + 1) + sign)
        if codes.max() < 1 << 16:
            codes = codes.astype(np.uint16)  # which are sorted many times as fast
        order = np.argsort(codes, kind="stable")
        ends = np.flatnonzero(np.diff(codes[order])) + 1
        for alike in np.split(order, ends):
            does, says = self._does(tuple(int(sign[alike[0]]) for sign in signs))
            if does:
                every = len(alike) == count
                rows = slice(0, count) if every else ordinals[alike] - start
                yield UserClass(rows, len(alike), does, says)

    def _candidates(self, start: int, stop: int) -> Ordinals:
        """Return a chunk's users that the round may ask anything, sorted."""
        if self._listed is None:
            return np.arange(start, stop, dtype=np.int64)
        first, last = self._listed.searchsorted((start, stop))
        return self._listed[first:last]

    def _signs(self, ordinals: Ordinals) -> Iterator[Ordinals]:
        """Generate the marks that distinguish histories: permutation segments, then absences."""
        for order, edges in self._edges.items():
            yield edges.searchsorted(order.positions(ordinals), side="right")
        for study, number in self._rounds:
            yield self._behaviour.absent(study, number, ordinals).astype(np.int64)

    def _does(self, signs: tuple[int, ...]) -> tuple[Does, tuple[ClassResponse, ...]]:
        found = self._replayed.get(signs)
        if found is None:
            does = self._replay(signs)
            found = self._replayed[signs] = does, _responses_of(does)
        return found

    def _replay(self, signs: tuple[int, ...]) -> Does:
        segments = dict(zip(self._edges, signs, strict=False))
        absences = dict(zip(self._rounds, signs[len(self._edges) :], strict=True))
        history: list[Ask] = []
        said: list[tuple[int, int | None]] = []
        first = len(self._asks) - self._groups
        for place, ask in enumerate(self._asks):
            if not self._asked(ask, segments):
                continue
            present = not absences.get((ask.study, ask.round), 0)
            if present:
                history.append(ask)
            if place >= first:
                said.append((place - first, len(history) - 1 if present else None))
        outcomes = replay(history) if said else []
        return tuple((group, None if at is None else outcomes[at]) for group, at in said)

    def _asked(self, ask: Ask, segments: dict[Permutation, int]) -> bool:
        cohort = ask.cohort
        if cohort.whole or not cohort.size:
            return cohort.whole
        edges = self._edges[cohort.permutation]
        segment = segments[cohort.permutation]
        return segment > 0 and cohort.start <= edges[segment - 1] < cohort.stop


def _listed(cohorts: Sequence[Cohort]) -> Ordinals | None:
    """List all users of these cohorts, sorted; None if they are too many to list."""
    # To compute which users of a chunk are in a cohort takes a walk of the permutation for each of
    # its users, which is the longer way to a few among very many.
    distinct = set(cohorts)
    population = max((cohort.permutation.size for cohort in distinct), default=0)
    if sum(cohort.size for cohort in distinct) * _FEW >= population:
        return None
    members = [cohort.permutation.ordinals(cohort.start, cohort.stop) for cohort in distinct]
    return np.unique(np.concatenate(members))


def _responses_of(does: Does) -> tuple[ClassResponse, ...]:
    return tuple(
        ClassResponse(group, None, outcome.charged, outcome.spent)
        if isinstance(outcome, AnsweredAsk)
        else ClassResponse(group, outcome.reason, 0, 0)
        for group, outcome in does
        if outcome is not None
    )


def _compact(codes: Ordinals) -> Ordinals:
    """Renumber the codes by the least numbers that keep their distinctions."""
    if codes.max() < 1 << 15:  # no need yet; times another sign they stay far from overflowing
        return codes
    return np.unique(codes, return_inverse=True)[1]
