"""Linear hashing: reports, and the number of each, or reports alone where they are too many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.blocks import AT_ONCE, count_numbers, read_column, store_numbers
from askance_simulation.kernels.compiling import compiled, scaled
from askance_simulation.kernels.responses import ResponseConstants, respond_all, response_of

_ENTRIES = 1 << 12  # most entries of a table of digits: it stays in a core's first cache
_BITS = 64  # of a word
_HALF = np.uint64(32)

Words = NDArray[np.uint64]


class Hashing(NamedTuple):
    """Constants of a linear hashing over vectors of several digits, a few digits at a time.

    Digits of such a part of a hash stand in a word from the lowest on, those of a cell from the
    highest down, so that the middle of the words' product is the sum of the digits' products.

    Args:
        hashes: number of hashes: q^t - 1, less than 2^32.
        modulus: q.
        inverse: ceil(2^32 / q).
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
        cells=_spread(every.ravel(), modulus, range(width * (at_once - 1), -1, -width)),
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
def _choose(hashes: Any, chosen: Any, rest: Any, totals: Any) -> None:
    """Compute hashes from their coins."""
    for row in range(len(chosen)):
        chosen[row] = scaled(rest[row], hashes) + np.uint64(1)
        rest[row], totals[row] = chosen[row], 0


@compiled
def _add_part(levels: Any, number: int, rest: Any, totals: Any, hashing: Any) -> None:
    """Add the products of one part's digits; what is left of hashes loses this part."""
    base, part, digits = hashing.base, hashing.part, hashing.digits
    cells, parts = hashing.cells, np.uint64(hashing.parts)
    place, mask, first = hashing.place, hashing.mask, np.uint64(number)
    for row in range(len(rest)):
        here = rest[row]
        above = (here * part) >> _HALF  # or one less than the quotient: both are below 2^32
        above += np.uint64(here - above * base >= base)
        product = digits[here - above * base] * cells[np.uint64(levels[row]) * parts + first]
        totals[row] += (product >> place) & mask
        rest[row] = above


@compiled
def _reduce(totals: Any, modulus: Any, inverse: Any) -> None:
    """Compute remainders of numbers below 2^32 / q."""
    for row in range(len(totals)):
        totals[row] -= ((totals[row] * inverse) >> _HALF) * modulus


@compiled
def _join(chosen: Any, values: Any, modulus: Any) -> None:
    for row in range(len(chosen)):
        chosen[row] = chosen[row] * modulus + values[row]


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, hashing: Any) -> None:
    """Draw reports and, where there are sums, count the reports of each number."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    hashes, lasting = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    added = np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        chosen, rest, totals = hashes[: stop - start], lasting[: stop - start], added[: stop - start]
        ours, mine = words[start * each : stop * each], levels[start:stop]
        read_column(ours, each, 0, rest)
        _choose(hashing.hashes, chosen, rest, totals)
        for number in range(hashing.parts):
            _add_part(mine, number, rest, totals, hashing)
        _reduce(totals, hashing.modulus, hashing.inverse)
        read_column(ours, each, 1, rest)
        respond_all(totals, rest, totals, hashing.response)
        _join(chosen, totals, hashing.modulus)
        store_numbers(octets[start * width : stop * width], chosen, width)
        if len(sums):
            count_numbers(chosen, sums)
