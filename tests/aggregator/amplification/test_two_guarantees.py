"""Counterexamples of docs/math/two_guarantees.md, by exact enumeration of one-bit batches."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from numpy.typing import NDArray

Law = NDArray[np.float64]
E = exp(1.0)
KEEP = E / (1 + E)
ONES = 39  # others with a one, of 39: the worst of all 40 numbers


def sum_of(shares: list[float]) -> Law:
    """Law of the number of ones of independent reports."""
    law = np.ones(1)
    for share in shares:
        law = np.convolve(law, [1 - share, share])
    return law


def laws(answers: int, ones: int) -> tuple[Law, Law]:
    """Tally of a batch at both records of its target; `ones` others have a one."""
    others = sum_of([KEEP] * ones + [1 - KEEP] * (answers - 1 - ones))
    return np.convolve(others, [KEEP, 1 - KEEP]), np.convolve(others, [1 - KEEP, KEEP])


def excess(answers: int, ones: int, epsilon: float) -> tuple[Law, Law]:
    """Mass beyond e^epsilon at each tally, in both directions."""
    p, q = laws(answers, ones)
    return np.maximum(p - exp(epsilon) * q, 0), np.maximum(q - exp(epsilon) * p, 0)


def delta(answers: int, epsilon: float) -> float:
    return max(float(one.sum()) for k in range(answers) for one in excess(answers, k, epsilon))


def epsilon_at(answers: int, wanted: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if delta(answers, middle) <= wanted else (middle, high)
    return high


def chosen(answers: int, ones: int, zeros: int, epsilon: float, stop: float | None = None) -> float:
    """Mass if the set with the target is chosen by the tally of all; it may also stop there."""
    worst = 0.0
    for side in (0, 1):
        options = []
        if stop is not None:
            options.append(excess(ones + zeros + 1, ones, stop)[side])
        for inside in range(max(0, answers - 1 - zeros), min(ones, answers - 1) + 1):
            rest = [KEEP] * (ones - inside) + [1 - KEEP] * (zeros - (answers - 1 - inside))
            options.append(np.convolve(excess(answers, inside, epsilon)[side], sum_of(rest)))
        worst = max(worst, float(np.max(options, axis=0).sum()))
    return worst


def test_a_set_chosen_after_a_look_exceeds_the_delta_of_each_fixed_one() -> None:
    epsilon = epsilon_at(5, 0.1)
    assert epsilon == pytest.approx(0.34820, abs=1e-5)
    assert chosen(5, 5, 5, epsilon) == pytest.approx(0.10504, abs=1e-5)


def test_the_choices_of_the_first_tally_cover_what_it_may_lead_to() -> None:
    """11 users have a tally of 12 values: each set of five is given a twelfth of delta."""
    assert chosen(5, 5, 5, epsilon_at(5, 0.1 / 12)) <= 0.1


def test_stopping_or_dividing_by_the_first_tally_adds_up() -> None:
    stop, divide = epsilon_at(40, 0.001), epsilon_at(20, 0.001)
    assert chosen(20, ONES, 39 - ONES, divide, stop) == pytest.approx(0.00168, abs=1e-5)
    each = 0.001 / 41  # a tally of 40 users has 41 values
    covered = chosen(20, ONES, 39 - ONES, epsilon_at(20, each), epsilon_at(40, each))
    assert covered <= 0.001


@pytest.mark.parametrize(
    ("answers", "epsilon"), [(10, 1.0000), (100, 0.4837), (300, 0.2510), (1000, 0.1266)]
)
def test_what_a_batch_of_bits_hides(answers: int, epsilon: float) -> None:
    def tail(at: float) -> float:  # the worst is all alike here, as the full enumeration shows
        kinds = (0, answers - 1)
        return max(float(one.sum()) for k in kinds for one in excess(answers, k, at))

    assert tail(epsilon - 1e-4) > 1e-6
    assert tail(epsilon + 1e-4) <= 1e-6
