"""Errors of OpenDP's local mechanisms: one JSON object on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.opendp.accuracy` (see `peers.measuring`). OpenDP draws
from the operating system, so the figures differ a little from run to run.

Frequencies: k-ary randomized response, decoded here, and randomized response on bit vectors, with
its own decoding. Means of numbers in [-1, 1]: the Laplace mechanism on each single number, of
sensitivity 2, which is what it has for that; a vector's entries have draws of their own, so one
call serves all users.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers.measuring import (
    EPSILONS,
    SIZES,
    Accuracy,
    Shares,
    Size,
    accuracy,
    accuracy_of_mean,
    cells,
    numbers,
    tell,
)

VALUES, FEW_VALUES = Size(500, 20), Size(500, 5)  # few where cells are many
BITS, FEW_BITS = Size(200, 20), Size(100, 5)  # milliseconds a user at 1,024 cells
MEANS = Size(100, 500)
Estimate = Callable[[list[int]], Shares]


def main(effort: str) -> Iterator[Accuracy]:
    """Measure every mechanism at every epsilon."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    for eps in EPSILONS[effort]:
        for k in SIZES[effort]:
            for name, made, planned in (
                ("randomized_response", categorical, FEW_VALUES if k > 100 else VALUES),
                ("randomized_response_bitvec", bit_vector, FEW_BITS if k > 100 else BITS),
            ):
                size = planned.of(effort)
                values = cells(size.n, k)
                estimate = made(dp, eps, k)
                found = [{"raw": estimate(values.tolist())} for _ in range(size.repetitions)]
                yield from accuracy(name, eps, values, k, found)
        yield mean(dp, eps, MEANS.of(effort))


def categorical(dp: Any, eps: float, k: int) -> Estimate:
    """Make k-ary randomized response."""
    truthful = math.exp(eps) / (k - 1 + math.exp(eps))
    other = (1 - truthful) / (k - 1)
    measurement = dp.m.make_randomized_response(list(range(k)), truthful)

    def estimate(values: list[int]) -> Shares:
        told = np.bincount([measurement(value) for value in values], minlength=k)
        return (told / len(values) - other) / (truthful - other)

    return estimate


def bit_vector(dp: Any, eps: float, k: int) -> Estimate:
    """Make symmetric unary encoding.

    One bit of k is set, and each is flipped with probability f / 2.
    """
    f = 2 / (math.exp(eps / 2) + 1)
    domain = dp.bitvector_domain(max_weight=1)
    measurement = dp.m.make_randomized_response_bitvec(domain, dp.discrete_distance(), f=f)
    rows = np.eye(k, dtype=np.uint8)
    own = [np.packbits(row, bitorder="little").tobytes() for row in rows]  # as its decoder reads

    def estimate(values: list[int]) -> Shares:
        reports = [measurement(own[value]) for value in values]
        told: NDArray[np.float64] = np.array(dp.m.debias_randomized_response_bitvec(reports, f))
        return told[:k] / len(values)

    return estimate


def mean(dp: Any, eps: float, size: Size) -> Accuracy:
    """Measure Laplace noise on every user's single number."""
    values = numbers(size.n)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=2 / eps)
    given = values.tolist()
    found = [float(np.mean(measurement(given))) for _ in range(size.repetitions)]
    return accuracy_of_mean("laplace, of each value", "raw", eps, values, found)


if __name__ == "__main__":
    tell("opendp", main(sys.argv[1]))
