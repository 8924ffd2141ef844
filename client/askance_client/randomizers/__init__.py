"""Randomizers: the only place where a user's answer becomes a report.

Rules of the package:

- A randomizer is a finite table of integers (`Channel`), or a family of integer draws with a
  closed-form loss: of cells (`KaryResponse`, `SubsetSelection`, `LinearHashing`), of signed values
  (`HadamardSign`, `SignedSubsetSelection`), of vectors (`HypercubeResponse`,
  `RandomCodebook`). It draws reports and
  certifies its loss, and does nothing else: tallies, estimates and the choice of a randomizer are
  the aggregator's.
- A draw is a pure function of the level and of a fixed number of 64-bit coins, which are passed in:
  the operating system's on a device, seeded ones in a simulation.
- No float is used. A loss is a ratio of integers, exact or bounded from above, and its charge the
  least whole number of nano-nats that covers it. It is computed, never received.
- No probability is 0 or 1: a zero beside a non-zero is an infinite loss and refused.
- A report is its canonical bytes; tests enumerate those, not the values behind them.
- The package imports the standard library, `accounting` and `errors`.

Theory of operation: the device checks `loss.fits`, charges `loss.nano_nats`, draws `coins` words
and sends `randomize(level, words)`.
Source: KLNRS08 section 4.
"""

from askance_client.randomizers.channel import MAX_LEVELS, MAX_SYMBOLS, Channel
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE, Coins, SystemCoins
from askance_client.randomizers.hadamard_sign import HadamardSign
from askance_client.randomizers.hypercube_response import HypercubeResponse
from askance_client.randomizers.k_ary import KaryResponse
from askance_client.randomizers.linear_hashing import LinearHashing
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.random_codebook import RandomCodebook
from askance_client.randomizers.randomizer import Randomizer
from askance_client.randomizers.rounding import round_to_levels
from askance_client.randomizers.signed_subset_selection import SignedSubsetSelection
from askance_client.randomizers.subset_selection import SubsetSelection

__all__ = [
    "COIN_BITS",
    "COIN_SPACE",
    "MAX_LEVELS",
    "MAX_SYMBOLS",
    "Channel",
    "Coins",
    "HadamardSign",
    "HypercubeResponse",
    "KaryResponse",
    "LinearHashing",
    "PrivacyLoss",
    "RandomCodebook",
    "Randomizer",
    "SignedSubsetSelection",
    "SubsetSelection",
    "SystemCoins",
    "round_to_levels",
]
