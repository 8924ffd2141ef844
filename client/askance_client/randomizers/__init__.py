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

from askance_client.randomizers.channel import MAX_LEVELS as MAX_LEVELS
from askance_client.randomizers.channel import MAX_SYMBOLS as MAX_SYMBOLS
from askance_client.randomizers.channel import Channel as Channel
from askance_client.randomizers.coins import COIN_BITS as COIN_BITS
from askance_client.randomizers.coins import COIN_SPACE as COIN_SPACE
from askance_client.randomizers.coins import Coins as Coins
from askance_client.randomizers.coins import SystemCoins as SystemCoins
from askance_client.randomizers.hadamard_sign import HadamardSign as HadamardSign
from askance_client.randomizers.hypercube_response import HypercubeResponse as HypercubeResponse
from askance_client.randomizers.k_ary import KaryResponse as KaryResponse
from askance_client.randomizers.linear_hashing import LinearHashing as LinearHashing
from askance_client.randomizers.loss import PrivacyLoss as PrivacyLoss
from askance_client.randomizers.random_codebook import RandomCodebook as RandomCodebook
from askance_client.randomizers.randomizer import Randomizer as Randomizer
from askance_client.randomizers.rounding import round_to_levels as round_to_levels
from askance_client.randomizers.signed_subset_selection import (
    SignedSubsetSelection as SignedSubsetSelection,
)
from askance_client.randomizers.subset_selection import SubsetSelection as SubsetSelection
