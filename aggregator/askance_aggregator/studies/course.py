"""Course of a repeated study: its users and its cost over all epochs, before any is asked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from askance_aggregator.composition import ACCOUNTANTS, EventCounts, Pure
from askance_aggregator.planning import StudyPlan
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class OwnerBudgets:
    """Budgets of a device's owner, in nano-nats; None: no limit.

    Args:
      life: of all studies, ever.
      study: of one study, all epochs together.
      window: of the last `window_days` days, 1 or more.
    """

    life: int | None = None
    study: int | None = None
    window: int | None = None
    window_days: int = 30


@dataclass(frozen=True, slots=True)
class Course:
    """Plan of a study that collects again, epoch by epoch.

    Privacy: each epoch's answers are fresh and charged in full, so that the losses of a user who is
      asked in several epochs add: pure epsilon-LDP by their sum. With a delta the least composition
      of the project's accountants is stated beside it, for results only: devices sum.

    Args:
      plan: of one epoch; every epoch is planned alike.
      every_days: days of an epoch.
      epochs: their number.
      owner: budgets of the owners, of whom nothing else is asked.
      delta: above 0 and below 1; None: pure composition only.

    Raises:
      InvalidParameter: fewer than 1 epoch or day, or a delta out of range.
    """

    plan: StudyPlan
    every_days: int
    epochs: int
    owner: OwnerBudgets = OwnerBudgets()
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        for name, value in (("every", self.every_days), ("epochs", self.epochs)):
            if value < 1:
                raise InvalidParameter(f"{name}: expected 1 or more, got {value}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidParameter(f"delta: expected a number between 0 and 1, got {self.delta}")

    @property
    def nano_nats(self) -> int:
        """Most nano-nats that a user who is asked spends in one epoch."""
        return max((planned.nano_nats for planned in self.plan.rounds), default=0)

    @property
    def answered(self) -> tuple[int, ...]:
        """Numbers of the epochs, from 0, that the owner's budgets leave to a user of all of them.

        The user answers at the same time of every epoch.
        """
        found: list[int] = []
        for epoch in range(self.epochs):
            if self.refused_by(epoch, found) is None:
                found.append(epoch)
        return tuple(found)

    def refused_by(self, epoch: int, answered: list[int]) -> str | None:
        """Return the budget that an epoch would pass after these; None: none of them."""
        owner, cost = self.owner, self.nano_nats
        spent = cost * (len(answered) + 1)
        if owner.life is not None and spent > owner.life:
            return "life"
        recent = [one for one in answered if (epoch - one) * self.every_days < owner.window_days]
        if owner.window is not None and cost * (len(recent) + 1) > owner.window:
            return "window"
        return "study" if owner.study is not None and spent > owner.study else None

    @property
    def first_refused(self) -> dict[str, int]:
        """The first epoch, from 0, that each budget of the owner refuses; without the others."""
        found: dict[str, int] = {}
        answered: list[int] = []
        for epoch in range(self.epochs):
            budget = self.refused_by(epoch, answered)
            if budget is None:
                answered.append(epoch)
            else:
                found.setdefault(budget, epoch)
        return found

    def total(self, epochs: int) -> float:
        """Return the nats that a user of so many epochs spends, as devices sum them."""
        return epochs * self.nano_nats / NANO_NATS_PER_NAT

    def composed(self, epochs: int) -> float:
        """Return the least epsilon of `epochs` fresh answers at the course's delta, in nats.

        One accountant is chosen for the numbers alone, before any answer: the least of them holds.
        """
        if self.delta is None or not epochs or not self.nano_nats:
            return self.total(epochs)
        event = Pure(Fraction(self.nano_nats, NANO_NATS_PER_NAT))
        totals, delta = EventCounts({event: epochs}), self.delta
        return min(
            accountant.epsilon(totals, delta)
            for accountant in ACCOUNTANTS.values()
            if accountant.counts(event)
        )

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        answered, users = len(self.answered), self.plan.n_users
        return {
            "every_days": self.every_days,
            "epochs": self.epochs,
            "days": self.every_days * self.epochs,
            "epsilon_per_epoch": self.total(1),
            "users_per_epoch": self.plan.users_needed,
            "epochs_per_user": (
                None if not users else self.epochs * min(self.plan.users_needed / users, 1.0)
            ),
            "epochs_answered": answered,
            "first_refused": {name: epoch + 1 for name, epoch in self.first_refused.items()},
            "epsilon_total": self.total(answered),
            "delta": None if self.delta is None else float(self.delta),
            "epsilon_at_delta": None if self.delta is None else self.composed(answered),
        }
