"""A chunk of 2^16 ordinals of a round: levels, coins, reports, counts and leaves.

`ChunkWork.chunk` is a pure function of the chunk's number and of the work, which is a value: it may
be done by any thread, process or machine, in any order, and again where it was lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.aggregator.session import MISSING
from askance.aggregator.session.tallies import CHUNK, leaf
from askance.client.messages import Reason
from askance.client.queries import EncodedColumns, QueryKind
from askance.client.randomizers import Randomizer
from askance.client.randomizers.rounding import round_to_levels, sign_pattern
from askance.simulation.behaviour import Behaviour
from askance.simulation.coins import keystream, keystream_at
from askance.simulation.fleets.classes import Classes, UserClass
from askance.simulation.fleets.column_draws import draw
from askance.simulation.fleets.histories import Answered, Ask, Outcome
from askance.simulation.populations import Population

Symbols = NDArray[np.uint8]
Words = NDArray[np.uint64]
Part = tuple[UserClass, Outcome | None]

_SPARSE = 8  # one user in so many or fewer: their coins are computed one by one


@dataclass(frozen=True, slots=True)
class Said:
    """What a user says to a group's request: its answer's charge or why it refuses, and what the
    study has cost it."""

    group: int
    refused: Reason | None
    charged: int
    spent: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkResult:
    """What came of a chunk.

    Args:
      counts: a group's tally of the chunk's answers; None where nobody of the chunk was asked.
      leaves: a group's leaf of the Merkle tree.
      users: how many of the chunk's users say the same, to all that they were asked in the round;
        who is away says nothing.
    """

    counts: tuple[NDArray[np.int64] | None, ...]
    leaves: tuple[bytes, ...]
    users: Counter[tuple[Said, ...]]

    @property
    def reports(self) -> int:
        """How many answers and refusals came."""
        return sum(len(said) * users for said, users in self.users.items())


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWork:
    """All that the chunks of one round are computed from. It holds no lock, cipher or array a user,
    and can be pickled if its population's functions can.

    Args:
      population: whose answers.
      behaviour: who lies, and what.
      randomizers: one a group.
      classes: who does what.
    """

    population: Population
    behaviour: Behaviour
    randomizers: tuple[Randomizer, ...]
    classes: Classes

    @property
    def chunks(self) -> int:
        """How many there are; they are numbered from 0."""
        return -(-self.population.size // CHUNK)

    def chunk(self, number: int) -> ChunkResult:
        """What comes of the users number * 2^16 and on."""
        start = number * CHUNK
        room = _Room(self, start, min(start + CHUNK, self.population.size))
        parts: list[list[Part]] = [[] for _ in self.randomizers]
        users: Counter[tuple[Said, ...]] = Counter()
        for alike in self.classes.of(start, room.stop):
            users[_said(alike)] += alike.users
            for group, outcome in alike.does:
                parts[group].append((alike, outcome))
        nobody = leaf(number, b"")
        counts: list[NDArray[np.int64] | None] = []
        leaves = []
        for randomizer, asked in zip(self.randomizers, parts, strict=True):
            if not asked:
                counts.append(None)
                leaves.append(nobody)
                continue
            received, symbols = room.symbols(randomizer, asked)
            counts.append(randomizer.tally(received))
            leaves.append(leaf(number, symbols.reshape(-1).data))
        return ChunkResult(tuple(counts), tuple(leaves), users)


def _said(alike: UserClass) -> tuple[Said, ...]:
    return tuple(
        Said(group, None, outcome.charged, outcome.spent)
        if isinstance(outcome, Answered)
        else Said(group, outcome.reason, 0, outcome.spent)
        for group, outcome in alike.does
        if outcome is not None
    )


class _Room:
    """The users of one chunk, their columns as far as they are looked at."""

    def __init__(self, work: ChunkWork, start: int, stop: int) -> None:
        self._work = work
        self._start = start
        self.stop = stop
        self._people: dict[int, EncodedColumns] = {}
        self._taken: dict[tuple[int, int, str], EncodedColumns] = {}

    def symbols(self, randomizer: Randomizer, parts: Sequence[Part]) -> tuple[Symbols, Symbols]:
        """A group's symbols: those received, and in ordinal order with the missing ones."""
        ((first, outcome), *others) = parts
        if not others and isinstance(outcome, Answered):
            symbols = self._drawn(outcome.first, first)
            return symbols, symbols
        every = np.arange(self.stop - self._start)
        rows = np.sort(np.concatenate([every[alike.rows] for alike, _ in parts]))
        symbols = np.full((len(rows), randomizer.width), MISSING, np.uint8)
        answered = np.zeros(len(rows), np.bool_)
        for alike, outcome in parts:
            if isinstance(outcome, Answered):
                places = rows.searchsorted(every[alike.rows])
                symbols[places] = self._drawn(outcome.first, alike)
                answered[places] = True
        return symbols[answered], symbols

    def _drawn(self, ask: Ask, alike: UserClass) -> Symbols:
        """The reports of a class to a request (see `Device`'s own draw), the liars' own among
        them."""
        query, randomizer = ask.query, ask.randomizer
        people = self._columns(ask, alike)
        words = self._coins(ask, alike)
        coins, rounding = words[:, : randomizer.coins], words[:, randomizer.coins :]
        ends = query.low, query.high
        values = levels = query.evaluate_vector(people) if _vector(ask) else query.evaluate(people)
        if _vector(ask):
            levels = round_to_levels(values, *ends, 2, np.ascontiguousarray(rounding)) == 1
        elif query.kind is QueryKind.REAL:
            coin = np.ascontiguousarray(rounding[:, 0])
            levels = round_to_levels(values, *ends, randomizer.levels, coin)
        symbols = draw(randomizer, levels, coins)
        if not self._work.behaviour.lies:
            return symbols
        ordinals = np.arange(self._start, self.stop, dtype=np.int64)[alike.rows]
        for row in np.flatnonzero(self._work.behaviour.lying(ordinals)).tolist():
            level = (
                sign_pattern(values[row].tolist(), *ends, rounding[row].tolist())
                if _vector(ask)
                else int(levels[row])
            )
            lie = self._work.behaviour.lie(
                ask.request, int(ordinals[row]), query, randomizer, level
            )
            symbols[row] = np.frombuffer(lie, np.uint8)
        return symbols

    def _coins(self, ask: Ask, alike: UserClass) -> Words:
        count = ask.randomizer.coins + rounding_coins(ask)
        if alike.users * _SPARSE <= self.stop - self._start and not isinstance(alike.rows, slice):
            return keystream_at(ask.key, self._start + alike.rows, count)
        words = keystream(ask.key, self._start * count, (self.stop - self._start) * count)
        return words.reshape(-1, count)[alike.rows]

    def _columns(self, ask: Ask, alike: UserClass) -> EncodedColumns:
        """A class's records as they were in the request's round: the fields that are asked."""
        fields = sorted(ask.query.fields_used)
        people = self._in_round(ask.round)
        if isinstance(alike.rows, slice):
            return people
        number = 0 if self._work.population.drift is None else ask.round
        for name in fields:
            if (number, id(alike), name) not in self._taken and name in people.values:
                one = EncodedColumns(
                    {name: people.values[name]}, {name: people.present[name]}, people.rows
                )
                self._taken[number, id(alike), name] = one.take(alike.rows)
        taken = [self._taken[number, id(alike), name] for name in fields if name in people.values]
        return EncodedColumns(
            {name: column for one in taken for name, column in one.values.items()},
            {name: present for one in taken for name, present in one.present.items()},
            alike.users,
        )

    def _in_round(self, number: int) -> EncodedColumns:
        number = 0 if self._work.population.drift is None else number
        people = self._people.get(number)
        if people is None:
            population = self._work.population.in_round(number)
            people = self._people[number] = population.columns(self._start, self.stop)
        return people


def _vector(ask: Ask) -> bool:
    return ask.query.kind is QueryKind.VECTOR


def rounding_coins(ask: Ask) -> int:
    """How many of an answer's coins round (see `Request.rounding_coins`)."""
    if _vector(ask):
        return ask.query.components
    return 1 if ask.query.kind is QueryKind.REAL else 0
