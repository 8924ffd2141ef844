"""Risk of an epsilon in words: how sure a reader of reports may become of a user's value.

Under pure epsilon-LDP the odds of any two values change by a factor of at most e^epsilon, whatever
is reported: of two values that were equally likely the true one has probability at most
e^epsilon / (1 + e^epsilon). Over several studies it is so with the sum of their epsilons.
"""

from __future__ import annotations

from fractions import Fraction

from askance_client.accounting import NANO_NATS_PER_NAT, exp_bounds, format_nats
from askance_client.printable import fixed

LITTLE_NANO_NATS = 8 * NANO_NATS_PER_NAT
"""Most that protects: above it a reader is 99.97 % sure of one of two values or more."""

_CERTAIN_NANO_NATS = 20 * NANO_NATS_PER_NAT  # above it the complement is below 10^-8
_BITS = 64  # binary places of e^epsilon


def sure(nano_nats: int) -> str:
    """Return e^epsilon / (1 + e^epsilon) as a percentage: 73 % at 1 nat, 99.97 % at 8.

    It is rounded to the first decimal at which it is neither 50 nor 100 %.
    """
    if nano_nats > _CERTAIN_NANO_NATS:
        return "100 %"
    _, ratio = exp_bounds(nano_nats, _BITS)
    chance, decimals = Fraction(100 * ratio, ratio + (1 << _BITS)), 0
    while nano_nats and not 50 < Fraction(fixed(chance, decimals)) < 100:
        decimals += 1
    return f"{fixed(chance, decimals)} %"


def risk(nano_nats: int) -> str:
    """Return the risk of an epsilon in a few words."""
    return (
        f"of two equally likely values a reader is at most {sure(nano_nats)} sure of the true one"
    )


def cost(nano_nats: int) -> str:
    """Return an epsilon with its risk, and above 8 nats that it protects little."""
    little = "" if nano_nats <= LITTLE_NANO_NATS else ", which protects little"
    return f"{format_nats(nano_nats)} nats: {risk(nano_nats)}{little}"
