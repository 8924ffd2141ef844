"""Users per second of OpenDP: one JSON object on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.opendp.speed` (see `peers.measuring`). OpenDP randomizes
one value a call and leaves aggregating and decoding to the caller, so that is done here.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from peers.measuring import CELLS, Shares, Speed, bits, cells, speed, tell

EPS = 1.0
USERS = {"full": (20_000, 2_000), "quick": (500, 50)}


def main(effort: str) -> list[Speed]:
    """Measure randomized response on a Boolean, and among 1,024 categories."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    one, many = (bits(USERS[effort][0]), cells(USERS[effort][1], CELLS))
    return [
        speed("predicate", "randomized_response_bool", one, boolean(dp)),
        speed("frequency", "randomized_response", many, categorical(dp, CELLS)),
    ]


def boolean(dp: Any) -> Callable[[list[int]], list[float]]:
    """Make Warner's response with exactly EPS."""
    truthful = math.exp(EPS) / (1 + math.exp(EPS))
    measurement = dp.m.make_randomized_response_bool(truthful)

    def answer(values: list[int]) -> list[float]:
        yes = sum(measurement(value == 1) for value in values) / len(values)
        return [(yes - (1 - truthful)) / (2 * truthful - 1)]

    return answer


def categorical(dp: Any, k: int) -> Callable[[list[int]], Shares]:
    """Make k-ary randomized response with EPS."""
    truthful = math.exp(EPS) / (k - 1 + math.exp(EPS))
    other = (1 - truthful) / (k - 1)
    measurement = dp.m.make_randomized_response(list(range(k)), truthful)

    def answer(values: list[int]) -> Shares:
        told = np.bincount([measurement(value) for value in values], minlength=k)
        return (told / len(values) - other) / (truthful - other)

    return answer


if __name__ == "__main__":
    tell("opendp", main(sys.argv[1]))
