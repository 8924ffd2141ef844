"""Privacy amplification by shuffling: what readers of tallies alone learn of a record.

A reader of the counts of a batch alone sees its reports shuffled. A family reduces its randomizer
to `Comparisons` or to `TwoSymbols` (`Family.comparisons`); `epsilon_ends` and `delta_ends` bound
what a batch satisfies from both sides, and `curve` is the upper side for composition. All ends are
proved (docs/math/shuffled_batches.md) and rounded outward; where a family has no reduction, they
are 0 and the local epsilon.
"""

from askance_aggregator.amplification.accountant import curve, delta_ends, epsilon_ends
from askance_aggregator.amplification.ends import Curve, Ends
from askance_aggregator.families.comparisons import Atom, Comparison, Comparisons, TwoSymbols

__all__ = [
    "Atom",
    "Comparison",
    "Comparisons",
    "Curve",
    "Ends",
    "TwoSymbols",
    "curve",
    "delta_ends",
    "epsilon_ends",
]
