"""The aggregator's mirror of what its users have spent on a study, for planning and for honesty.

The authority is each device's own ledger. The account is charged before a user is asked and never
credited: an answer that cost the device less (a frozen one) or never came stays charged here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.client.errors import InvalidParameter, PlanRefused


@dataclass(frozen=True, slots=True)
class Spending:
    """What a study has cost its users, in nano-nats: what devices say, over all users."""

    budget: int
    max_spent: int
    total_spent: int
    users_asked: int
    max_asked: int
    overspent: int  # devices that say they spent more than they were asked: to be looked into


class Accounts:
    """One study's account for each of `population` users, each with the same `budget_nano_nats`."""

    def __init__(self, population: int, budget_nano_nats: int) -> None:
        if population < 1:
            raise InvalidParameter(f"accounts: expected at least one user, found {population}")
        self._budget = budget_nano_nats
        self._asked = np.zeros(population, np.int64)
        self._confirmed = np.zeros(population, np.int64)
        self._spent = np.zeros(population, np.int64)
        # The same memory, for one user at a time.
        self._each_confirmed = self._confirmed.data
        self._each_spent = self._spent.data

    def left(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each of these users can still be asked for, in nano-nats."""
        remaining: NDArray[np.int64] = self._budget - self._asked[ordinals]
        return remaining

    def reserve(self, ordinals: NDArray[np.int64], nano_nats: int) -> None:
        """Charges each of these users, or none of them.

        Raises:
          PlanRefused: one of them has less than `nano_nats` left; nobody was charged.
        """
        if nano_nats < 0:
            raise InvalidParameter(f"accounts: expected a charge of 0 or more, found {nano_nats}")
        if len(ordinals) and int(self.left(ordinals).min()) < nano_nats:
            raise PlanRefused(
                f"accounts: expected {nano_nats} nano-nats left for each user asked,"
                f" found {int(self.left(ordinals).min())}"
            )
        self._asked[ordinals] += nano_nats

    def confirm(self, ordinal: int, charged: int, spent: int) -> None:
        """Enters what a device says: this answer's charge, and the study's total on its ledger."""
        self._each_confirmed[ordinal] += charged
        self._each_spent[ordinal] = max(self._each_spent[ordinal], spent)

    def confirm_all(
        self, ordinals: NDArray[np.int64], charged: int, spent: NDArray[np.int64]
    ) -> None:
        """Enters what many devices say at once: each was charged alike and has its own total."""
        self._confirmed[ordinals] += charged
        self._spent[ordinals] = np.maximum(self._spent[ordinals], spent)

    def reconciled(self) -> bool:
        """Whether every device's total is the sum of its charges, and within what was asked."""
        return bool(
            np.array_equal(self._confirmed, self._spent) and (self._spent <= self._asked).all()
        )

    def spending(self) -> Spending:
        """The account's totals."""
        return Spending(
            budget=self._budget,
            max_spent=int(self._spent.max()),
            total_spent=sum(self._spent.tolist()),  # as Python integers: devices may lie
            users_asked=int(np.count_nonzero(self._asked)),
            max_asked=int(self._asked.max()),
            overspent=int(np.count_nonzero(self._spent > self._asked)),
        )
