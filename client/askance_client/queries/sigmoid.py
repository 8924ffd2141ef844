"""The logistic function as a stated table of integers: no libm, so every machine agrees.

`sigmoid(x)` is the entry of the nearest lower multiple of 1/256: x is clamped to [-8, 8] and the
entry floor(256 x) is round(2^16 / (1 + e^-t)), t = floor(256 x)/256. The function's slope is at
most 1/4, so the answer is within 2^-10 + 2^-17 of the exact one inside [-8, 8], and within
2^-11 outside.
"""

from __future__ import annotations

from functools import cache

SIGMOID_FRAC = 16
_STEP_BITS = 8  # table points a unit: 2^8
_REACH = 8 << _STEP_BITS  # the last index on either side of 0
_WORKING_BITS = 192  # far more than the closest call among the 4097 roundings needs


@cache
def sigmoid_table() -> tuple[int, ...]:
    """4097 entries over 2^16, for t = -8, -8 + 1/256, ..., 8."""
    one = 1 << _WORKING_BITS
    term, ratio, order = one, 0, 0  # e^(-1/256) by its series
    while term:
        ratio += term if order % 2 == 0 else -term
        order += 1
        term //= order << _STEP_BITS
    power = one  # e^(-j/256)
    upper = []
    for _ in range(_REACH + 1):
        doubled = (one << (SIGMOID_FRAC + 1)) // (one + power)
        upper.append((doubled + 1) >> 1)
        power = power * ratio >> _WORKING_BITS
    lower = [(1 << SIGMOID_FRAC) - entry for entry in upper[:0:-1]]  # 1 - sigmoid(t)
    return (*lower, *upper)


def sigmoid_index(value: int, frac: int) -> int:
    """The table index of the value over 2^frac."""
    shift = frac - _STEP_BITS
    point = value >> shift if shift >= 0 else value << -shift
    return min(max(point, -_REACH), _REACH) + _REACH
