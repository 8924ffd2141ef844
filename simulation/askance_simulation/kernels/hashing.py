"""Linear hashing: reports, and the number of each, or reports alone where they are too many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from askance_simulation.kernels.blocks import count_numbers, pairs_of, store_numbers
from askance_simulation.kernels.byte_counts import add_carries, count_halves
from askance_simulation.kernels.compiling import compiled, inlined, narrow_quotient, product, scaled
from askance_simulation.kernels.responses import ResponseConstants, rank_of, response_of

_AT_ONCE = 1 << 11  # users of a block: 14 bytes of each stay in the first cache, 42 in the second
_WORD = 16  # bits of the words that digits are computed in
_FEW = 3  # values of a response up to which comparisons take the place of a division
_HALF = np.uint64(32)
_KEPT = np.uint64(0)  # outcome of a coin that keeps the own value
_ONE = np.uint64(1)
_TWO = np.uint64(2)


class Hashing(NamedTuple):
    """Constants of a linear hashing over vectors of several digits.

    No digit is looked up. A vector is divided into parts of d digits, q^d <= 2^15, and digits are
    taken from the lowest on by division of 16-bit words, of which a register holds 32. With
    2^s < q <= 2^(s + 1), f = ceil(2^(16 + s) / q) < 2^16 has f q - 2^(16 + s) < 2^(s + 1), so that
    floor(n f / 2^(16 + s)) = floor(n / q) for every n < 2^15, and at most one more for n < 2^16.

    Args:
        hashes: number of hashes: q^t - 1, less than 2^32.
        modulus, factor, shift, base: q, f, s and q^d.
        part: floor(2^32 / base).
        parts: number of parts of a vector.
        digits: number of digits of each part but the last.
        last: number of digits of the last part.
        response: the response about a hash value.
        second: the last of the coins that report the first of the other values.
    """

    hashes: np.uint64
    modulus: np.uint64
    factor: np.uint16
    shift: np.uint16
    base: np.uint64
    part: np.uint64
    parts: int
    digits: int
    last: int
    response: ResponseConstants
    second: np.uint64


def hashing_of(modulus: int, digits: int, own: int, other: int) -> Hashing:
    """Compute the constants of a linear hashing.

    Args:
        modulus: q.
        digits: t; t (q - 1)^2 < 2^16, and q^(t - 1) < 2^20.
        own: number of coins that keep the hash value.
        other: number of coins of each other value.
    """
    most = 1
    while modulus ** (most + 1) <= 1 << (_WORD - 1):
        most += 1
    parts = -(-digits // most)
    each = -(-digits // parts)
    base, shift = modulus**each, (modulus - 1).bit_length() - 1
    return Hashing(
        hashes=np.uint64(modulus**digits - 1),
        modulus=np.uint64(modulus),
        factor=np.uint16(-(-(1 << (_WORD + shift)) // modulus)),
        shift=np.uint16(shift),
        base=np.uint64(base),
        part=np.uint64((1 << 32) // base),
        parts=parts,
        digits=each,
        last=digits - (parts - 1) * each,
        response=response_of(own, other, modulus),
        second=np.uint64(own + other - 1),
    )


@compiled
def _choose(words: Any, hashing: Any, chosen: Any, copies: Any, outcomes: Any) -> None:
    """Compute hashes, twice, and outcomes, from pairs of coins."""
    # An outcome is 0 where the own value is reported, else one more than the rank among the others.
    hashes, own, second = hashing.hashes, hashing.response.own, hashing.second
    if hashing.modulus <= _FEW:
        for row in range(np.uint64(len(chosen))):
            number, coin = scaled(words[_TWO * row], hashes) + _ONE, words[_TWO * row + _ONE]
            chosen[row], copies[row] = number, number
            outcomes[row] = np.uint16(coin >= own) + np.uint16(coin > second)
        return
    _, other, shift, factor, down = hashing.response
    for row in range(np.uint64(len(chosen))):
        number, coin = scaled(words[_TWO * row], hashes) + _ONE, words[_TWO * row + _ONE]
        chosen[row], copies[row] = number, number
        rank = rank_of(coin, own, other, shift, factor, down)
        outcomes[row] = _KEPT if coin < own else rank + _ONE


@compiled
def _copy(numbers: Any, copies: Any) -> None:
    """Copy numbers to another type."""
    for row in range(len(numbers)):
        copies[row] = numbers[row]


@compiled
def _divide(numbers: Any, base: Any, part: Any, below: Any) -> None:
    """Divide numbers below 2^32 by a base, in place, and give the remainders."""
    for row in range(len(numbers)):
        number = numbers[row]
        quotient = (number * part) >> _HALF  # or one less than it is
        quotient += np.uint64(number - quotient * base >= base)
        below[row], numbers[row] = number - quotient * base, quotient


@compiled
def _multiply(ones: Any, others: Any, totals: Any, digits: int, hashing: Any, factors: Any) -> None:
    """Add the products of all digits of numbers below 2^15; the numbers are lost."""
    # With A and X what is left of two numbers before a digit is removed, and x the digit of X, the
    # digits' product is A x modulo q. So but for the lowest digit only one of them is computed. A
    # part's sum is at most (q - 1)^2 + (q - 1) (q^(d - 1) - 1 + .. + q - 1): all of them below
    # 2^16.
    modulus, shift = np.uint16(hashing.modulus), hashing.shift
    left = digits - 2
    if digits > 1:
        _multiply_lowest(ones, others, totals, modulus, factors, shift)
    while left >= 4:
        _multiply_four(ones, others, totals, modulus, factors, shift)
        left -= 4
    if left >= 2:
        _multiply_two(ones, others, totals, modulus, factors, shift)
        left -= 2
    if left > 0:
        _multiply_one(ones, others, totals, modulus, factors, shift)
    _multiply_highest(ones, others, totals)


@compiled
def _multiply_lowest(
    ones: Any, others: Any, totals: Any, modulus: Any, factors: Any, shift: Any
) -> None:
    """Add the products of the lowest digits, and remove these digits."""
    # Every factor is the same. It is read per user, so that the compiler sees that it has 16 bits.
    for row in range(len(totals)):
        one, other, factor = ones[row], others[row], factors[row]
        first = narrow_quotient(one, factor, shift)
        second = narrow_quotient(other, factor, shift)
        digit = np.uint16(one - np.uint16(first * modulus))
        totals[row] += np.uint16(digit * np.uint16(other - np.uint16(second * modulus)))
        ones[row], others[row] = first, second


@inlined
def _step(one: Any, other: Any, total: Any, modulus: Any, factor: Any, shift: Any) -> Any:
    """Add one number times the other's lowest digit, and remove a digit of each."""
    rest = narrow_quotient(other, factor, shift)
    total += np.uint16(one * np.uint16(other - np.uint16(rest * modulus)))
    return narrow_quotient(one, factor, shift), rest, total


