"""Users per second of OpenDP: one JSON object on stdout; argv is the effort and the questions.

Run in an environment of its own as `peers.opendp.speed` (see `peers.questions`). OpenDP randomizes
and leaves aggregating and decoding to the caller, so that is done here. A category is randomized by
a call of its own; numbers by one call for all users: a vector's entries have draws of their own.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from peers.measuring import Shares, tell
from peers.opendp.accuracy import bit_vector, categorical
from peers.questions import EPS, Answer, Question, speeds


def offered(question: Question) -> Iterator[tuple[str, Answer]]:
    """Yield randomized response of a Boolean or category, of its bits, or Laplace on numbers."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    if question.mean:
        yield "laplace", laplace(dp, question)
        return
    if question.values == 2:
        yield "randomized_response_bool", boolean(dp)
    yield "randomized_response", categorical(dp, EPS, question.values)
    yield "randomized_response_bitvec", bit_vector(dp, EPS, question.values)


def boolean(dp: Any) -> Answer:
    """Make Warner's response with exactly EPS."""
    truthful = math.exp(EPS) / (1 + math.exp(EPS))
    measurement = dp.m.make_randomized_response_bool(truthful)

    def answer(values: list[int]) -> list[float]:
        yes = sum(measurement(value == 1) for value in values) / len(values)
        share = (yes - (1 - truthful)) / (2 * truthful - 1)
        return [1 - share, share]

    return answer


def laplace(dp: Any, question: Question) -> Answer:
    """Make Laplace noise on every component of every user."""
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    scale = question.sensitivity / EPS
    measurement = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)

    def answer(values: Any) -> Shares:
        told = measurement(np.ravel(values).tolist())
        found: Shares = np.reshape(told, (len(values), question.values)).mean(axis=0)
        return found

    return answer


if __name__ == "__main__":
    tell("opendp", speeds(offered, sys.argv[1:], first=200))
