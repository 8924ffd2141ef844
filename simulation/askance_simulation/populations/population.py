"""Populations: columns of records by ordinal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.numbers import Rational
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_aggregator.queries.columns import ColumnValue
from askance_client.errors import InvalidParameter
from askance_client.queries import Bits, Schema
from askance_client.queries.fields import ValueType
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

MAX_USERS = 1 << 40
_MOST_AT_ONCE = 1 << 16
_LEAST_AT_ONCE = 1 << 12
_WORDS_AT_ONCE = 1 << 23  # of columns or of coins: 64 MB


@dataclass(frozen=True, eq=False)
class Population:
    """`size` users with records of one schema.

    Args:
      name: what it is called.
      schema: the shape of a record.
      size: how many users; ordinals are 0 .. size-1.
      columns: the records of ordinals start .. stop-1; a pure function.
      target: the hypothesis that a learner should find, if the law has one.
      unseen: number of further records of the same law that belong to no user: what a hypothesis
        is judged by; None: there are none.
      notes: what a reader of results must know (bounds inferred, rows resampled).
      drift: the same users' records in a round of a study, by its number, where they change;
        None: they do not.
    """

    name: str
    schema: Schema
    size: int
    columns: Callable[[int, int], EncodedColumns]
    target: object | None = None
    unseen: Callable[[int], EncodedColumns] | None = None
    notes: tuple[str, ...] = field(default=())
    drift: Callable[[int], Population] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_USERS:
            raise InvalidParameter(
                f"population: expected 1 to {MAX_USERS} users, found {self.size}"
            )

    def stretch(self, coins: int = 0) -> int:
        """Return the number of users whose records are processed together, a power of two.

        It is 2^16, or less, but at least 2^12, where each user has many columns, or coins
        beside them.
        """
        fields = self.schema.fields.values()
        columns = sum(field.words if isinstance(field, Bits) else 1 for field in fields)
        users = _MOST_AT_ONCE
        while users > _LEAST_AT_ONCE and users * max(columns, coins) > _WORDS_AT_ONCE:
            users //= 2
        return users

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Generate the stretches of all users: the first ordinal of each and the one past it."""
        step = self.stretch()
        for start in range(0, self.size, step):
            yield start, min(start + step, self.size)

    def in_round(self, number: int) -> Population:
        """Return the users with their records in a round of a study."""
        return self if self.drift is None else self.drift(number)

    def with_label_noise(
        self, rate: Rational, *, label: str | None = None, seed: int = 0
    ) -> Population:
        """Change each user's label with chance `rate` (see `changes.label_noise`)."""
        from askance_simulation.populations.changes import label_noise

        return label_noise(self, rate, Seed.of(seed) / "label-noise", label=label)

    def moving_to(self, other: Population, rate: Rational, *, seed: int = 0) -> Population:
        """Return users who become those of `other` as rounds go by (see `changes.moving`)."""
        from askance_simulation.populations.changes import moving

        return moving(self, other, rate, Seed.of(seed) / "drift")

    @classmethod
    def generated(cls, name: str, users: int, *, seed: int = 0, **parameters: int) -> Population:
        """Return a generated population by its name (see `askance simulate --list`)."""
        from askance_simulation.populations.registry import build

        return build(name, users, Seed.of(seed), parameters)

    @classmethod
    def from_columns(
        cls, schema: Schema, columns: Mapping[str, Any], *, name: str = "columns"
    ) -> Population:
        """Make a population of equally long columns (arrays, lists, a DataFrame), one user per row.

        Raises:
          InvalidRecord: a column that the schema does not have, or of another shape.
        """
        people = narrowed(schema, encode_columns(schema, {key: columns[key] for key in columns}))
        return cls(name, schema, len(people), lambda start, stop: people.take(slice(start, stop)))

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        schema: Schema | None = None,
        *,
        label: str | None = None,
        users: int | None = None,
        seed: int = 0,
        keep: Collection[str] = (),
    ) -> Population:
        """Make a population of a CSV file (see `tables.people_of`).

        Raises:
          InvalidRecord, InvalidParameter: the file or an argument is not of that form.
        """
        from askance_client.records import read_csv
        from askance_simulation.populations.tables import people_of

        table = read_csv(Path(path)).checked()
        return people_of(table, Seed.of(seed), schema=schema, label=label, size=users, keep=keep)

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        schema: Schema | None = None,
        *,
        label: str | None = None,
        users: int | None = None,
        seed: int = 0,
        keep: Collection[str] = (),
    ) -> Population:
        """Read the users of a Parquet file, like a CSV file of these cells (`files.read_parquet`).

        Raises:
          InvalidRecord, InvalidParameter: as of `from_csv`; pyarrow is not installed.
        """
        from askance_simulation.populations.files import read_parquet
        from askance_simulation.populations.tables import people_of

        table = read_parquet(Path(path))
        return people_of(table, Seed.of(seed), schema=schema, label=label, size=users, keep=keep)


