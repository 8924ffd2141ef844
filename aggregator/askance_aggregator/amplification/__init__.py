"""Privacy amplification by shuffling: what readers of tallies alone learn of a record.

Whoever sees only the counts of a batch sees its reports shuffled. A family reduces its randomizer
to `Comparison`s or a `Bit` (`Family.comparisons`); `epsilon_ends` and `delta_ends` bound what a
batch satisfies from both sides, and `curve` is the upper side for composition. All ends are proved
(docs/math/shuffled_batches.md) and rounded outward; where a family has no reduction, the ends are
0 and the local epsilon.
"""

from askance_aggregator.amplification.accountant import curve, delta_ends, epsilon_ends
from askance_aggregator.amplification.ends import Curve, Ends
from askance_aggregator.families.comparisons import Atom, Bit, Comparison, Comparisons

__all__ = [
    "Atom",
    "Bit",
    "Comparison",
    "Comparisons",
    "Curve",
    "Ends",
    "curve",
    "delta_ends",
    "epsilon_ends",
]
