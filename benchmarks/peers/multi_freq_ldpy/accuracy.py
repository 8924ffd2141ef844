"""Errors of multi-freq-ldpy's frequencies: JSON on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.multi_freq_ldpy.accuracy` (see `peers.measuring`). Its
estimators by matrix inversion clip at 0 and divide by the sum, always: those are the rows
"clipped, renormalised". What its formula had found before that is listened to, for the rows "raw".
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from peers.measuring import EPSILONS, SEED, SIZES, Accuracy, Shares, Size, accuracy, cells, tell

SMALL, LARGE, SLOW, HASHED = Size(10_000, 50), Size(10_000, 8), Size(2_000, 10), Size(1_000, 5)
SLOW_SMALL = Size(2_000, 40)
ORACLES = ("GRR", "UE", "SS", "LH", "HE")
Draw = Callable[[int, int, float], Any]
Decode = Callable[[Any, int, float], Any]


class Listener:
    """The peer's matrix inversion, and what it would have said without clipping."""

    def __init__(self, inversion: Any) -> None:
        self._inversion = inversion
        self.raw: Shares = np.zeros(0)

    def __call__(self, counts: Any, n: int, p: float, q: float) -> Any:
        """Return the shares, with the signature that the peer calls."""
        self.raw = (np.asarray(counts, float) / n - q) / (p - q)
        return self._inversion(counts, n, p, q)


def main(effort: str) -> Iterator[Accuracy]:
    """Measure every protocol with one report per user, at every epsilon and number of cells."""
    listener = listening()
    _seed()
    for k in SIZES[effort]:
        for eps in EPSILONS[effort]:
            for name, (draw, decode) in protocols().items():
                size = _size(name, k).of(effort)
                values = cells(size.n, k)
                found = [
                    _estimates(draw, decode, listener, values.tolist(), k, eps)
                    for _ in range(size.repetitions)
                ]
                yield from accuracy(name, eps, values, k, found)


def listening() -> Listener:
    """Put a listener between all protocols and their inversion."""
    listener = Listener(_module("estimators.Histogram_estimator").MI)
    for name in ORACLES:
        _oracle(name).MI = listener
    return listener


def protocols() -> dict[str, tuple[Draw, Decode]]:
    """Return the two sides of each, by the peer's name."""
    grr, ue, ss, lh, he, adp = map(_oracle, (*ORACLES, "ADP"))
    return {
        "GRR": (grr.GRR_Client, grr.GRR_Aggregator_MI),
        "SUE": (
            lambda value, k, eps: ue.UE_Client(value, k, eps, False),
            lambda reports, k, eps: ue.UE_Aggregator_MI(reports, eps, False),
        ),
        "OUE": (
            lambda value, k, eps: ue.UE_Client(value, k, eps, True),
            lambda reports, k, eps: ue.UE_Aggregator_MI(reports, eps, True),
        ),
        "SS": (ss.SS_Client, ss.SS_Aggregator_MI),
        "BLH": (
            lambda value, k, eps: lh.LH_Client(value, k, eps, False),
            lambda reports, k, eps: lh.LH_Aggregator_MI(reports, k, eps, False),
        ),
        "OLH": (lh.LH_Client, lh.LH_Aggregator_MI),
        "THE": (he.HE_Client, he.HE_Aggregator_MI),
        "ADP": (adp.ADP_Client, adp.ADP_Aggregator_MI),
    }


def _size(name: str, k: int) -> Size:
    if k <= 100:
        return SLOW_SMALL if name in ("SS", "BLH", "OLH") else SMALL
    return HASHED if name in ("BLH", "OLH") else SLOW if name in ("SS", "THE") else LARGE


def _estimates(
    draw: Draw, decode: Decode, listener: Listener, values: Sequence[int], k: int, eps: float
) -> dict[str, Shares]:
    """Run one repetition, and return the shares by kind of estimate."""
    reports = [draw(value, k, eps) for value in values]
    told = np.asarray(decode(reports, k, eps), float)
    return {"raw": listener.raw, "clipped, renormalised": told}


def _seed() -> None:
    """Seed numpy's and numba's global generators, from which the peer draws."""
    numba: Any = importlib.import_module("numba")
    seed: Any = np.random.seed
    seed(SEED)
    numba.njit(_seed_compiled)(SEED)


def _seed_compiled(seed: int) -> None:
    np.random.seed(seed)


def _oracle(name: str) -> Any:
    return _module(f"pure_frequency_oracles.{name}")


def _module(name: str) -> Any:
    return importlib.import_module(f"multi_freq_ldpy.{name}")


if __name__ == "__main__":
    tell("multi-freq-ldpy", main(sys.argv[1]))
