"""Which randomizer to use for a histogram."""

from __future__ import annotations

from functools import lru_cache

from askance.client.randomizers.k_ary import k_ary_response
from askance.client.randomizers.randomized_response import randomized_response
from askance.client.randomizers.randomizer import Randomizer
from askance.client.randomizers.subset_selection import subset_selection


@lru_cache(maxsize=256)
def best_for(levels: int, nano: int) -> Randomizer:
    """The randomizer with the least variance for the shares of `levels` cells.

    Two levels get randomized response. More get k-ary response or subset selection, whichever has
    the lesser conditional variance averaged over cells; a tie goes to k-ary response, whose reports
    are smaller. A set of one cell is a k-ary response but for the rounding of its integers.

    Args:
        levels: 2..65535.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: levels or nano is out of range, or 64-bit coins cannot express nano.
    """
    if levels == 2:
        return randomized_response(nano)
    response = k_ary_response(levels, nano)
    subset = subset_selection(levels, nano)
    if subset.size == 1 or response.frequency_variance() <= subset.frequency_variance():
        return response
    return subset
