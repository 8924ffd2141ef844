"""Integers on both sides of e^x, for rational x >= 0."""

from __future__ import annotations

from functools import lru_cache

from askance_client.accounting.nano_nats import NANO_NATS_PER_NAT, check_nano_nats
from askance_client.errors import InvalidParameter


@lru_cache(maxsize=1024)
def exp_bounds(nano: int, bits: int) -> tuple[int, int]:
    """Bound e^(nano / 10^9) * 2^bits from below and from above.

    The argument is halved until it is at most 1/16, its exponential summed as a Taylor series
    and then squared back. All of it is done twice, once with every rounding downward and once with
    every rounding upward, in enough extra bits that the two ends differ by one or two units.
    The numbers have about 1.5 bits a nat more than `bits`: microseconds for what coins can express,
    a minute for 10^6 nats (`ratio_within` decides those without).

    Args:
        nano: >= 0, nano-nats.
        bits: >= 0, binary places of the result.

    Returns:
        (low, high), integers with low <= e^(nano / 10^9) * 2^bits <= high; equal iff nano is 0.

    Raises:
        InvalidParameter: nano is not a budget or bits is negative.
    """
    check_nano_nats(nano)
    if bits < 0:
        raise InvalidParameter(f"a precision has 0 or more bits, found {bits}")
    if nano == 0:
        return 1 << bits, 1 << bits
    nats = nano // NANO_NATS_PER_NAT + 1
    # x < 2^bit_length(nats), so halving this often leaves at most 2^-4.
    halvings = nats.bit_length() + 4
    # e^x < 2^(3x/2). A squaring doubles the relative error and adds one unit: `halvings` bits.
    guard = nats + nats // 2 + halvings + 16
    places = bits + guard
    low, high = taylor_bounds(nano, NANO_NATS_PER_NAT << halvings, places)
    for _ in range(halvings):
        low = (low * low) >> places
        high = -((-high * high) >> places)
    return low >> guard, -(-high >> guard)


def taylor_bounds(numerator: int, denominator: int, places: int) -> tuple[int, int]:
    """Bound e^(numerator/denominator) * 2^places, the argument at most 1/16, by Taylor."""
    low = high = low_term = high_term = 1 << places
    order = 0
    # Once the upper term is one unit, the terms after it sum to less than it: their ratio is
    # below 1/16.
    while high_term > 1:
        order += 1
        divisor = denominator * order
        low_term = low_term * numerator // divisor
        high_term = -(-high_term * numerator // divisor)
        low += low_term
        high += high_term
    return low, high + 1
