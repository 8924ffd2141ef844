"""Sweeps: a grid of settings, many trials per cell, and their summaries.

Rules of the package:

- The rows in a *.jsonl file are the only truth; tables and pictures are made from them. A row is
  durable before the next trial begins, so that a killed sweep continues where it was.
- A trial's seed is made from the sweep's seed, what its cell is, and its number. Other cells, the
  fleet, the number of workers and the order in which trials end change nothing; `simulate` with a
  row's settings and seed runs the same trial, to the transcript's digest.
- A plan that is refused is a result: a row with its reason. Bad input is none: it is found before
  the first trial.
"""

from askance_simulation.experiments.sweeps.cells import Cell, Grid
from askance_simulation.experiments.sweeps.results import Sweep
from askance_simulation.experiments.sweeps.running import Advance, sweep
from askance_simulation.summaries import Summary

__all__ = [
    "Advance",
    "Cell",
    "Grid",
    "Summary",
    "Sweep",
    "sweep",
]