@compiled
def _multiply_one(
    ones: Any, others: Any, totals: Any, modulus: Any, factors: Any, shift: Any
) -> None:
    for row in range(len(totals)):
        one, other, total, factor = ones[row], others[row], totals[row], factors[row]
        one, other, total = _step(one, other, total, modulus, factor, shift)
        ones[row], others[row], totals[row] = one, other, total


@compiled
def _multiply_two(
    ones: Any, others: Any, totals: Any, modulus: Any, factors: Any, shift: Any
) -> None:
    for row in range(len(totals)):
        one, other, total, factor = ones[row], others[row], totals[row], factors[row]
        one, other, total = _step(one, other, total, modulus, factor, shift)
        one, other, total = _step(one, other, total, modulus, factor, shift)
        ones[row], others[row], totals[row] = one, other, total


@compiled
def _multiply_four(
    ones: Any, others: Any, totals: Any, modulus: Any, factors: Any, shift: Any
) -> None:
    for row in range(len(totals)):
        one, other, total, factor = ones[row], others[row], totals[row], factors[row]
        one, other, total = _step(one, other, total, modulus, factor, shift)
        one, other, total = _step(one, other, total, modulus, factor, shift)
        one, other, total = _step(one, other, total, modulus, factor, shift)
        one, other, total = _step(one, other, total, modulus, factor, shift)
        ones[row], others[row], totals[row] = one, other, total


@compiled
def _multiply_highest(ones: Any, others: Any, totals: Any) -> None:
    """Add the products of the highest digits, of which nothing else is left."""
    for row in range(len(totals)):
        totals[row] += np.uint16(ones[row] * others[row])