def draws(seed: Seed, start: int, stop: int, words: int) -> NDArray[np.uint64]:
    """Draw words for users start .. stop-1, shape (stop - start, words), by random access."""
    stream = keystream(seed.key[:16], start * words, (stop - start) * words)
    return stream.reshape(-1, words)


def below(words: NDArray[np.uint64], chance: Fraction) -> NDArray[np.bool_]:
    """Return which uniform words are below `chance`, exact to 2^-64.

    The result is monotone: a word that is below one chance is below any greater one.
    """
    threshold = round(chance * (1 << 64))
    if threshold == 0:
        return np.zeros(words.shape, np.bool_)
    return words <= np.uint64(threshold - 1)  # the threshold itself may be 2^64


def columns_of(
    values: Mapping[str, NDArray[np.int64] | tuple[NDArray[np.int64], ...]],
) -> EncodedColumns:
    """Wrap generated columns, which are on the grid already and complete."""
    first = next(iter(values.values()))
    rows = len(first[0] if isinstance(first, tuple) else first)
    return EncodedColumns(values, {name: np.ones(rows, np.bool_) for name in values}, rows)


def narrowed(schema: Schema, people: EncodedColumns) -> EncodedColumns:
    """Narrow columns that are kept in memory to the fewest bytes that each field's bounds allow.

    Ages take one byte per user and not eight: less to hold, and less to read in every round. Fields
    of bits stay as they are, 32 to a word. That all users have a field takes one byte in all.
    """
    values: dict[str, ColumnValue] = {}
    for name, column in people.values.items():
        if not isinstance(column, tuple):
            column = column.astype(_narrowest(schema.fields[name].type))
            column.setflags(write=False)
        values[name] = column
    present = {
        name: np.broadcast_to(np.True_, people.rows) if column.all() else column
        for name, column in people.present.items()
    }
    return EncodedColumns(values, present, people.rows)


def _narrowest(kind: ValueType) -> np.dtype[np.signedinteger[Any]]:
    for width in (np.int8, np.int16, np.int32):
        ends = np.iinfo(width)
        if ends.min <= kind.low and kind.high <= ends.max:
            return np.dtype(width)
    return np.dtype(np.int64)


def words_of_bits(words: NDArray[np.uint64], width: int) -> tuple[NDArray[np.int64], ...]:
    """Pack `width` bits of each user as the 32-bit words of a `Bits(width)` field.

    `words` has shape (n, >= ceil(width / 64)); its bits are used from the lowest up.
    """
    halves = []
    for place in range(0, width, 32):
        half = (words[:, place // 64] >> np.uint64(place % 64)) & np.uint64(0xFFFFFFFF)
        kept = min(32, width - place)
        halves.append((half & np.uint64((1 << kept) - 1)).astype(np.int64))
    return tuple(halves)


def parity_of(words: tuple[NDArray[np.int64], ...], mask: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute <mask, x> mod 2 of each user, from a `Bits` field's words and the mask's."""
    folded = np.zeros_like(words[0])
    for word, kept in zip(words, mask, strict=True):
        folded ^= word & kept
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return folded & 1


def weighted(columns: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of weights times columns, shape (n,), added up from the first column on.

    Not a matrix product: that adds in an order that depends on the machine and on n, and a record
    is to be the same in a chunk of any size.
    """
    total: NDArray[np.float64] = columns[:, 0] * weights[0]
    for j in range(1, len(weights)):
        total += columns[:, j] * weights[j]
    return total
