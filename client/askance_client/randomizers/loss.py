"""A privacy loss as the exact ratio that it is the logarithm of."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from askance_client.accounting import charge, ratio_within
from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """max_y max_x T[x, y] / min_x T[x, y], exact or bounded from above, in lowest terms.

    Privacy: the randomizer is pure (epsilon, 0)-LDP, replace-one, with epsilon the logarithm of
    numerator / denominator. That bound holds also for tables that are chosen adaptively: pure
    epsilons add up.
    Source: KLNRS08 Definition 4.3.
    """

    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        if self.denominator <= 0:
            raise InvalidParameter("privacy loss is infinite: a ratio over zero")
        if self.numerator < self.denominator:
            raise InvalidParameter("a privacy loss is a ratio of at least 1, found less")
        common = gcd(self.numerator, self.denominator)
        object.__setattr__(self, "numerator", self.numerator // common)
        object.__setattr__(self, "denominator", self.denominator // common)

    @property
    def nano_nats(self) -> int:
        """Charge for the loss: the least N with numerator <= e^(N / 10^9) denominator."""
        return charge(self.numerator, self.denominator)

    def fits(self, nano: int) -> bool:
        """Return whether the loss is at most `nano` nano-nats, exactly."""
        return ratio_within(self.numerator, self.denominator, nano)

    def exceeds(self, other: PrivacyLoss) -> bool:
        """Return whether this loss is strictly greater than the other."""
        return self.numerator * other.denominator > other.numerator * self.denominator
