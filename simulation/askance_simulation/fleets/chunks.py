"""Chunks of 2^16 ordinals of a round: levels, coins, reports, counts and leaves.

`ChunkWork.shard`, of a few chunks in a row, is a pure function of their numbers and of the work,
which is a value: it may be done by any thread, process or machine, in any order, and again where it
was lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns, evaluate_vectors, holds, values_of
from askance_aggregator.studies.tallies import CHUNK, Packed, leaf, packed_what, packed_who
from askance_client.messages import rounding_coins
from askance_client.queries import QueryKind
from askance_client.randomizers import Randomizer
from askance_simulation.disturbances import Behaviour
from askance_simulation.families.fused import Sums, counter, most_met
from askance_simulation.families.rounding import Rounding, rounding
from askance_simulation.fleets.classes import Classes, ClassResponse, UserClass
from askance_simulation.fleets.histories import AnsweredAsk, Ask, Outcome
from askance_simulation.populations import Observation, Population, ReadingSums
from askance_simulation.randomness import Keystream, keystream, keystream_at


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLevels:
    """Inputs that users' reports are drawn from.

    Args:
      values: the query's values on the grid.
      levels: what is randomized: of vectors the patterns, or the vectors themselves where no coin
        rounds them; of predicates whether they hold.
      words: the coins that randomize, then those that round.
    """

    values: NDArray[np.signedinteger[Any]] | NDArray[np.bool_]
    levels: NDArray[np.integer[Any]] | NDArray[np.bool_]
    words: Words

    @classmethod
    def of(cls, ask: Ask, people: EncodedColumns, words: Words, round_: Rounding) -> DrawnLevels:
        """Evaluate the query and find the levels as a device does (see `Device`)."""
        query, randomizer = ask.query, ask.randomizer
        if query.kind is QueryKind.PREDICATE:
            held = holds(query, people)
            return cls(held, held, words)
        vector = query.kind is QueryKind.VECTOR
        values = evaluate_vectors(query, people) if vector else values_of(query, people)
        if not rounding_coins(query, randomizer):
            return cls(values, values, words)
        levels = 2 if vector else randomizer.levels
        return cls(values, round_(values, query.low, query.high, levels, words), words)

    def level(self, ask: Ask, row: int) -> int:
        """Return one user's level, as its device computes it."""
        if ask.query.kind is not QueryKind.VECTOR:
            return int(self.levels[row])
        coins = self.words[row, ask.randomizer.coins :].tolist()
        values, query = self.values[row].tolist(), ask.query
        return ask.randomizer.vector_level(values, query.low, query.high, coins)


Symbols = NDArray[np.uint8]
Words = NDArray[np.uint64]
Ordinals = NDArray[np.int64]
Which = NDArray[np.bool_]
Answerers = Which | int
"""Mask of the asked users who answered; a number: all of that many users."""
Part = tuple[UserClass, Outcome | None]

_BLOCK = 1 << 16  # words of coins that are drawn from at once, per chunk
_TOGETHER = 4  # chunks that are drawn at once: what they hold stays in the third cache
_FEWEST = 1 << 12  # users of a block, however many words each takes
_SPARSE = 8  # one user in this many or fewer: their coins are computed one by one


class _Memory(local):
    """Buffers that a thread uses again for the next chunk."""

    # Returning memory to the system and taking it again costs half of the time that is computed
    # in it, and a new cipher a twentieth.

    def __init__(self) -> None:
        self._words: Words = np.empty(0, np.uint64)
        self._stream = Keystream(bytes(16), 0)

    def stream(self, key: bytes, first: int) -> Keystream:
        """Return the keystream from this word on, continued from the chunk before if possible."""
        if (self._stream.key, self._stream.next) != (key, first):
            self._stream = Keystream(key, first)
        return self._stream

    def words(self, users: int, count: int) -> Words:
        """Return a buffer of shape (users, count); its former content is lost."""
        if len(self._words) < users * count:
            self._words = np.empty(users * count, np.uint64)
        return self._words[: users * count].reshape(users, count)


