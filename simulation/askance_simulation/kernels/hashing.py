"""Linear hashing: reports, and the number of each, or reports alone where they are too many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.blocks import AT_ONCE, columns_of, count_numbers, store_numbers
from askance_simulation.kernels.compiling import compiled, scaled
from askance_simulation.kernels.responses import ResponseConstants, respond, response_of

_ENTRIES = 1 << 12  # most entries of a table of digits: it stays in a core's first cache
_BITS = 64  # of a word
_HALF = np.uint64(32)

Words = NDArray[np.unsignedinteger[Any]]


class Hashing(NamedTuple):
    """Constants of a linear hashing over vectors of several digits, a few digits at a time.

    Digits of such a part of a hash stand in a word from the lowest on, those of a cell from the
    highest down, so that the middle of the words' product is the sum of the digits' products.

    Args:
        hashes: number of hashes: q^t - 1, less than 2^32.
        modulus: q.
        inverse: ceil(2^32 / q), for remainders of numbers below 2^32 / q.
        base: q^d for the d digits of a part.
        part: floor(2^32 / base).
        parts: number of parts of a vector.
        digits: the digits of each part of a hash, shape (base,).
        cells: the digits of each part of each cell, cells one after another.
        place: place of the sum in a product.
        mask: ones for the bits of the sum.
        response: the response about a hash value.
    """

    hashes: np.uint64
    modulus: np.uint64
    inverse: np.uint64
    base: np.uint64
    part: np.uint64
    parts: int
    digits: Words
    cells: Words
    place: np.uint64
    mask: np.uint64
    response: ResponseConstants


@lru_cache(maxsize=16)
def hashing_of(cells: int, modulus: int, digits: int, own: int, other: int) -> Hashing:
    """Compute the constants of a linear hashing.

    Args:
        cells: number of cells.
        modulus: q, at most 128.
        digits: t.
        own: number of coins that keep the hash value.
        other: number of coins of each other value.
    """
    most = 1
    while modulus ** (most + 1) <= _ENTRIES and (most + 1) * _width(modulus, most + 1) <= _BITS:
        most += 1
    parts = -(-digits // most)
    at_once = -(-digits // parts)
    base, width = modulus**at_once, _width(modulus, at_once)
    every = np.arange(cells)[:, np.newaxis] // base ** np.arange(parts) % base
    return Hashing(
        hashes=np.uint64(modulus**digits - 1),
        modulus=np.uint64(modulus),
        inverse=np.uint64(-(-(1 << 32) // modulus)),
        base=np.uint64(base),
        part=np.uint64((1 << 32) // base),
        parts=parts,
        digits=_spread(np.arange(base), modulus, range(0, width * at_once, width)),
        cells=_spread(every.ravel(), modulus, range(width * (at_once - 1), -1, -width)).astype(
            np.uint32 if width * at_once <= 32 else np.uint64
        ),
        place=np.uint64(width * (at_once - 1)),
        mask=np.uint64((1 << width) - 1),
        response=response_of(own, other, modulus),
    )


def _width(modulus: int, digits: int) -> int:
    """Return the bits of a sum of products of digits."""
    return (digits * (modulus - 1) ** 2).bit_length()


def _spread(numbers: NDArray[np.int64], modulus: int, places: range) -> Words:
    """Return words with the digits of numbers, the lowest first, at these places."""
    words = np.zeros(len(numbers), np.uint64)
    for digit, place in enumerate(places):
        words |= (numbers // modulus**digit % modulus).astype(np.uint64) << np.uint64(place)
    return words


@compiled
def _choose(coins: Any, hashes: Any, chosen: Any) -> None:
    """Compute hashes from their coins."""
    for row in range(len(chosen)):
        chosen[row] = scaled(coins[row], hashes) + np.uint64(1)


@compiled
def _divide(numbers: Any, base: Any, part: Any, below: Any, above: Any) -> None:
    """Divide numbers below 2^32, of which `above` may be a part, by a base."""
    for row in range(len(numbers)):
        number = numbers[row]
        quotient = (number * part) >> _HALF  # or one less than it is
        quotient += np.uint64(number - quotient * base >= base)
        below[row], above[row] = number - quotient * base, quotient


@compiled
def _multiply(levels: Any, below: Any, number: int, totals: Any, hashing: Any) -> None:
    """Add the products of one part's digits."""
    digits, cells, parts = hashing.digits, hashing.cells, np.uint64(hashing.parts)
    first, place, mask = np.uint64(number), hashing.place, hashing.mask
    for row in range(len(totals)):
        product = digits[below[row]] * np.uint64(cells[np.uint64(levels[row]) * parts + first])
        before = totals[row] if number else np.uint64(0)
        totals[row] = before + ((product >> place) & mask)


@compiled
def _respond(totals: Any, coins: Any, chosen: Any, codes: Any, hashing: Any) -> None:
    """Compute reports from sums of products, which are below 2^32 / q."""
    modulus, inverse = hashing.modulus, hashing.inverse
    own, other, shift, factor, down = hashing.response
    for row in range(len(codes)):
        value = totals[row] - ((totals[row] * inverse) >> _HALF) * modulus
        drawn = respond(coins[row], value, own, other, shift, factor, down)
        codes[row] = chosen[row] * modulus + drawn


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, hashing: Any) -> None:
    """Draw reports and, where there are sums, count the reports of each number."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    first, second = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    hashes = np.empty(AT_ONCE, np.uint64)
    totals, codes = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    lower, upper = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        count = stop - start
        ours, mine = words[start * each : stop * each], levels[start:stop]
        chosen, total, drawn = hashes[:count], totals[:count], codes[:count]
        hash_coins, coin = first[:count], second[:count]
        columns_of(ours, each, hash_coins, coin)
        _choose(hash_coins, hashing.hashes, chosen)
        if hashing.parts == 1:
            _multiply(mine, chosen, 0, total, hashing)
        else:
            below, above = lower[:count], upper[:count]
            above[:] = chosen
            for number in range(hashing.parts):
                _divide(above, hashing.base, hashing.part, below, above)
                _multiply(mine, below, number, total, hashing)
        _respond(total, coin, chosen, drawn, hashing)
        store_numbers(octets[start * width : stop * width], drawn, width)
        if len(sums):
            count_numbers(drawn, sums)
