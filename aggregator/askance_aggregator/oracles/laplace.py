"""Laplace noise on whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Pure
from askance_aggregator.numbers import Rational, read_probability
from askance_aggregator.sampling import MAX_SCALE, Words, discrete_laplace
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

_DIGITS = 60
_LEAST_TAIL = Fraction(1, 10**25)  # so that 1 - confidence^(1 / answers) keeps its digits


@dataclass(frozen=True, slots=True)
class Laplace:
    """Adds to each entry an independent k with probability proportional to e^(-|k| / scale).

    Privacy: pure epsilon-DP. P[k + a] / P[k + b] = e^((|k + b| - |k + a|) / scale), so over all
    entries the ratio is at most e^(L1 / scale) = e^epsilon; it is attained.
    Utility: unbiased; variance 2 q / (1 - q)^2 with q = e^(-1 / scale), about 2 scale^2.

    Args:
      epsilon: nats, above 0.
      sensitivity: how far the answer's steps move at most in L1, 1 or more.

    Raises:
      InvalidParameter: the scale would be above 2^48 steps: a coarser step is needed.

    Source: Dwork, McSherry, Nissim, Smith (TCC 2006); on integers Ghosh, Roughgarden, Sundararajan
    (STOC 2009).
    """

    epsilon: Fraction
    sensitivity: int

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or self.sensitivity < 1:
            raise InvalidParameter("Laplace: expected epsilon above 0 and sensitivity of 1 or more")
        if self.scale > MAX_SCALE:
            raise InvalidParameter(
                f"step: expected one for which the scale is at most 2^48 steps,"
                f" found 2^{int(self.scale).bit_length() - 1} or more: take a coarser step"
            )

    @property
    def scale(self) -> Fraction:
        """In steps."""
        return self.sensitivity / self.epsilon

    @property
    def event(self) -> Pure:
        """Cost of one release."""
        return Pure(self.epsilon)

    def draws(self, words: Words, count: int) -> NDArray[np.int64]:
        """`count` independent draws, exact."""
        return discrete_laplace(words, self.scale, count)

    def half_width(self, confidence: Rational, answers: int = 1) -> int:
        """The least t for which P[no |k| of `answers` draws > t] >= confidence."""
        # P[|k| > t] = 2 q^(t+1) / (1 + q) for q = e^(-1 / scale), to be at most
        # 1 - confidence^(1 / answers). Computed to 60 digits, the last ones rounded so that t is
        # never too small.
        wanted = read_probability(confidence, "confidence")
        check_answers(answers)
        if 1 - wanted < _LEAST_TAIL:
            raise InvalidParameter("confidence: expected one further below 1, found one too close")
        with localcontext(prec=_DIGITS):
            each = (_decimal(wanted).ln() / answers).exp()
            scale = _decimal(self.scale)
            q = (-1 / scale).exp()
            needed = scale * (2 / ((1 + q) * (1 - each))).ln() - 1
            outward = needed + Decimal(10) ** -20
            return max(int(outward.to_integral_value(rounding=ROUND_CEILING)), 0)


def check_answers(answers: int) -> None:
    """Refuse a number of answers that is no whole number of 1 or more."""
    if isinstance(answers, bool) or not isinstance(answers, int) or answers < 1:
        raise InvalidParameter(
            f"answers: expected a whole number of 1 or more, got {value_text(answers)}"
        )


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
