"""OpenDP's discrete Laplace on vectors of zeros: {"COUNT": seconds a call, ...} on stdout.

Run by `benchmarks/curator.py` in an environment of its own: argv is the scale and the counts.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def seconds(scale: float, count: int) -> float:
    """Measure the best of three rounds."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    domain, metric = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    answers: Any = 0
    if count > 1:
        domain, metric = dp.vector_domain(domain), dp.l1_distance(T=int)
        answers = [0] * count
    measurement = dp.m.make_laplace(domain, metric, scale=scale)
    repeats = max(1, 3000 // count)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(repeats):
            measurement(answers)
        best = min(best, (time.perf_counter() - began) / repeats)
    return best


if __name__ == "__main__":
    print(json.dumps({count: seconds(float(sys.argv[1]), int(count)) for count in sys.argv[2:]}))
