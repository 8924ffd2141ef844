"""Patterns of signs in the order of their likelihood, by a heap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from itertools import islice

Bits = tuple[int, ...]


def likely_patterns(values: Sequence[float], length: int) -> list[Bits]:
    """List the most likely patterns of signs of estimates with equal noise.

    A pattern that turns the signs of the values in a set S has the sum of |value| over S as its
    rank; the least come first, S empty before all. Sums are exact, and ties go by position, so that
    the list is a function of the values on every machine.

    There are `length` of them, or all where there are fewer; 1 stands for a negative sign.
    """
    signs = [int(value < 0) for value in values]
    order = sorted(range(len(values)), key=lambda place: (abs(values[place]), place))
    sizes = [Fraction(abs(values[place])) for place in order]
    patterns = []
    for turned in islice(_least_sums(sizes), length):
        bits = list(signs)
        for position in turned:
            bits[order[position]] ^= 1
        patterns.append(tuple(bits))
    return patterns


def _least_sums(sizes: Sequence[Fraction]) -> Iterator[tuple[int, ...]]:
    """Yield the subsets of positions in increasing order of their sums, the empty one first.

    Each non-empty subset is made once, from one with no greater sum: its last position was added to
    it, or moved there from the position before.

    Sizes are not negative, in increasing order.
    """
    yield ()
    heap: list[tuple[Fraction, tuple[int, ...]]] = [(sizes[0], (0,))] if sizes else []
    while heap:
        total, subset = heappop(heap)
        yield subset
        last = subset[-1]
        if last + 1 < len(sizes):
            following = sizes[last + 1]
            heappush(heap, (total + following, (*subset, last + 1)))
            heappush(heap, (total + following - sizes[last], (*subset[:-1], last + 1)))
