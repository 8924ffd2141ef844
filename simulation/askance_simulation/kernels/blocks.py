"""Steps of a draw that all families share, each over the users of a block.

Coins lie user by user. One coin of each user is copied to a row of its own, from which the loops
that compute with it read several at once. A loop that looks something up is kept apart from those
that compute, since the compiler cannot know that it does not look up what it writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.compiling import compiled

AT_ONCE = 512
"""Users of a block: the numbers between two loops stay in a core's first cache."""

_COINS = 1 << 12  # of a block whose users have many

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_FOUR = np.uint64(4)
_BYTE = np.uint64(8)


@compiled
def users_at_once(each: int) -> int:
    """Return the users of a block whose coins, of a number per user, are read several times."""
    return max(32, min(AT_ONCE, _COINS // each // 8 * 8))


@compiled
def column_of(words: Any, each: int, place: int, room: Any) -> Any:
    """Return one coin of each user in a row, where it is or copied.

    `place` says which coin, of `each` per user; the copy is in `room`, shape (users,).
    """
    if each == 1:
        return words
    if each == 2:
        _copy_of_two(words, np.uint64(0) - np.uint64(place), room)
        return room
    place_, each_ = np.uint64(place), np.uint64(each)
    for row in range(len(room)):
        room[row] = words[place_]
        place_ += each_
    return room


@compiled
def _copy_of_two(words: Any, second: Any, room: Any) -> None:
    """Copy the first of each two words or, if `second` is all ones, the second."""
    # Both are read, since words in a row are read at once and words apart are not.
    for row in range(np.uint64(len(room))):
        one, other = words[_TWO * row], words[_TWO * row + _ONE]
        room[row] = one ^ ((one ^ other) & second)


@compiled
def columns_of(words: Any, each: int, room: Any, another: Any) -> None:
    """Copy the first two coins of each user."""
    if each == 2:
        for row in range(np.uint64(len(room))):
            room[row] = words[_TWO * row]
            another[row] = words[_TWO * row + _ONE]
    else:
        column_of(words, each, 0, room)
        column_of(words, each, 1, another)


@compiled
def pairs_of(words: Any, each: int, room: Any) -> Any:
    """Return the first two coins of each user in turn, where they are or copied."""
    if each == 2:
        return words
    first, each_ = np.uint64(0), np.uint64(each)
    for row in range(np.uint64(len(room) // 2)):
        room[_TWO * row], room[_TWO * row + _ONE] = words[first], words[first + _ONE]
        first += each_
    return room


@compiled
def store_numbers(octets: Any, numbers: Any, width: int) -> None:
    """Write numbers as reports, big-endian.

    Args:
        octets: the reports' bytes in a row, shape (n * width,), uint8.
        numbers: shape (n,), uint64, or uint16 for a width of at most 2.
        width: bytes of a report; those before the last eight are 0.
    """
    if width == 1:
        for row in range(len(numbers)):
            octets[row] = numbers[row]
    elif width == 2:
        _store_pairs_of_bytes(octets, numbers)
    elif width == 4:
        _store_halves(octets, numbers)
    elif width == 8:
        _store_whole(octets, numbers)
    elif width > 8:
        _store_after_zeros(octets, numbers, np.uint64(width))
    else:
        users, wide = np.uint64(len(numbers)), np.uint64(width)
        for row in range(users):
            for byte in range(wide):
                octets[wide * row + byte] = numbers[row] >> (_BYTE * (wide - _ONE - byte))


@compiled
def _store_pairs_of_bytes(octets: Any, numbers: Any) -> None:
    for row in range(np.uint64(len(numbers))):
        octets[_TWO * row] = numbers[row] >> _BYTE
        octets[_TWO * row + _ONE] = numbers[row]


@compiled
def _store_halves(octets: Any, numbers: Any) -> None:
    for row in range(np.uint64(len(numbers))):
        for byte in range(4):
            octets[_FOUR * row + np.uint64(byte)] = numbers[row] >> np.uint64(24 - 8 * byte)


@compiled
def _store_whole(octets: Any, numbers: Any) -> None:
    for row in range(np.uint64(len(numbers))):
        for byte in range(8):
            octets[_BYTE * row + np.uint64(byte)] = numbers[row] >> np.uint64(56 - 8 * byte)


@compiled
def _store_after_zeros(octets: Any, numbers: Any, wide: Any) -> None:
    """Write numbers after zeros, since a shift by 64 bits or more is undefined."""
    spare = wide - _BYTE
    for row in range(np.uint64(len(numbers))):
        place = wide * row
        for byte in range(spare):
            octets[place + byte] = 0
        place += spare
        for byte in range(8):
            octets[place + np.uint64(byte)] = numbers[row] >> np.uint64(56 - 8 * byte)


@compiled
def store_pairs(octets: Any, high: Any, low: Any, width: int) -> None:
    """Write the first bytes of pairs of words as reports.

    `octets` is as of `store_numbers`; a report has 9..16 bytes.
    """
    users, wide = np.uint64(len(high)), np.uint64(width)
    tail = wide - _BYTE
    for row in range(users):
        place = wide * row
        for byte in range(8):
            octets[place + np.uint64(byte)] = high[row] >> np.uint64(56 - 8 * byte)
        place += _BYTE
        if tail == _BYTE:
            for byte in range(8):
                octets[place + np.uint64(byte)] = low[row] >> np.uint64(56 - 8 * byte)
        else:
            for byte in range(tail):
                octets[place + byte] = low[row] >> (_BYTE * (np.uint64(7) - byte))


@compiled
def count_numbers(numbers: Any, sums: Any) -> None:
    """Add how often each number occurs."""
    for row in range(len(numbers)):
        sums[numbers[row]] += 1
