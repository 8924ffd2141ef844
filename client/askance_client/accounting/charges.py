"""The price of a likelihood ratio, in nano-nats, decided exactly."""

from __future__ import annotations

from functools import lru_cache

from askance_client.accounting.exponential import exp_bounds
from askance_client.accounting.nano_nats import NANO_NATS_PER_NAT, check_nano_nats
from askance_client.errors import InvalidParameter

_STEP_BITS = 64


def ratio_within(numerator: int, denominator: int, nano: int) -> bool:
    """Decide numerator <= e^(nano / 10^9) * denominator, exactly.

    The precision is raised until the bounds of e^x no longer straddle the ratio. That ends: e^x is
    irrational for every rational x other than 0 (Lindemann), and x = 0 compares two integers.

    Args:
        numerator: >= 0.
        denominator: > 0.
        nano: >= 0, nano-nats.

    Raises:
        InvalidParameter: the loss is infinite (denominator 0), a part is negative, or nano is not
            a budget.
    """
    _check_ratio(numerator, denominator)
    check_nano_nats(nano)
    if numerator <= denominator:
        return True
    if nano == 0:
        return False
    # e^x > 2^x: a generous budget is decided without computing an exponential of its size.
    if numerator <= denominator << (nano // NANO_NATS_PER_NAT):
        return True
    # A multiple of the step, so that one search over ratios asks for one cached pair of bounds.
    bits = (numerator.bit_length() // _STEP_BITS + 2) * _STEP_BITS
    while True:
        low, high = exp_bounds(nano, bits)
        scaled = numerator << bits
        if scaled <= low * denominator:
            return True
        if scaled > high * denominator:
            return False
        bits *= 2


@lru_cache(maxsize=4096)
def charge(numerator: int, denominator: int) -> int:
    """The least N >= 0, in nano-nats, with numerator <= e^(N / 10^9) * denominator.

    Privacy: an upper bound of the loss ln(numerator / denominator), by less than one nano-nat.

    Args:
        numerator: >= 0.
        denominator: > 0.

    Raises:
        InvalidParameter: the loss is infinite (denominator 0), or a part is negative.
    """
    _check_ratio(numerator, denominator)
    if numerator <= denominator:
        return 0
    # numerator/denominator < 2^octaves <= e^octaves; 0 does not fit and `high` does.
    octaves = numerator.bit_length() - denominator.bit_length() + 1
    low, high = 0, octaves * NANO_NATS_PER_NAT
    while high - low > 1:
        middle = (low + high) // 2
        if ratio_within(numerator, denominator, middle):
            high = middle
        else:
            low = middle
    return high


def _check_ratio(numerator: int, denominator: int) -> None:
    if numerator < 0 or denominator < 0:
        raise InvalidParameter("a likelihood ratio has parts of 0 or more, found a negative one")
    if denominator == 0:
        raise InvalidParameter("privacy loss is infinite: a likelihood ratio over zero")
