"""Points of numbers: in clumps, of a mixture, beside a plane, or of length one."""

from __future__ import annotations

from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import (
    clusters_schema,
    halfspaces_schema,
    plane_schema,
    vectors_schema,
)
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Real, Schema
from askance_simulation.populations.columns import GuidedEdges, columns_of, draws, weighted
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.populations.record_types import RecordTypes, drawn_types
from askance_simulation.randomness import Seed, keystream

_BITS = 16
_AT_ONCE = 1 << 16  # users whose words are drawn together: they stay near the processor


@catalogued("numbers", "a bell-shaped number in [0, 1]")
def numbers(size: int, seed: Seed) -> Population:
    """Make `size` users, each with a `number` in [0, 1] on a grid of 2^-16."""
    schema = Schema("numbers", 1, number=Real(0, 1, _BITS))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        found = np.empty(stop - start, np.int32)
        for first in range(start, stop, _AT_ONCE):
            last = min(first + _AT_ONCE, stop)
            # The upper quarters of words: 16 bits each, apart in memory by a word.
            quarters = draws(people, first, last, 3).astype("<u8", copy=False).view("<u2")
            sums = found[first - start : last - start].view(np.uint32)
            np.add(quarters[:, 3], quarters[:, 7], out=sums, dtype=np.uint32)
            sums += quarters[:, 11]
            sums //= np.uint32(3)
        return columns_of({"number": found})

    def law(seed: Seed) -> RecordTypes:
        grid = columns_of({"number": np.arange(1 << _BITS)})
        return drawn_types(grid, _ways(), size, seed)

    return Population("numbers", schema, size, columns, law=law)


def _ways() -> NDArray[np.int64]:
    """Count the triples of 16-bit numbers whose mean, rounded down, is each number."""
    side = 1 << _BITS
    sums = np.arange(3 * side, dtype=np.int64)
    ways = _triples(sums) - 3 * _triples(sums - side) + 3 * _triples(sums - 2 * side)
    found: NDArray[np.int64] = ways.reshape(side, 3).sum(axis=1, dtype=np.int64)
    return found


