"""Users per second of diffprivlib: one JSON object on stdout; argv "full" or "quick".

Run in an environment of its own as `peers.diffprivlib.speed` (see `peers.measuring`). It has a
mechanism for one bit and none for a frequency; aggregating and decoding are left to the caller.
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

from peers.measuring import SEED, Speed, bits, speed, tell

EPS = 1.0
USERS = {"full": 200_000, "quick": 2_000}


def main(effort: str) -> list[Speed]:
    """Return the Binary mechanism, one object for all users, one call per user."""
    mechanisms: Any = importlib.import_module("diffprivlib.mechanisms")
    binary = mechanisms.Binary(epsilon=EPS, value0="no", value1="yes", random_state=SEED)
    truthful = math.exp(EPS) / (1 + math.exp(EPS))
    names = ("no", "yes")

    def answer(values: list[int]) -> list[float]:
        told = sum(binary.randomise(names[value]) == "yes" for value in values) / len(values)
        return [(told - (1 - truthful)) / (2 * truthful - 1)]

    return [speed("predicate", "Binary", bits(USERS[effort]), answer)]


if __name__ == "__main__":
    tell("diffprivlib", main(sys.argv[1]))