@inlined
def _reported(total: Any, outcome: Any, modulus: Any, factor: Any, shift: Any) -> Any:
    """Return the value that is reported, from a sum of products and an outcome, all uint16."""
    value = np.uint16(total - np.uint16(narrow_quotient(total, factor, shift) * modulus))
    value = np.uint16(value + modulus) if value >= modulus else value  # quotient + 1
    rank = np.uint16(outcome - np.uint16(1))
    return np.uint16(rank + np.uint16(rank >= value)) if outcome else value


@compiled
def _number_narrow(
    totals: Any, outcomes: Any, chosen: Any, codes: Any, hashing: Any, factors: Any
) -> None:
    """Compute reports below 2^16."""
    modulus, shift = np.uint16(hashing.modulus), hashing.shift
    for row in range(len(codes)):
        drawn = _reported(totals[row], outcomes[row], modulus, factors[row], shift)
        codes[row] = np.uint16(np.uint16(chosen[row] * modulus) + drawn)


@compiled
def _number_wide(
    totals: Any, outcomes: Any, chosen: Any, codes: Any, hashing: Any, factors: Any
) -> None:
    """Compute reports from hashes below 2^32."""
    modulus, wide, shift = np.uint16(hashing.modulus), hashing.modulus, hashing.shift
    for row in range(len(codes)):
        drawn = _reported(totals[row], outcomes[row], modulus, factors[row], shift)
        codes[row] = product(chosen[row], wide) + np.uint64(drawn)


@compiled
def draw_narrow(levels: Any, coins: Any, reports: Any, sums: Any, hashing: Any) -> None:
    """Draw and count reports of one part that are below 2^16."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    pairs, rooms = np.empty(2 * _AT_ONCE, np.uint64), np.empty((6, _AT_ONCE), np.uint16)
    factors = np.full(_AT_ONCE, hashing.factor)
    counted = np.zeros(len(sums) if users >= len(sums) else 0, np.uint8)
    for start in range(0, users, _AT_ONCE):
        count = min(_AT_ONCE, users - start)
        stop = start + count
        one, other, total = rooms[0, :count], rooms[1, :count], rooms[2, :count]
        chosen, outcome, drawn = rooms[3, :count], rooms[4, :count], rooms[5, :count]
        ours = pairs_of(words[start * each : stop * each], each, pairs[: 2 * count])
        _choose(ours, hashing, chosen, one, outcome)
        _copy(levels[start:stop], other)
        total[:] = 0
        _multiply(one, other, total, hashing.last, hashing, factors)
        _number_narrow(total, outcome, chosen, drawn, hashing, factors)
        store_numbers(octets[start * width : stop * width], drawn, width)
        if len(counted):
            count_halves(drawn, counted, sums)
        else:
            count_numbers(drawn, sums)
    add_carries(counted, sums)


@compiled
def draw_wide(levels: Any, coins: Any, reports: Any, sums: Any, hashing: Any) -> None:
    """Draw reports and, where there are sums, count the reports of each number."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    pairs, rooms = np.empty(2 * _AT_ONCE, np.uint64), np.empty((4, _AT_ONCE), np.uint16)
    columns, factors = np.empty((4, _AT_ONCE), np.uint64), np.full(_AT_ONCE, hashing.factor)
    for start in range(0, users, _AT_ONCE):
        count = min(_AT_ONCE, users - start)
        stop = start + count
        one, other = rooms[0, :count], rooms[1, :count]
        total, outcome = rooms[2, :count], rooms[3, :count]
        chosen, left = columns[0, :count], columns[1, :count]
        cells, drawn = columns[2, :count], columns[3, :count]
        ours = pairs_of(words[start * each : stop * each], each, pairs[: 2 * count])
        _choose(ours, hashing, chosen, left, outcome)
        _copy(levels[start:stop], cells)
        total[:] = 0
        for _part in range(1, hashing.parts):
            _divide(left, hashing.base, hashing.part, one)
            _divide(cells, hashing.base, hashing.part, other)
            _multiply(one, other, total, hashing.digits, hashing, factors)
        _copy(left, one)
        _copy(cells, other)
        _multiply(one, other, total, hashing.last, hashing, factors)
        _number_wide(total, outcome, chosen, drawn, hashing, factors)
        store_numbers(octets[start * width : stop * width], drawn, width)
        if len(sums):
            count_numbers(drawn, sums)
