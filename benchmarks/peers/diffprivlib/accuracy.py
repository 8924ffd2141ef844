"""Errors of diffprivlib's means in the local model: JSON on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.diffprivlib.accuracy` (see `peers.measuring`). It is made
for a trusted curator. What one would use locally are its mechanisms for a number, one call for each
single user's number in [-1, 1], with sensitivity 2. Two of them keep the answer within the bounds
and are biased for it. It has none for frequencies.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from peers.measuring import EPSILONS, SEED, Accuracy, Size, accuracy_of_mean, numbers, tell

SIZE = Size(500, 400)
BOUNDS = {"lower": -1.0, "upper": 1.0}
MECHANISMS: dict[str, dict[str, float]] = {
    "Laplace": {},
    "Staircase": {},
    "LaplaceTruncated": BOUNDS,
    "LaplaceBoundedDomain": BOUNDS,
}


def main(effort: str) -> Iterator[Accuracy]:
    """Measure every mechanism at every epsilon."""
    peer: Any = importlib.import_module("diffprivlib.mechanisms")
    size = SIZE.of(effort)
    values = numbers(size.n)
    given = values.tolist()
    for eps in EPSILONS[effort]:
        for name, named in MECHANISMS.items():
            randomise = getattr(peer, name)(
                epsilon=eps, sensitivity=2.0, random_state=SEED, **named
            ).randomise
            found = [
                float(np.mean([randomise(value) for value in given]))
                for _ in range(size.repetitions)
            ]
            kind = "kept within bounds" if named else "raw"
            yield accuracy_of_mean(f"{name}, of each value", kind, eps, values, found)


if __name__ == "__main__":
    tell("diffprivlib", main(sys.argv[1]))
