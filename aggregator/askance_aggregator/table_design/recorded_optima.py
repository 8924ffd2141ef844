"""Optima of the linear program of a table with "missing", recorded for common budgets.

A mean over a bounded number is the first study of many users, and the import of the solver and its
search take half of the start of a small simulation. `recorded_optima.json` has what the solver
finds for the worst population, by budget in nano-nats, as the shortest decimals that read back as
the same floats. Integers, privacy and bias are computed from them as from the solver's own; a test
solves all of them again. `python tools/presence_optima.py` writes the file.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

FILE = "recorded_optima.json"


def recorded_optimum(nano: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the table (levels, symbols) and its scores (symbols, 2); None: none is recorded."""
    found = recorded().get(str(nano))
    if found is None:
        return None
    table, scores = (np.array(found[name], dtype=np.float64) for name in ("table", "scores"))
    return table, scores


@cache
def recorded() -> dict[str, dict[str, list[list[float]]]]:
    """Read the file: by budget in nano-nats, the rows of "table" and of "scores"."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, dict[str, list[list[float]]]] = json.loads(text)
    return found
