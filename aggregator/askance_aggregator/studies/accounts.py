"""The aggregator's mirror of its users' spending on a study.

The authority is each device's own ledger. The account is charged before a user is asked and never
credited: an answer that cost the device less (a frozen one) or never came stays charged here.

A study asks a cohort's users for the same, and no user is in two cohorts; so the charge is kept
once a cohort. What devices say is kept a user only of cohorts whose devices report one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from askance_aggregator.studies.cohorts import Cohort
from askance_aggregator.studies.tallies import Where
from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost of a study to its users, in nano-nats: what devices report, over all users."""

    budget: int
    max_spent: int
    total_spent: int
    users_asked: int
    max_asked: int
    overspent: int  # devices that say they spent more than they were asked: to be looked into


class CohortAccount:
    """The account of each of a cohort's `size` users; `asked` is what each was asked for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked = 0
        self._alike: Counter[tuple[int, int]] = Counter()
        self._confirmed = self._spent = np.zeros(0, np.int64)  # a user, once devices report each

    def confirm(self, where: Where, charged: int, spent: int) -> None:
        """Enter what devices say: their answer's charge, and the study's total on their ledgers.

        `where` has the users' positions among the cohort's members; charges are in nano-nats.
        """
        if not len(self._spent):
            self._confirmed, self._spent = (np.zeros(self.size, np.int64) for _ in range(2))
        self._confirmed[where] += charged
        if not isinstance(where, int):
            self._spent[where] = np.maximum(self._spent[where], spent)
        elif spent > self._spent[where]:  # numpy's maximum of two numbers takes ten times as long
            self._spent[where] = spent

    def confirm_alike(self, users: int, charged: int, spent: int) -> None:
        """Enter equal reports of at most `size` devices in all, each for the first time."""
        heard = self._alike.total() + users
        if heard > self.size:
            raise InvalidParameter(
                f"accounts: expected each of {self.size} users to be heard once, found {heard}"
            )
        self._alike[charged, spent] += users

    def reported(self) -> Iterator[tuple[int, int, int]]:
        """Yield the devices' reported spending: sum of charges, total, and number of devices."""
        for (charged, spent), users in self._alike.items():
            yield charged, spent, users
        if len(self._spent):
            pairs = Counter(zip(self._confirmed.tolist(), self._spent.tolist(), strict=True))
            for (charged, spent), users in sorted(pairs.items()):
                yield charged, spent, users


class Accounts:
    """Account of one study for `population` users, each with the same `budget_nano_nats`."""

    def __init__(self, population: int, budget_nano_nats: int) -> None:
        if population < 1:
            raise InvalidParameter(f"accounts: expected at least one user, found {population}")
        self._budget = budget_nano_nats
        self._population = population
        self._ranges: list[tuple[int, int]] = []  # sorted, disjoint
        self._cohorts: dict[tuple[int, int], CohortAccount] = {}

    def of(self, cohort: Cohort) -> CohortAccount:
        """The account of a cohort's users.

        Raises:
          InvalidParameter: some of them, but not all, are in another cohort of the study, or it is
            a cohort of more users than there are.
        """
        range_ = (cohort.start, cohort.stop)
        known = self._cohorts.get(range_)
        if known is None:
            known = CohortAccount(cohort.size)
            if cohort.size:
                self._insert_range(range_)
                self._cohorts[range_] = known
        return known

    def left(self, cohort: Cohort) -> int:
        """Return the budget left to each of a cohort's users, in nano-nats."""
        return self._budget - self.of(cohort).asked

    def reserve(self, cohort: Cohort, nano_nats: int) -> None:
        """Charge each of a cohort's users, or none of them.

        Raises:
          InvalidParameter: they have less than `nano_nats` left; this call charged no user.
        """
        if nano_nats < 0:
            raise InvalidParameter(f"accounts: expected a charge of 0 or more, found {nano_nats}")
        if cohort.size and self.left(cohort) < nano_nats:
            raise InvalidParameter(
                f"accounts: expected {nano_nats} nano-nats left for each user asked,"
                f" found {self.left(cohort)}"
            )
        self.of(cohort).asked += nano_nats

    def reconciled(self) -> bool:
        """Return whether each device's total is the sum of its charges, within what was asked."""
        return all(
            charged == spent <= account.asked
            for account in self._cohorts.values()
            for charged, spent, _ in account.reported()
        )

    def spending(self) -> Spending:
        """The account's totals."""
        accounts = self._cohorts.values()
        said = [
            (spent, users, spent > account.asked)
            for account in accounts
            for _, spent, users in account.reported()
        ]
        return Spending(
            budget=self._budget,
            max_spent=max((spent for spent, _, _ in said), default=0),
            total_spent=sum(spent * users for spent, users, _ in said),
            users_asked=sum(account.size for account in accounts if account.asked),
            max_asked=max((account.asked for account in accounts), default=0),
            overspent=sum(users for _, users, over in said if over),
        )

    def _insert_range(self, range_: tuple[int, int]) -> None:
        start, stop = range_
        place = bisect_left(self._ranges, range_)
        beside = self._ranges[max(place - 1, 0) : place + 1]
        for other in beside:
            if other[0] < stop and start < other[1]:
                raise InvalidParameter(
                    "accounts: expected a study's cohorts to be equal or disjoint,"
                    f" found {start}..{stop} and {other[0]}..{other[1]}"
                )
        if stop > self._population:
            raise InvalidParameter(
                f"accounts: expected cohorts of {self._population} users, found {start}..{stop}"
            )
        self._ranges.insert(place, range_)
