"""Random rotations that a public seed determines, in integers.

A rotation of an even order is `STEPS` steps. A step gives every coordinate a random sign and maps
each pair (a, b) of neighbours to (a + b, a - b), the sums first, so that coordinates meet others
in the next step. It multiplies lengths by the root of 2 exactly; all steps by 2^(STEPS / 2).

Accuracy only: no privacy loss depends on how even the rotations are, nor on this module at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_128
from operator import add, mul, sub

STEPS = 32  # after them a rotation's cubic field differs by 4 / 10^7 from an even one's
_SIGNS = bytes.maketrans(b"01", b"\x01\xff")  # 1 and -1 as bytes


def public_octets(seed: int, bases: int, order: int) -> bytes:
    """Expand a seed below 2^64 to a bit per coordinate of each step of each basis."""
    return shake_128(seed.to_bytes(8, "big")).digest(bases * order * STEPS // 8)


def turned(vector: Sequence[int], seed: int, bases: int) -> list[int]:
    """Rotate a vector by the rotations of a seed.

    Args:
        vector: shape (order,), integers; the order is even.
        seed: below 2^64.
        bases: number of rotations.

    Returns:
        bases x order coordinates, basis by basis, 2^(STEPS / 2) times as long.
    """
    order = len(vector)
    octets = public_octets(seed, bases, order)
    bits = f"{int.from_bytes(octets, 'big'):0{8 * len(octets)}b}"
    signs = memoryview(bits.encode().translate(_SIGNS)).cast("b")
    found: list[int] = []
    for basis in range(0, len(signs), STEPS * order):
        row = list(vector)
        for step in range(basis, basis + STEPS * order, order):
            row = list(map(mul, signs[step : step + order], row))
            first, second = row[::2], row[1::2]
            row = [*map(add, first, second), *map(sub, first, second)]
        found += row
    return found
