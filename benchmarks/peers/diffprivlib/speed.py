"""Users per second of diffprivlib: one JSON object on stdout; argv is the effort and the questions.

Run in an environment of its own as `peers.diffprivlib.speed` (see `peers.questions`). One object of
a mechanism for all users, one call per value; aggregating and decoding are left to the caller. Its
exponential mechanism with equal utilities is k-ary response; it sums over the cells in Python and
needs the utility of every pair of them, so it is asked about up to 64.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from peers.measuring import SEED, Shares, tell
from peers.questions import EPS, Answer, Question, speeds

MOST_CELLS = 64


def offered(question: Question) -> Iterator[tuple[str, Answer]]:
    """Yield the mechanisms that are unbiased: of a bit, a category, and numbers."""
    peer: Any = importlib.import_module("diffprivlib.mechanisms")
    k = question.values
    if question.mean:
        for name in ("Laplace", "Staircase"):
            # A vector's components are asked with equal parts of EPS.
            mechanism = getattr(peer, name)(epsilon=EPS / k, sensitivity=2.0, random_state=SEED)
            yield f"{name}, of each number", numbers(mechanism)
        return
    names = [str(cell) for cell in range(k)]
    if k == 2:
        binary = peer.Binary(epsilon=EPS, value0=names[0], value1=names[1], random_state=SEED)
        yield "Binary", categories(binary, names)
    if k <= MOST_CELLS:
        pairs = [(*pair, 1.0) for pair in combinations(names, 2)]
        made = peer.ExponentialCategorical(epsilon=EPS, utility_list=pairs, random_state=SEED)
        yield "ExponentialCategorical", categories(made, names)


def categories(mechanism: Any, names: list[str]) -> Answer:
    """Make what asks for every user's cell and decodes k-ary response."""
    k = len(names)
    truthful = math.exp(EPS) / (k - 1 + math.exp(EPS))
    other = (1 - truthful) / (k - 1)

    def answer(values: list[int]) -> Shares:
        told = [int(mechanism.randomise(names[value])) for value in values]
        return (np.bincount(told, minlength=k) / len(values) - other) / (truthful - other)

    return answer


def numbers(mechanism: Any) -> Answer:
    """Make what asks for every number by itself, and averages."""

    def answer(values: Any) -> Shares:
        told = [mechanism.randomise(value) for value in np.ravel(values).tolist()]
        found: Shares = np.reshape(told, (len(values), -1)).mean(axis=0)
        return found

    return answer


if __name__ == "__main__":
    tell("diffprivlib", speeds(offered, sys.argv[1:]))
