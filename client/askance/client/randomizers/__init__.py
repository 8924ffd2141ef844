"""Randomizers: the only place where a user's answer becomes a report.

Rules of the room:

- A randomizer is a finite table of integers (`Channel`), or a family of integer draws with a
  closed-form loss: of cells (`KaryResponse`, `SubsetSelection`, `LinearHashing`), of signed values
  (`HadamardSign`, `SignedSubsetSelection`), of vectors (`HypercubeResponse`). The object states
  its probabilities, samples, checks reports, counts them and de-biases the counts, so that the
  device and the aggregator cannot drift apart.
- A draw is a pure function of the level and of a fixed number of 64-bit coins, which are passed in:
  the operating system's on a device, seeded ones in a simulation.
- No float stands here. A loss is a ratio of integers, exact or bounded from above, and its charge
  the least whole number of nano-nats that covers it. What is told about a randomizer is not
  believed; its loss is computed.
- No probability is 0 or 1: a zero beside a non-zero is an infinite loss and refused.
- What leaves is a report's canonical bytes; tests enumerate those, not what they are made from.
- The room knows the standard library, numpy (for tallies), `accounting` and `errors`.

Theory of operation: `best_for` picks a randomizer for a budget. The device checks `loss.fits`,
charges `loss.nano_nats`, draws `coins` words and sends `randomize(level, words)`. The aggregator
drops what is not `valid`, calls `tally` and then `frequencies` (shares of levels; a
`SignedRandomizer` has `signed_values` only), or decodes symbols by values a_y of its own
(`Channel.moved_grid`, `bias`, `second_moment`).
Source: KLNRS08 section 4.
"""

from askance.client.randomizers.channel import MAX_LEVELS, MAX_SYMBOLS, Channel
from askance.client.randomizers.coins import COIN_BITS, COIN_SPACE, Coins, SystemCoins
from askance.client.randomizers.design import best_for, signed_for
from askance.client.randomizers.hadamard_sign import HadamardSign, hadamard_sign
from askance.client.randomizers.hypercube_response import (
    MAX_COMPONENTS,
    HypercubeResponse,
    hypercube_response,
)
from askance.client.randomizers.k_ary import MAX_CELLS, KaryResponse, k_ary_response
from askance.client.randomizers.linear_hashing import LinearHashing, linear_hashing
from askance.client.randomizers.loss import PrivacyLoss
from askance.client.randomizers.randomized_response import randomized_response
from askance.client.randomizers.randomizer import MISSING_BYTE, Randomizer
from askance.client.randomizers.rounding import round_to_levels
from askance.client.randomizers.signed_randomizer import SignedRandomizer, SignRates
from askance.client.randomizers.signed_subset_selection import (
    SignedSubsetSelection,
    signed_subset_selection,
)
from askance.client.randomizers.subset_selection import SubsetSelection, subset_selection

__all__ = [
    "COIN_BITS",
    "COIN_SPACE",
    "MAX_CELLS",
    "MAX_COMPONENTS",
    "MAX_LEVELS",
    "MAX_SYMBOLS",
    "MISSING_BYTE",
    "Channel",
    "Coins",
    "HadamardSign",
    "HypercubeResponse",
    "KaryResponse",
    "LinearHashing",
    "PrivacyLoss",
    "Randomizer",
    "SignRates",
    "SignedRandomizer",
    "SignedSubsetSelection",
    "SubsetSelection",
    "SystemCoins",
    "best_for",
    "hadamard_sign",
    "hypercube_response",
    "k_ary_response",
    "linear_hashing",
    "randomized_response",
    "round_to_levels",
    "signed_for",
    "signed_subset_selection",
    "subset_selection",
]