_MEMORY = _Memory()


@dataclass(frozen=True, slots=True, eq=False)
class ShardResult:
    """Result of a few consecutive chunks.

    Args:
      sums: a group's sums over its answers (`fused.counts_of`); None where none of its users was
        asked.
      leaves: a group's leaves of the Merkle tree, one per chunk.
      users: number of users by their responses to all that they were asked in the round; an absent
        user has none.
      read: sums over the users whose records were read (see `ChunkWork.observation`); None: there
        are none.
    """

    sums: tuple[Sums | None, ...]
    leaves: tuple[tuple[bytes, ...], ...]
    users: Counter[tuple[ClassResponse, ...]]
    read: ReadingSums | None = None

    @property
    def reports(self) -> int:
        """Number of answers and refusals."""
        return sum(len(said) * users for said, users in self.users.items())


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWork:
    """Inputs that the chunks of one round are computed from.

    It holds no lock, cipher or array per user, and can be pickled if its population's functions
    can.

    Args:
      population: users.
      behaviour: lying users, and their lies.
      randomizers: one per group.
      leaf_keys: one per group, secret, from which the salts of its leaves follow.
      classes: partition of the users by their actions.
      expected: users that the process will meet in all, in many trials (see `fused.most_met`).
      observation: sums that are taken of the records where they are read; None: none are taken.
    """

    population: Population
    behaviour: Behaviour
    randomizers: tuple[Randomizer, ...]
    leaf_keys: tuple[bytes, ...] = field(repr=False)
    classes: Classes
    expected: int = 0
    observation: Observation | None = None

    @property
    def chunks(self) -> int:
        """Number of chunks; they are numbered from 0."""
        return -(-self.population.size // CHUNK)

    def shard(self, chunks: range, together: int = _TOGETHER) -> ShardResult:
        """Compute the result of consecutive chunks: users 2^16 number and on, for each number.

        Args:
          chunks: consecutive chunk numbers.
          together: how many chunks are drawn at once; it changes how fast that is, nothing else.
            The more, the less of the time is the interpreter's, and the less do threads wait for
            each other's turn at it; the coins of more than a few are read from far away.
        """
        met = most_met(self.population.size, self.expected)
        groups = [
            _GroupOfShard(randomizer, key, met)
            for randomizer, key in zip(self.randomizers, self.leaf_keys, strict=True)
        ]
        users: Counter[tuple[ClassResponse, ...]] = Counter()
        coins = max((randomizer.coins for randomizer in self.randomizers), default=0)
        step = self.population.stretch(coins)
        if step == CHUNK:
            step *= together
        end = min(chunks.stop * CHUNK, self.population.size)
        read: list[ReadingSums] = []
        for start in range(chunks.start * CHUNK, end, step):
            range_ = _UserRange(self, start, min(start + step, end), _BLOCK * together)
            self._add(range_, groups, users)
            read += range_.read
        return ShardResult(
            tuple(group.sums() for group in groups),
            tuple(tuple(group.leaves) for group in groups),
            users,
            reduce(add, read) if read else None,
        )

    def _add(
        self,
        range_: _UserRange,
        groups: Sequence[_GroupOfShard],
        users: Counter[tuple[ClassResponse, ...]],
    ) -> None:
        parts: list[list[Part]] = [[] for _ in groups]
        for alike in self.classes.of(range_.start, range_.stop):
            users[alike.says] += alike.users
            for place, outcome in alike.does:
                parts[place].append((alike, outcome))
        for group, asked in zip(groups, parts, strict=True):
            answers = range_.answers(group, asked) if asked else [None] * len(range_.pieces)
            for (number, last), piece in zip(range_.pieces, answers, strict=True):
                if piece is not None:
                    group.add(*piece)
                if last:
                    group.close(number)


class _GroupOfShard:
    """Answers of a group's users in a shard, chunk by chunk."""

    def __init__(self, randomizer: Randomizer, leaf_key: bytes, users: int) -> None:
        self.randomizer = randomizer
        self._leaf_key = leaf_key
        self.counter = counter(randomizer, users)
        self.rounding = rounding(users)
        self.leaves: list[bytes] = []
        self._asked = False
        self._said: list[tuple[Answerers, Symbols]] = []

    def add(self, answered: Answerers, symbols: Symbols) -> None:
        """Add users who were asked, in ordinal order: which of them answered, and their reports."""
        self._said.append((answered, symbols))

    def close(self, number: int) -> None:
        """Close a chunk, of which all users have been added."""
        said, self._said = self._said, []
        if not said:
            self.leaves.append(leaf(self._leaf_key, number))
            return
        ((who, symbols), *others) = said
        if others:
            who = np.concatenate([_mask(answered) for answered, _ in said])
            symbols = np.concatenate([part for _, part in said])
        packed = _everybody(who) if isinstance(who, int) else packed_who(who)
        self._asked = True
        what = packed_what(self.randomizer, symbols)
        self.leaves.append(leaf(self._leaf_key, number, packed, what))

    def sums(self) -> Sums | None:
        """Return the sums of all answers; None if no user was asked."""
        return self.counter.sums() if self._asked else None


def _mask(answered: Answerers) -> Which:
    return np.ones(answered, np.bool_) if isinstance(answered, int) else answered


@lru_cache(maxsize=64)
def _everybody(users: int) -> Packed:
    """Pack the mask of a group in which all users answered."""
    return packed_who(np.ones(users, np.bool_))


class _UserRange:
    """Consecutive users of a part of a chunk or of several chunks, with the columns in use."""

    def __init__(self, work: ChunkWork, start: int, stop: int, block: int) -> None:
        self._work = work
        self.start = start
        self.stop = stop
        self._block = block
        numbers = range(start // CHUNK, (stop - 1) // CHUNK + 1)
        ends = [min((number + 1) * CHUNK, work.population.size) for number in numbers]
        self.pieces = [(number, end <= stop) for number, end in zip(numbers, ends, strict=True)]
        """The chunks that it has a part of, and whether that is the last of it."""
        self.read: list[ReadingSums] = []
        """Sums over its users, once their records were read."""
        self._cuts = np.array([min(end, stop) - start for end in ends])
        self._people: dict[int, EncodedColumns] = {}
        self._taken: dict[tuple[int, int, str], EncodedColumns] = {}

    def answers(
        self, group: _GroupOfShard, parts: Sequence[Part]
    ) -> list[tuple[Answerers, Symbols]]:
        """Return a group's answering users and their reports, in ordinal order per chunk."""
        ((first, outcome), *others) = parts
        if not others and isinstance(outcome, AnsweredAsk):
            symbols, rows = self._drawn(group, outcome.first, first), first.rows
            ends = self._cuts if isinstance(rows, slice) else rows.searchsorted(self._cuts)
            return [
                (stop - start, symbols[start:stop]) for start, stop in pairwise([0, *ends.tolist()])
            ]
        every = np.arange(self.stop - self.start)
        asked = np.sort(np.concatenate([every[alike.rows] for alike, _ in parts]))
        symbols = np.empty((len(asked), group.randomizer.width), np.uint8)
        answered = np.zeros(len(asked), np.bool_)
        for alike, outcome in parts:
            if isinstance(outcome, AnsweredAsk):
                places = asked.searchsorted(every[alike.rows])
                symbols[places] = self._drawn(group, outcome.first, alike)
                answered[places] = True
        return [
            (answered[start:stop], symbols[start:stop][answered[start:stop]])
            for start, stop in pairwise([0, *asked.searchsorted(self._cuts).tolist()])
        ]

    def _drawn(self, group: _GroupOfShard, ask: Ask, alike: UserClass) -> Symbols:
        """Draw and count a class's reports to a request, in blocks that stay in the cache."""
        people = self._columns(ask, alike)
        blocks = []
        for rows, words in self._coins(ask, alike):
            part = people if rows.stop - rows.start == len(people) else people.take(rows)
            drawn = DrawnLevels.of(ask, part, words, group.rounding)
            symbols = group.counter.draw(drawn.levels, words)
            if self._work.behaviour.lies:
                ordinals = self._ordinals(alike)[rows]
                group.counter.replace(symbols, *self._lies(ask, ordinals, drawn))
            blocks.append(symbols)
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def _ordinals(self, alike: UserClass) -> Ordinals:
        return np.arange(self.start, self.stop, dtype=np.int64)[alike.rows]

    def _lies(self, ask: Ask, ordinals: Ordinals, drawn: DrawnLevels) -> tuple[Ordinals, Symbols]:
        """Return the rows of the users who lie, and their lies."""
        behaviour = self._work.behaviour
        rows = np.flatnonzero(behaviour.lying(ordinals))
        lies = [
            behaviour.lie(
                ask.request, int(ordinals[row]), ask.query, ask.randomizer, drawn.level(ask, row)
            )
            for row in rows.tolist()
        ]
        width = ask.randomizer.width
        return rows, np.frombuffer(b"".join(lies), np.uint8).reshape(-1, width)

    def _coins(self, ask: Ask, alike: UserClass) -> Iterator[tuple[slice, Words]]:
        """Generate the words of a class's answers, block by block."""
        # An array of words is valid until the next one is generated.
        count = ask.randomizer.coins + rounding_coins(ask.query, ask.randomizer)
        step = max(_FEWEST, self._block // count)
        blocks = [
            slice(first, min(first + step, alike.users)) for first in range(0, alike.users, step)
        ]
        if isinstance(alike.rows, slice):
            stream = _MEMORY.stream(ask.key, self.start * count)  # an even word: chunks are
            for rows in blocks:
                words = _MEMORY.words(rows.stop - rows.start, count)
                stream.fill(words)
                yield rows, words
            return
        every = self.stop - self.start
        if alike.users * _SPARSE <= every:
            words = keystream_at(ask.key, self.start + alike.rows, count)
        else:
            words = keystream(ask.key, self.start * count, every * count)
            words = words.reshape(-1, count)[alike.rows]
        for rows in blocks:
            yield rows, words[rows]

    def _columns(self, ask: Ask, alike: UserClass) -> EncodedColumns:
        """Return a class's records of the request's round, with the fields that are asked."""
        people = self._in_round(ask.round)
        if isinstance(alike.rows, slice):  # of all
            return people
        names = [name for name in ask.query.fields_used if name in people.values]
        number = 0 if self._work.population.drift is None else ask.round
        parts = [self._field(people, number, name, alike) for name in names]
        return EncodedColumns(
            {name: part.values[name] for name, part in zip(names, parts, strict=True)},
            {name: part.present[name] for name, part in zip(names, parts, strict=True)},
            alike.users,
        )

    def _field(
        self, people: EncodedColumns, number: int, name: str, alike: UserClass
    ) -> EncodedColumns:
        """Return one field of a class's records, taken once for all requests."""
        key = (number, id(alike), name)
        found = self._taken.get(key)
        if found is None:
            one = EncodedColumns(
                {name: people.values[name]}, {name: people.present[name]}, people.rows
            )
            found = self._taken[key] = one.take(alike.rows)
        return found

    def _in_round(self, number: int) -> EncodedColumns:
        number = 0 if self._work.population.drift is None else number
        people = self._people.get(number)
        if people is None:
            population = self._work.population.in_round(number)
            people = self._people[number] = population.columns(self.start, self.stop)
            if self._work.observation is not None:
                self.read.append(self._work.observation.sums(self.start, people))
        return people
