"""Linear hashing: reports, and the number of each, or reports alone where they are too many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from askance_simulation.kernels.blocks import AT_ONCE, column_of, count_numbers, store_numbers
from askance_simulation.kernels.compiling import compiled, narrow_quotient, product, scaled
from askance_simulation.kernels.responses import ResponseConstants, respond, response_of

_WORD = 16  # bits of the words that digits are computed in
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


class Hashing(NamedTuple):
    """Constants of a linear hashing over vectors of several digits.

    No digit is looked up. A vector is divided into parts of d digits, q^d <= 2^15, and digits are
    taken from the lowest on by division of 16-bit words, of which a register holds 32. With
    2^s < q <= 2^(s + 1), f = ceil(2^(16 + s) / q) < 2^16 has f q - 2^(16 + s) < 2^(s + 1), so that
    floor(n f / 2^(16 + s)) = floor(n / q) for every n < 2^15.

    Args:
        hashes: number of hashes: q^t - 1, less than 2^32.
        modulus: q.
        inverse: ceil(2^32 / q), for remainders of numbers below 2^32 / q.
        factor: f.
        shift: s.
        base: q^d.
        part: floor(2^32 / base).
        parts: number of parts of a vector.
        digits: number of digits of each part but the last.
        last: number of digits of the last part.
        response: the response about a hash value.
    """

    hashes: np.uint64
    modulus: np.uint64
    inverse: np.uint64
    factor: np.uint16
    shift: np.uint16
    base: np.uint64
    part: np.uint64
    parts: int
    digits: int
    last: int
    response: ResponseConstants


def hashing_of(modulus: int, digits: int, own: int, other: int) -> Hashing:
    """Compute the constants of a linear hashing.

    Args:
        modulus: q.
        digits: t; t (q - 1)^2 < 2^16.
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
        inverse=np.uint64(-(-(1 << 32) // modulus)),
        factor=np.uint16(-(-(1 << (_WORD + shift)) // modulus)),
        shift=np.uint16(shift),
        base=np.uint64(base),
        part=np.uint64((1 << 32) // base),
        parts=parts,
        digits=each,
        last=digits - (parts - 1) * each,
        response=response_of(own, other, modulus),
    )


@compiled
def _choose(words: Any, each: int, hashes: Any, chosen: Any, coins: Any) -> None:
    """Compute hashes from the first coins of users, and copy the second ones."""
    if each == 2:
        for row in range(np.uint64(len(chosen))):
            chosen[row] = scaled(words[_TWO * row], hashes) + _ONE
            coins[row] = words[_TWO * row + _ONE]
        return
    column_of(words, each, 0, chosen)
    for row in range(len(chosen)):
        chosen[row] = scaled(chosen[row], hashes) + _ONE
    column_of(words, each, 1, coins)


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
def _multiply(ones: Any, others: Any, totals: Any, modulus: Any, factors: Any, shift: Any) -> None:
    """Add the products of the lowest digits of numbers below 2^15, and remove these digits.

    Every factor is the same. It is read per user, so that the compiler sees that it has 16 bits.
    """
    for row in range(len(totals)):
        one, other, factor = ones[row], others[row], factors[row]
        first = narrow_quotient(one, factor, shift)
        second = narrow_quotient(other, factor, shift)
        digit = np.uint16(one - np.uint16(first * modulus))
        totals[row] += np.uint16(digit * np.uint16(other - np.uint16(second * modulus)))
        ones[row], others[row] = first, second


@compiled
def _multiply_last(ones: Any, others: Any, totals: Any) -> None:
    """Add the products of the highest digits, of which nothing else is left."""
    for row in range(len(totals)):
        totals[row] += np.uint16(ones[row] * others[row])


@compiled
def _respond(totals: Any, coins: Any, chosen: Any, codes: Any, hashing: Any) -> None:
    """Compute reports from sums of products."""
    modulus, inverse = hashing.modulus, hashing.inverse
    own, other, shift, factor, down = hashing.response
    for row in range(len(codes)):
        total = np.uint64(totals[row])
        value = total - product(product(total, inverse) >> _HALF, modulus)
        drawn = respond(coins[row], value, own, other, shift, factor, down)
        codes[row] = product(chosen[row], modulus) + drawn


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, hashing: Any) -> None:
    """Draw reports and, where there are sums, count the reports of each number."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    responding = np.empty(AT_ONCE, np.uint64)
    hashes, codes = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    left, cells = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    ones, others = np.empty(AT_ONCE, np.uint16), np.empty(AT_ONCE, np.uint16)
    totals = np.empty(AT_ONCE, np.uint16)
    modulus, factors = np.uint16(hashing.modulus), np.full(AT_ONCE, hashing.factor)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        count = stop - start
        ours, mine = words[start * each : stop * each], levels[start:stop]
        chosen, total, drawn = hashes[:count], totals[:count], codes[:count]
        one, other = ones[:count], others[:count]
        coin = responding[:count]
        _choose(ours, each, hashing.hashes, chosen, coin)
        total[:] = 0
        if hashing.parts > 1:
            _copy(chosen, left[:count])
            _copy(mine, cells[:count])
        for _part in range(1, hashing.parts):
            _divide(left[:count], hashing.base, hashing.part, one)
            _divide(cells[:count], hashing.base, hashing.part, other)
            for _ in range(hashing.digits - 1):
                _multiply(one, other, total, modulus, factors, hashing.shift)
            _multiply_last(one, other, total)
        if hashing.parts > 1:
            _copy(left[:count], one)
            _copy(cells[:count], other)
        else:
            _copy(chosen, one)
            _copy(mine, other)
        for _ in range(hashing.last - 1):
            _multiply(one, other, total, modulus, factors, hashing.shift)
        _multiply_last(one, other, total)
        _respond(total, coin, chosen, drawn, hashing)
        store_numbers(octets[start * width : stop * width], drawn, width)
        if len(sums):
            count_numbers(drawn, sums)
