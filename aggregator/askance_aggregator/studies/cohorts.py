"""Cohorts: ranges of a seeded permutation of the users, never the order of arrival."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter

_ROUNDS = 8
_MULTIPLY = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFT = np.uint64(31)


class Permutation:
    """A permutation of 0..size-1 by a seed, with random access both ways.

    A Feistel network over the next power of four, walked until it lands inside (a Feistel network
    on a larger domain restricted by cycle walking is a permutation of the smaller one). Vectorised,
    so that a fleet of any size can compute chunk by chunk which of its ordinals stand in a cohort.

    Args:
      seed: any bytes; the permutation is a function of them and of `size`.
      size: how many users, 1 .. 2^62.
    """

    def __init__(self, seed: bytes, size: int) -> None:
        if not 1 <= size <= 1 << 62:
            raise InvalidParameter(f"cohorts: expected 1 to 2^62 users, found {size}")
        self.seed = seed
        self.size = size
        half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._half = np.uint64(half)
        self._mask = np.uint64((1 << half) - 1)
        self._keys = [
            np.frombuffer(hashlib.sha256(b"askance cohort" + bytes([r]) + seed).digest()[:8], "<u8")
            for r in range(_ROUNDS)
        ]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Permutation)
            and type(self) is type(other)
            and (self.seed, self.size) == (other.seed, other.size)
        )

    def __hash__(self) -> int:
        return hash((self.seed, self.size))

    @property
    def end(self) -> int:
        """End of the range that the users' ordinals are in; 0 begins it."""
        return self.size

    def knows(self, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these are users of the permutation."""
        known: NDArray[np.bool_] = (ordinals >= 0) & (ordinals < self.size)
        return known

    def users(self) -> NDArray[np.int64]:
        """Return the ordinals of all users, sorted, shape (size,)."""
        return np.arange(self.size, dtype=np.int64)

    def positions(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each of these users in the permuted order."""
        return self._walk(ordinals, forward=True)

    def ordinals(self, start: int, stop: int) -> NDArray[np.int64]:
        """The users at positions start .. stop-1, sorted."""
        if not 0 <= start <= stop <= self.size:
            raise InvalidParameter(
                f"cohorts: expected a range within 0..{self.size}, found {start}..{stop}"
            )
        users = self._walk(np.arange(start, stop, dtype=np.int64), forward=False)
        users.sort()
        return users

    def _walk(self, values: NDArray[np.int64], *, forward: bool) -> NDArray[np.int64]:
        current = self._feistel(values.astype(np.uint64), forward=forward)
        outside = np.flatnonzero(current >= self.size)
        while outside.size:
            moved = self._feistel(current[outside], forward=forward)
            current[outside] = moved
            outside = outside[moved >= self.size]
        return current.astype(np.int64)

    def _feistel(self, values: NDArray[np.uint64], *, forward: bool) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        if forward:
            for key in self._keys:
                left, right = right, left ^ self._mix(right, key)
        else:
            for key in reversed(self._keys):
                left, right = right ^ self._mix(left, key), left
        return (left << self._half) | right

    def _mix(self, values: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
        mixed = values ^ key
        for factor in _MULTIPLY:
            mixed = (mixed ^ (mixed >> _SHIFT)) * factor  # wraps modulo 2^64, as is meant
        return (mixed ^ (mixed >> _SHIFT)) & self._mask


class SelectedPermutation(Permutation):
    """A permutation of some of the enrolled users: those of a study of tagged devices.

    `users` are their ordinals, sorted, each once, shape (size,).
    """

    def __init__(self, seed: bytes, users: NDArray[np.int64]) -> None:
        super().__init__(seed, len(users))
        self._users = users

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SelectedPermutation)
            and super().__eq__(other)
            and np.array_equal(self._users, other._users)
        )

    def __hash__(self) -> int:
        return super().__hash__()

    @property
    def end(self) -> int:
        return int(self._users[-1]) + 1

    def knows(self, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        places = np.minimum(self._users.searchsorted(ordinals), self.size - 1)
        known: NDArray[np.bool_] = self._users[places] == ordinals
        return known

    def users(self) -> NDArray[np.int64]:
        return self._users

    def positions(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        return super().positions(self._users.searchsorted(ordinals))

    def ordinals(self, start: int, stop: int) -> NDArray[np.int64]:
        return self._users[super().ordinals(start, stop)]


def permutation_of(seed: bytes, size: int, users: NDArray[np.int64] | None) -> Permutation:
    """Return the permutation of a study's users: of their ordinals, sorted; None: 0 .. size-1."""
    if users is None:
        return Permutation(seed, size)
    if len(users) != size:
        raise InvalidParameter(
            f"cohorts: expected the {size} users that the study began with, got {len(users)}"
        )
    return SelectedPermutation(seed, users)


@dataclass(frozen=True)
class Cohort:
    """Users at positions start .. stop-1 of a permutation; members are computed when asked.

    Raises:
      InvalidParameter: no range of the permutation's positions.
    """

    permutation: Permutation
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop <= self.permutation.size:
            raise InvalidParameter(
                f"cohorts: expected a range within 0..{self.permutation.size},"
                f" found {self.start}..{self.stop}"
            )

    @property
    def size(self) -> int:
        """Number of users."""
        return self.stop - self.start

    @property
    def whole(self) -> bool:
        """True if the cohort holds all users."""
        return self.size == self.permutation.size

    def holds(self, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these users are in it; users outside the permutation are not."""
        held = self.permutation.knows(ordinals)
        if not self.whole:
            positions = self.permutation.positions(ordinals[held])
            held[held] = (positions >= self.start) & (positions < self.stop)
        return held

    def within(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the members among the users first .. last-1, sorted."""
        ordinals = np.arange(first, last, dtype=np.int64)
        return ordinals[self.holds(ordinals)]

    @cached_property
    def members(self) -> NDArray[np.int64]:
        """All of them, sorted, shape (size,): for those who ask them one by one."""
        if self.whole:
            return self.permutation.users()
        return self.permutation.ordinals(self.start, self.stop)
