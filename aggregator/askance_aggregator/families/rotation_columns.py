"""Public rotations of many users' vectors at once, equal to a device's of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from askance_client.randomizers.public_rotations import STEPS, public_octets


def signs_of(octets: bytes, bases: int, order: int) -> NDArray[np.int8]:
    """Arrange the octets of n users as signs, 1 and -1, of shape (STEPS, order, bases, n)."""
    bits = np.unpackbits(np.frombuffer(octets, np.uint8)).reshape(-1, bases, STEPS, order)
    return 1 - 2 * np.ascontiguousarray(bits.T.swapaxes(0, 1)).view(np.int8)


def turned_rows(vectors: NDArray[np.int64], seeds: Sequence[int], bases: int) -> NDArray[np.int64]:
    """Rotate each vector by the rotations of its own seed (see `public_rotations.turned`).

    Vectors have shape (n, order) with an even order, and a length below 2^46; the result has shape
    (n, bases x order) and is 2^(STEPS / 2) times as long.
    """
    users, order = vectors.shape
    signs = signs_of(b"".join([public_octets(s, bases, order) for s in seeds]), bases, order)
    turning = np.repeat(vectors.T[:, np.newaxis], bases, axis=1)
    for step in signs:
        turning = turning * step
        turning = np.concatenate((turning[::2] + turning[1::2], turning[::2] - turning[1::2]))
    return turning.transpose(2, 1, 0).reshape(users, -1)


def ranked_rows(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order the codes of each of n users, shape (n, M), as `RandomCodebook.ranked` does."""
    falling = np.stack((-scores, scores), axis=-1).reshape(len(scores), -1)
    return falling.argsort(axis=1, kind="stable")
