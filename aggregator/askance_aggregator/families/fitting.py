"""Searching for the integer that spends a budget best."""

from __future__ import annotations

from collections.abc import Callable

from askance_aggregator.bisection import least_whole
from askance_client.accounting import check_nano_nats, format_nats
from askance_client.errors import InvalidParameter
from askance_client.randomizers.loss import PrivacyLoss


def greatest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The greatest integer of low..high that holds, where holding stops once and for good."""
    if low > high or not holds(low):
        return None
    return least_whole(lambda number: not holds(number), low, high + 1) - 1


def least(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The least integer of low..high that holds, where holding starts once and for good."""
    found = greatest(-high, -low, lambda negated: holds(-negated))
    return None if found is None else -found


def check_positive(nano: int) -> None:
    """Refuse an epsilon that is not a positive number of nano-nats."""
    if check_nano_nats(nano) == 0:
        raise InvalidParameter("epsilon: expected a positive number of nano-nats, got 0")


def check_expressible(loss: PrivacyLoss, nano: int, extreme: bool) -> None:
    """Refuse an epsilon that is greater than what the family's most extreme member spends.

    Past it lies only certainty, which no integer of a table may become.
    """
    if extreme and loss.nano_nats < nano:
        raise InvalidParameter(
            f"64-bit coins express an epsilon of at most {format_nats(loss.nano_nats)} nats here, "
            f"found {format_nats(nano)}"
        )
