"""Certified ends of epsilon and delta of a shuffled batch of any registered randomizer."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter

from askance_aggregator.amplification.ends import Curve, Ends
from askance_aggregator.composition.rounding import upward
from askance_aggregator.numbers import at_least_one
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer


def epsilon_ends(randomizer: Randomizer, answers: int, delta: Fraction) -> Ends:
    """Bound the epsilon that a shuffled batch satisfies at `delta`, replace-one.

    Args:
        randomizer: of a registered family.
        answers: honest reports of the batch, the target's included, >= 1.
        delta: in (0, 1).

    Returns:
        Ends of the least epsilon; the upper one is at most the local epsilon, rounded upward.

    Raises:
        InvalidParameter: answers or delta is out of range.
    """
    _check(answers)
    if not 0 < delta < 1:
        raise InvalidParameter(f"delta: expected a number between 0 and 1, got {delta}")
    return Ends(0.0, _local(randomizer))


def delta_ends(randomizer: Randomizer, answers: int, epsilon: Fraction) -> Ends:
    """Bound the delta that a shuffled batch satisfies at `epsilon` >= 0, replace-one.

    Raises:
        InvalidParameter: answers or epsilon is out of range.
    """
    _check(answers)
    if epsilon < 0:
        raise InvalidParameter(f"epsilon: expected 0 or more, got {epsilon}")
    local = _local(randomizer)
    if epsilon >= local:
        return Ends(0.0, 0.0)
    return Ends(0.0, _bounded(local, epsilon))


def curve(randomizer: Randomizer, answers: int) -> Curve:
    """Compute upper ends of delta of a shuffled batch on a grid from 0 to the local epsilon."""
    _check(answers)
    local = _local(randomizer)
    grid = [local * at / 64 for at in range(64)] + [local]
    return Curve(
        tuple(grid), tuple(delta_ends(randomizer, answers, Fraction(at)).upper for at in grid)
    )


def _check(answers: int) -> None:
    try:
        at_least_one(answers)
    except InvalidParameter as error:
        raise InvalidParameter(f"answers: {error}") from None


def _local(randomizer: Randomizer) -> float:
    """The local epsilon, rounded upward."""
    return upward(Fraction(randomizer.loss.nano_nats, NANO_NATS_PER_NAT))


def _bounded(local: float, epsilon: Fraction) -> float:
    """The delta at epsilon of a release of which the local epsilon alone is known.

    (e^local - e^epsilon) / (e^local + 1), attained by randomized response; at most local - epsilon
    times the derivative, which is below 1.
    """
    return min(1.0, nextafter(float(Fraction(local) - epsilon), inf))
