"""Counts of bytes and of bits in arrays, for the sums of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.compiling import compiled, inlined


@compiled
def add_bytes(octets: Any, sums: Any) -> None:
    """Add how often each byte occurs in a contiguous array.

    Four tables are kept apart, so that equal bytes in a row do not wait for each other.

    Args:
        octets: shape (n,), uint8.
        sums: shape (values,), int64; every byte is below its length, which is at most 256.
    """
    first, second = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    third, fourth = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    one, low = np.uint32(1), np.uint64(255)
    whole = len(octets) // 8
    words = octets[: 8 * whole].view(np.uint64)
    for row in range(whole):
        word = words[row]
        first[word & low] += one
        second[(word >> np.uint64(8)) & low] += one
        third[(word >> np.uint64(16)) & low] += one
        fourth[(word >> np.uint64(24)) & low] += one
        first[(word >> np.uint64(32)) & low] += one
        second[(word >> np.uint64(40)) & low] += one
        third[(word >> np.uint64(48)) & low] += one
        fourth[word >> np.uint64(56)] += one
    for row in range(8 * whole, len(octets)):
        first[octets[row]] += one
    for value in range(len(sums)):
        sums[value] += first[value] + second[value] + third[value] + fourth[value]


@compiled
def count_halves(numbers: Any, counted: Any, sums: Any) -> None:
    """Count numbers of 16 bits in bytes, which fit a nearer cache than longer sums.

    Args:
        numbers: shape (n,), uint16, contiguous.
        counted: counts modulo 256, shape (numbers there may be,), uint8.
        sums: what the counts carry over is added there, of the same shape (see `add_carries`).
    """
    low, whole = np.uint64((1 << 16) - 1), len(numbers) // 4
    words = numbers[: 4 * whole].view(np.uint64)
    for row in range(whole):
        word = words[row]
        _count(word & low, counted, sums)
        _count((word >> np.uint64(16)) & low, counted, sums)
        _count((word >> np.uint64(32)) & low, counted, sums)
        _count(word >> np.uint64(48), counted, sums)
    for row in range(4 * whole, len(numbers)):
        _count(np.uint64(numbers[row]), counted, sums)


@inlined
def _count(number: Any, counted: Any, sums: Any) -> None:
    count = np.uint8(counted[number] + np.uint8(1))
    counted[number] = count
    if count == 0:
        sums[number] += np.uint32(256)


@compiled
def add_carries(counted: Any, sums: Any) -> None:
    """Add what `count_halves` has counted since its bytes were zero."""
    for number in range(len(counted)):
        sums[number] += counted[number]


@compiled
def add_bits(words: Any, sums: Any) -> None:
    """Add how many words have each bit, from the highest down.

    Args:
        words: shape (n,), uint64, of any stride.
        sums: shape (bits,), int64, at most 64.
    """
    # Sixty-four counters stand upright: digit k of all of them is one word. Eight words go through
    # adders of three words first, so that few carries are left.
    digits = np.zeros(40, np.uint64)
    users = len(words)
    whole = users - users % 8
    for row in range(0, whole, 8):
        ones, two = _added(digits[0], words[row], words[row + 1])
        ones, other = _added(ones, words[row + 2], words[row + 3])
        twos, four = _added(digits[1], two, other)
        ones, two = _added(ones, words[row + 4], words[row + 5])
        ones, other = _added(ones, words[row + 6], words[row + 7])
        twos, next_four = _added(twos, two, other)
        fours, carry = _added(digits[2], four, next_four)
        digits[0], digits[1], digits[2] = ones, twos, fours
        _carried(digits, 3, carry)
    for row in range(whole, users):
        _carried(digits, 0, words[row])
    for bit in range(len(sums)):
        place = np.uint64(63 - bit)
        for digit in range(len(digits)):
            sums[bit] += np.int64((digits[digit] >> place) & np.uint64(1)) << digit


@inlined
def _added(one: Any, two: Any, three: Any) -> Any:
    """Add three words bit by bit: the sums' low digits and their high ones."""
    half = one ^ two
    return half ^ three, (one & two) | (half & three)


@inlined
def _carried(digits: Any, first: Any, carry: Any) -> None:
    digit = first
    while carry:
        digits[digit], carry = digits[digit] ^ carry, digits[digit] & carry
        digit += 1
