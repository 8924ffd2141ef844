"""Steps of a draw that all families share, each over the users of a block.

Coins lie user by user. One coin of each user is copied to a row of its own, from which the loops
that compute with it read several at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.compiling import compiled

AT_ONCE = 256
"""Users of a block: the numbers between two loops stay in a core's first cache."""

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_BYTE = np.uint64(8)


@compiled
def read_column(words: Any, each: int, place: int, column: Any) -> None:
    """Copy one coin of each user.

    Args:
        words: coins of the users of a block, in a row.
        each: number of coins per user.
        place: which of them.
        column: to be filled, shape (users,).
    """
    place_, each_ = np.uint64(place), np.uint64(each)
    if each == 1:
        for row in range(len(column)):
            column[row] = words[row]
    elif each == 2:
        for row in range(np.uint64(len(column))):
            column[row] = words[_TWO * row + place_]
    else:
        for row in range(len(column)):
            column[row] = words[place_]
            place_ += each_


@compiled
def store_numbers(octets: Any, numbers: Any, width: int) -> None:
    """Write numbers as reports, big-endian.

    Args:
        octets: the reports' bytes in a row, shape (n * width,), uint8.
        numbers: shape (n,), uint64.
        width: bytes of a report.
    """
    users, wide = np.uint64(len(numbers)), np.uint64(width)
    if width == 1:
        for row in range(users):
            octets[row] = numbers[row]
    elif width == 2:
        for row in range(users):
            octets[_TWO * row] = numbers[row] >> _BYTE
            octets[_TWO * row + _ONE] = numbers[row]
    elif width == 8:
        for row in range(users):
            for byte in range(8):
                octets[_BYTE * row + np.uint64(byte)] = numbers[row] >> np.uint64(56 - 8 * byte)
    else:
        for row in range(users):
            for byte in range(wide):
                octets[wide * row + byte] = numbers[row] >> (_BYTE * (wide - _ONE - byte))


@compiled
def store_words(octets: Any, high: Any, low: Any, width: int) -> None:
    """Write the first bytes of pairs of words as reports.

    Args:
        octets: the reports' bytes in a row, shape (n * width,), uint8.
        high: the first words, shape (n,), uint64.
        low: the second words.
        width: bytes of a report, at most 16.
    """
    users, wide = np.uint64(len(high)), np.uint64(width)
    head, tail = min(wide, _BYTE), max(wide, _BYTE) - _BYTE
    for row in range(users):
        place = wide * row
        if head == _BYTE:
            for byte in range(8):
                octets[place + np.uint64(byte)] = high[row] >> np.uint64(56 - 8 * byte)
        else:
            for byte in range(head):
                octets[place + byte] = high[row] >> (_BYTE * (np.uint64(7) - byte))
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
