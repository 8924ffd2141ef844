"""Users per second of multi-freq-ldpy: JSON on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.multi_freq_ldpy.speed` (see `peers.measuring`). Its
clients are compiled when they are first called; that is done before anything is timed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from peers.measuring import CELLS, Shares, Speed, bits, cells, speed, tell

EPS = 1.0
USERS = {"full": (1_000_000, 50_000), "quick": (20_000, 500)}


def main(effort: str) -> list[Speed]:
    """Measure one bit and 1,024 cells, by its protocols with one report per user."""
    one, many = (bits(USERS[effort][0]), cells(USERS[effort][1], CELLS))
    rows = [speed("predicate", "GRR", one, _compiled(grr(2)))]
    for name, answer in (("GRR", grr(CELLS)), ("OUE", oue(CELLS)), ("SS", ss(CELLS))):
        rows.append(speed("frequency", name, many, _compiled(answer)))
    return rows


Answer = Callable[[list[int]], Shares]


def _compiled(answer: Answer) -> Answer:
    answer([0, 1])
    return answer


def _oracle(name: str) -> Any:
    return importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")


def grr(k: int) -> Answer:
    """Answer by k-ary randomized response."""
    peer = _oracle("GRR")

    def answer(values: list[int]) -> Shares:
        draw = peer.GRR_Client
        reports = [draw(value, k, EPS) for value in values]
        return np.asarray(peer.GRR_Aggregator_MI(reports, k, EPS))

    return answer


def oue(k: int) -> Answer:
    """Answer by optimised unary encoding."""
    peer = _oracle("UE")

    def answer(values: list[int]) -> Shares:
        draw = peer.UE_Client
        reports = [draw(value, k, EPS, True) for value in values]
        return np.asarray(peer.UE_Aggregator_MI(reports, EPS, True))

    return answer


def ss(k: int) -> Answer:
    """Answer by subset selection."""
    peer = _oracle("SS")

    def answer(values: list[int]) -> Shares:
        draw = peer.SS_Client
        reports = [draw(value, k, EPS) for value in values]
        return np.asarray(peer.SS_Aggregator_MI(reports, k, EPS))

    return answer


if __name__ == "__main__":
    tell("multi-freq-ldpy", main(sys.argv[1]))
