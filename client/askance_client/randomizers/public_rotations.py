"""Random rotations that a public seed determines, in integers.

A rotation of an even order is `STEPS` steps. A step gives every coordinate a random sign and maps
each pair (a, b) of neighbours to (a + b, a - b), the sums first, so that coordinates meet others
in the next step. It multiplies lengths by the root of 2 exactly; all steps by 2^(STEPS / 2).

Accuracy only: no privacy loss depends on how even the rotations are, nor on this module at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

STEPS = 32  # after them a rotation's cubic field differs by 4 / 10^7 from an even one's


def public_octets(seed: int, bases: int, order: int) -> bytes:
    """Expand a seed below 2^64 to a bit per coordinate of each step of each basis."""
    return shake_128(seed.to_bytes(8, "big")).digest(bases * order * STEPS // 8)


def signs_of(octets: bytes, bases: int, order: int) -> NDArray[np.int8]:
    """Arrange the octets of n users as signs, 1 and -1, of shape (STEPS, order, bases, n)."""
    bits = np.unpackbits(np.frombuffer(octets, np.uint8)).reshape(-1, bases, STEPS, order)
    return 1 - 2 * np.ascontiguousarray(bits.T.swapaxes(0, 1)).view(np.int8)


def turned(vectors: NDArray[np.int64], seeds: Sequence[int], bases: int) -> NDArray[np.int64]:
    """Rotate each vector by the rotations of its own seed.

    Args:
        vectors: shape (n, order), of a length below 2^46; the order is even.
        seeds: n of them.
        bases: number of rotations.

    Returns:
        Shape (n, bases x order), 2^(STEPS / 2) times as long.
    """
    users, order = vectors.shape
    signs = signs_of(b"".join([public_octets(s, bases, order) for s in seeds]), bases, order)
    turning = np.repeat(vectors.T[:, np.newaxis], bases, axis=1)
    for step in signs:
        turning = turning * step
        turning = np.concatenate((turning[::2] + turning[1::2], turning[::2] - turning[1::2]))
    return turning.transpose(2, 1, 0).reshape(users, -1)
