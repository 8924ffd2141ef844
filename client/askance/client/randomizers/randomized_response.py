"""Warner's randomized response: one bit, told truly with the greatest chance that fits."""

from __future__ import annotations

from askance.client.accounting import ratio_within
from askance.client.errors import InvalidParameter
from askance.client.randomizers.channel import Channel
from askance.client.randomizers.coins import COIN_SPACE
from askance.client.randomizers.fitting import check_expressible, check_positive, greatest


def randomized_response(nano: int) -> Channel:
    """The 2 x 2 table that keeps a bit with probability P / 2^64 and flips it otherwise.

    Privacy: pure eps-LDP, replace-one; P is the greatest integer with
    P <= e^(nano / 10^9) (2^64 - P), so the ratio P / (2^64 - P) is attained by both symbols. A flip
    always has a chance: P < 2^64.
    Utility: for a predicate (Warner), optimal at every eps; the estimated share has
    n x conditional variance e^eps / (e^eps - 1)^2. For a bounded real (Duchi's one bit), the value
    is first rounded at random onto the two ends of its range (`round_to_levels` with 2 levels, a
    coin of its own) and the bit then told; with C = (e^eps + 1) / (e^eps - 1) the decode values are
    `covering((-1, 1))` = (-C, C), which are unbiased exactly, and the second moment is C^2 whatever
    the value: the least that any randomizer has for its worst value.

    Args:
        nano: > 0, nano-nats; at most ln(2^64 - 1), about 44.36 nats.

    Raises:
        InvalidParameter: nano is zero, or greater than 64-bit coins can express.

    Source: Warner 1965; Duchi, Jordan and Wainwright 2018; Kairouz, Oh and Viswanath 2016.
    """
    check_positive(nano)
    half = COIN_SPACE // 2
    truth = greatest(half, COIN_SPACE - 1, lambda kept: ratio_within(kept, COIN_SPACE - kept, nano))
    if truth is None:  # half of the coins over the other half is a ratio of 1
        raise InvalidParameter("no randomized response fits this epsilon")
    lie = COIN_SPACE - truth
    channel = Channel(((truth, lie), (lie, truth)))
    check_expressible(channel.loss, nano, lie == 1)
    return channel