def _triples(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the triples of numbers from 0 on, however great, of each sum."""
    rest = np.maximum(sums, -1) + 1
    found: NDArray[np.int64] = rest * (rest + 1) // 2
    return found


_TRIES = 32
_WIDTH = 0.2  # a clump's: its bell ends there, with a standard deviation of a third of that


@catalogued("clusters", "numbers in clumps that lie apart")
def clusters(size: int, seed: Seed, clumps: int = 3, d: int = 2) -> Population:
    """Make `size` users, each near one of `clumps` equally likely centres that lie well apart.

    The centres come from the seed: each is the one of 32 that is farthest from those before it.
    A number is its centre's plus the mean of three uniform ones on [-1/5, 1/5].
    `clumps` and `d`, how many numbers there are, are 1 .. 16.
    """
    if not 1 <= clumps <= 16:
        raise InvalidParameter(f"clusters: expected 1 to 16 clumps, got {clumps}")
    schema = clusters_schema(d)
    centres = apart(seed / "concept", clumps, d, 1 - _WIDTH)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, 3 * d + 1) >> np.uint64(11)
        uniform = words.astype(np.float64) / (1 << 53)
        place = np.floor(uniform[:, -1] * clumps).astype(np.int64)
        bell = (2 * uniform[:, :-1] - 1).reshape(-1, d, 3).mean(axis=2)
        x = np.rint(np.ldexp(centres[place] + _WIDTH * bell, _BITS)).astype(np.int64)
        return columns_of({f"x{j}": x[:, j] for j in range(d)})

    return Population(
        "clusters", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )


def apart(
    seed: Seed, k: int, d: int, room: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Draw k points in [-room, room]^d, each the farthest of 32 from the earlier ones."""
    words = keystream(seed.key[:16], 0, k * _TRIES * d) >> np.uint64(11)
    tries = (words.astype(np.float64) / (1 << 52) - 1).reshape(k, _TRIES, d) * room
    chosen = [tries[0, 0]]
    for candidates in tries[1:]:
        gaps = np.linalg.norm(candidates[:, None, :] - np.array(chosen)[None], axis=2).min(axis=1)
        chosen.append(candidates[gaps.argmax()])
    return np.array(chosen)


STEPS = 128
"""Table steps per standard deviation."""
REACH = 8
"""Standard deviations to either side; beyond is less than 2^-49 of the probability."""

_FIXED_BITS = 192  # of the fixed point: what cancels in the series below stays under 2^50


def standard_steps(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Draw Gaussians in steps of 1/128 standard deviation, one per uniform word."""
    # k is drawn with probability Phi((k + 1/2)/128) - Phi((k - 1/2)/128), a Gaussian rounded to the
    # nearest step, each bound exact to 2^-64; what lies beyond 8 standard deviations is put there.
    return _guided().places(words.ravel()).reshape(words.shape).astype(np.int64) - REACH * STEPS


@cache
def _guided() -> GuidedEdges:
    return GuidedEdges(_edges())


@cache
def _edges() -> NDArray[np.uint64]:
    """Compute Phi((k + 1/2)/128) in units of 2^-64, for k = -1024 .. 1023."""
    one = 1 << 64
    upper = [_centre_to(2 * k + 1, 2 * STEPS) for k in range(REACH * STEPS)]
    above = [min(one // 2 + part, one - 1) for part in upper]
    below = [one // 2 - part for part in reversed(upper)]
    return np.array([*below, *above], np.uint64)


def _centre_to(numerator: int, denominator: int) -> int:
    """Return the Gaussian's probability between 0 and a quotient, in units of 2^-64."""
    # The Taylor series of Phi - 1/2, sum of (-1)^n x^(2n+1) / (2^n n! (2n+1)) over sqrt(2 pi).
    power = (numerator << _FIXED_BITS) // denominator  # x^(2n+1) / (2^n n!)
    total, n = 0, 0
    while power:
        total += (-power if n % 2 else power) // (2 * n + 1)
        n += 1
        power = power * numerator**2 // (2 * n * denominator**2)
    root = isqrt(2 * _pi() << _FIXED_BITS)
    return (total << 64) // root


@cache
def _pi() -> int:
    """Compute pi in units of 2^-192, by Machin's formula 16 atan(1/5) - 4 atan(1/239)."""
    return 16 * _arctangent(5) - 4 * _arctangent(239)


def _arctangent(inverse: int) -> int:
    total, n = 0, 0
    power = (1 << _FIXED_BITS) // inverse
    while power:
        total += (-power if n % 2 else power) // (2 * n + 1)
        n += 1
        power //= inverse**2
    return total


_UNIT = (1 << _BITS) // 512 // STEPS  # of the grid, to a step where the deviation is 1/512


@catalogued(
    "gaussian-mixture", "numbers, Gaussian about centres that lie apart; their deviation in 512ths"
)
def gaussian_mixture(
    size: int, seed: Seed, clumps: int = 3, d: int = 2, spread: int = 20
) -> Population:
    """Make `size` users, each with d numbers that are Gaussian about one of `clumps` centres.

    The centres, equally likely, come from the seed and lie well apart; all numbers have the same
    standard deviation s = spread/512, in integers (`standard_steps`): rounded to s/128 and
    nowhere clipped by the bounds -1 and 1.
    `clumps` and `d` are 1 .. 16; `spread`, the standard deviation in 512ths, is 1 .. 32.
    """
    if not 1 <= clumps <= 16:
        raise InvalidParameter(f"gaussian-mixture: expected 1 to 16 clumps, got {clumps}")
    if not 1 <= spread <= 32:
        raise InvalidParameter(f"gaussian-mixture: expected a spread of 1 to 32, got {spread}")
    schema = clusters_schema(d)
    room = 1 - REACH * spread / 512
    centres = np.rint(np.ldexp(apart(seed / "concept", clumps, d, room), _BITS)).astype(np.int64)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = np.ascontiguousarray(draws(people, start, stop, d + 1).T)
        place = (words[-1] >> np.uint64(32)) * np.uint64(clumps) >> np.uint64(32)
        return columns_of(
            {
                f"x{j}": centres[place, j] + spread * _UNIT * standard_steps(words[j])
                for j in range(d)
            }
        )

    return Population(
        "gaussian-mixture", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )


_SLACK = 1e-3  # for the grid


@catalogued("halfspaces", "numbers on two sides of a plane, with a margin (hundredths)")
def halfspaces(size: int, seed: Seed, d: int = 3, gap: int = 10) -> Population:
    """Make `size` users with x in [-1, 1]^d and y = "yes" on one side of a plane from the seed.

    Points that lie too near to the plane are moved away from it, so that for a unit vector w, the
    plane's, sign(y) w.(1, x) >= gap/100 sqrt(1 + d) for all users.
    `d` is 1 .. 32; `gap` is in hundredths of the greatest length of (1, x), 0 .. 20.
    """
    if not 0 <= gap <= 20:
        raise InvalidParameter(f"halfspaces: expected a gap of 0 to 20 hundredths, got {gap}")
    schema = halfspaces_schema(d)
    words = keystream((seed / "concept").key[:16], 0, d + 1) >> np.uint64(11)
    plane = words.astype(np.float64) / (1 << 52) - 1
    plane[0] *= 0.25
    plane /= np.linalg.norm(plane)
    normal, offset = plane[1:], plane[0]
    least = gap / 100 * np.sqrt(1 + d) + _SLACK
    length = float(normal @ normal)
    inner = 1 - least / length * float(np.abs(normal).max())  # a moved point stays in the box
    if inner <= 0.1:
        raise InvalidParameter(
            f"halfspaces: expected a gap that leaves space for users, got gap {gap} with d {d}"
        )
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        drawn = draws(people, start, stop, d) >> np.uint64(11)
        x = (drawn.astype(np.float64) / (1 << 52) - 1) * inner
        height = weighted(x, normal) + offset
        side = np.where(height > 0, 1.0, -1.0)
        short = np.clip(least - side * height, 0, None)
        x += (side * short / length)[:, None] * normal[None, :]
        grid = np.rint(np.ldexp(x, _BITS)).astype(np.int64)
        labels = (side > 0).astype(np.int64)
        return columns_of({**{f"x{j}": grid[:, j] for j in range(d)}, "y": labels})

    return Population(
        "halfspaces", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )


@catalogued("plane", "numbers that go together, an outcome near a plane")
def plane(size: int, seed: Seed, d: int = 3) -> Population:
    """Make `size` users with x_j = (common + own_j)/2, y = sum of w_j x_j plus a quarter of noise.

    All of them uniform on [-1, 1]; the weights, of magnitudes that sum to 3/4, come from the seed.
    So one direction holds more of the variance than any other.
    `d`, how many features there are, is 1 .. 32.
    """
    schema = plane_schema(d)
    raw = keystream((seed / "concept").key[:16], 0, d) >> np.uint64(11)
    weights = raw.astype(np.float64) / (1 << 52) - 1
    weights *= 0.75 / np.abs(weights).sum()
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, d + 2) >> np.uint64(11)
        uniform = words.astype(np.float64) / (1 << 52) - 1
        x = (uniform[:, :1] + uniform[:, 1 : d + 1]) / 2
        y = weighted(x, weights) + uniform[:, -1] / 4
        grid = {f"x{j}": np.rint(np.ldexp(x[:, j], _BITS)).astype(np.int64) for j in range(d)}
        return columns_of({**grid, "y": np.rint(np.ldexp(y, _BITS)).astype(np.int64)})

    return Population(
        "plane", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )


@catalogued("unit-vectors", "vectors of length one that lean to one side, by hundredths")
def unit_vectors(size: int, seed: Seed, d: int = 8, lean: int = 50) -> Population:
    """Make `size` users with x of length 1, downward by less than d grid steps of 2^-16.

    A number is uniform on [-1, 1], plus lean/100 times a sign of the component that the seed draws;
    the vector is then divided by its length, rounded up, towards zero: never longer than 1.
    `d`, how many numbers there are, is 1 .. 1024, and `lean` is 0 .. 1000 hundredths.
    """
    schema = vectors_schema(d)
    if not 0 <= lean <= 1000:
        raise InvalidParameter(f"unit-vectors: expected a lean of 0 to 1000, got {lean}")
    bits = keystream((seed / "concept").key[:16], 0, d) >> np.uint64(63)
    shift = (1 - 2 * bits.astype(np.int64)) * (lean * (1 << _BITS) // 100)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, d) >> np.uint64(64 - _BITS - 1)
        own = words.astype(np.int64) - (1 << _BITS) + shift
        lengths = np.maximum(_root_above((own * own).sum(axis=1)), 1)
        grid = (np.abs(own) << _BITS) // lengths[:, np.newaxis] * np.sign(own)
        return columns_of({f"x{j}": grid[:, j] for j in range(d)})

    return Population("unit-vectors", schema, size, columns)


def _root_above(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the least whole number whose square is not below, for numbers below 2^52."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots += roots * roots < squares
    return roots
