"""Real-valued answers put on a grid, so that whole numbers are what is randomised.

A float has gaps that depend on its size, so what is drawn and added as floats says more than it
should (Mironov, CCS 2012). Here an answer is a whole number of steps before anything is drawn. The
step is public.

Why the guarantee survives the rounding: `steps` is r(u) = floor(u + 1/2) of u = value / step. It is
monotone and r(u + 1) = r(u) + 1; so r(u + x) <= r(u + ceil(x)) = r(u) + ceil(x), and

    |r(u) - r(v)| <= ceil(|u - v|).                                                            (*)

If at most m entries change, by |u_i - v_i| that sum to at most D/step, their steps change by at
most sum_i ceil(|u_i - v_i|) < D/step + m, a whole number: by at most ceil(D/step) + m - 1 (L1). And
the vector of the ceilings is at most D2/step + sqrt(m) long (L2). Entries that lie on the grid
already change by whole numbers, so there the sensitivity is rounded *down* to a whole number.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text

_MAX_STEPS = 1 << 60
_ROOT_BITS = 32


def read_step(value: Rational) -> Fraction:
    """A grid's step, exactly."""
    step = rational(value, "step")
    if step <= 0:
        raise InvalidParameter(f"step: expected a number above 0, got {value_text(value)}")
    return step


def fine_step(sensitivity: Fraction, fineness: int = 1 << 16) -> Fraction:
    """The largest power of two that goes at least `fineness` times into a stated sensitivity."""
    if sensitivity <= 0:
        raise InvalidParameter(
            f"sensitivity: expected a number above 0, got {value_text(sensitivity)}"
        )
    wanted = sensitivity / fineness
    power = wanted.numerator.bit_length() - wanted.denominator.bit_length() + 1
    step = Fraction(2) ** power
    while step > wanted:
        step /= 2
    return step


def steps(values: ArrayLike, step: Fraction) -> NDArray[np.int64]:
    """The nearest whole number of steps to each value (halves go up), exactly.

    Args:
      values: any shape; integers, floats (each the binary fraction that it is), or Fractions.
      step: above 0. Floats are quick where it is a power of two.
    """
    found = np.asarray(values)
    if found.dtype.kind == "f" and _is_power_of_two(step):
        return _of_floats(found.astype(np.float64, copy=False), step)
    if found.dtype.kind in "bui" and step.numerator == 1:
        return _of_integers(found, step.denominator)
    if found.dtype.kind not in "buifO":
        raise InvalidRecord(f"answers: expected numbers, found {found.dtype}")
    exact = [_in_steps(value, step) for value in found.reshape(-1).tolist()]
    return np.array(exact, dtype=np.int64).reshape(found.shape)


def lies_on(values: ArrayLike, step: Fraction) -> bool:
    """Return whether every value is a whole number of steps."""
    found = np.asarray(values)
    if found.dtype.kind in "bui" and step.numerator == 1:
        return True
    flat = found.reshape(-1).tolist()
    whole = steps(values, step).reshape(-1).tolist()
    return all(Fraction(v) == k * step for v, k in zip(flat, whole, strict=True))


def l1_in_steps(sensitivity: Fraction, step: Fraction, rounded: int) -> int:
    """Bound the L1 distance, in steps, that one record moves an answer (proof above).

    `rounded` is how many entries one record may change that need rounding; 0: none does.
    """
    _check(sensitivity, rounded)
    ratio = sensitivity / step
    found = ratio.numerator // ratio.denominator
    if rounded:
        found = -(-ratio.numerator // ratio.denominator) + rounded - 1
    return _at_least_a_step(found)


def l2_squared_in_steps(squared: Fraction, step: Fraction, rounded: int) -> int:
    """Bound the squared L2 distance, in steps, that one record moves an answer (proof above)."""
    _check(squared, rounded)
    ratio = squared / step**2
    bound = ratio
    if rounded:
        bound = (_root_above(ratio) + _root_above(Fraction(rounded))) ** 2
    return _at_least_a_step(bound.numerator // bound.denominator)


def _check(sensitivity: Fraction, rounded: int) -> None:
    if sensitivity <= 0:
        raise InvalidParameter(
            f"sensitivity: expected a number above 0, got {value_text(sensitivity)}"
        )
    if isinstance(rounded, bool) or not isinstance(rounded, int) or rounded < 0:
        raise InvalidParameter(
            f"rounded: expected a whole number of 0 or more, got {value_text(rounded)}"
        )


def _at_least_a_step(found: int) -> int:
    if found < 1:
        raise InvalidParameter("step: expected one that is at most the sensitivity, found a larger")
    return found


def _root_above(value: Fraction) -> Fraction:
    """A little above the square root."""
    scaled = -(-(value.numerator << 2 * _ROOT_BITS) // value.denominator)
    return Fraction(isqrt(scaled - 1) + 1 if scaled else 0, 1 << _ROOT_BITS)


def _is_power_of_two(step: Fraction) -> bool:
    n, d = step.numerator, step.denominator
    return n & (n - 1) == 0 and d & (d - 1) == 0 and 2**-500 <= step <= 2**500


def _of_floats(found: NDArray[np.float64], step: Fraction) -> NDArray[np.int64]:
    """Round floats to whole steps exactly."""
    # No operation rounds: a product with a power of two, a floor, and a difference u - floor(u)
    # that is compared with 1/2 (it rounds only for u in (-1/2, 0), where it is above 1/2).
    with np.errstate(all="ignore"):
        scaled = found / float(step)
    if not (np.abs(scaled) < _MAX_STEPS).all():  # NaN is not less either
        raise InvalidRecord("answers: expected finite numbers below 2^60 steps, found another")
    floor = np.floor(scaled)
    return floor.astype(np.int64) + (scaled - floor >= 0.5)


def _of_integers(found: NDArray[Any], steps_a_unit: int) -> NDArray[np.int64]:
    most = _MAX_STEPS // steps_a_unit
    if found.size and not (-most < int(found.min()) and int(found.max()) < most):
        raise InvalidRecord("answers: expected finite numbers below 2^60 steps, found another")
    return found.astype(np.int64) * steps_a_unit


def _in_steps(value: object, step: Fraction) -> int:
    if not isinstance(value, int | float | Fraction) or not isfinite(value):
        raise InvalidRecord("answers: expected finite numbers, found something else")
    ratio = Fraction(value) / step
    found = (2 * ratio.numerator + ratio.denominator) // (2 * ratio.denominator)
    if abs(found) >= _MAX_STEPS:
        raise InvalidRecord("answers: expected finite numbers below 2^60 steps, found another")
    return found
