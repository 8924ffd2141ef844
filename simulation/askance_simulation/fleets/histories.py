"""Histories: a user's answers, charges and refusals as a function of its requests, by replay.

Users who were asked the same in the same order do the same, but for what their records and coins
decide: which symbol they send. So the fleet keeps the questions of each cohort, and nothing per
  user.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from askance_aggregator.studies import Cohort
from askance_client.device import RefusalCounts
from askance_client.ledger import MAX_ANSWERS, Limits
from askance_client.messages import Reason
from askance_client.queries import Query
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Request to a cohort, with all that every device of the fleet derives from examining it.

    Args:
      cohort: the users who were asked.
      study: the study's digest.
      round: the round's number.
      request: the request's digest.
      query: what is evaluated.
      randomizer: what randomizes the answer.
      key: the coins' key for this request.
      question: what an answer is frozen under.
      nano_nats: what an answer costs.
      limits: what may be spent.
      objection: why every device refuses it, whatever was spent; None: no device does.
    """

    cohort: Cohort
    study: bytes
    round: int
    request: bytes
    query: Query
    randomizer: Randomizer
    key: bytes
    question: bytes
    nano_nats: int
    limits: Limits
    objection: Reason | None


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredAsk:
    """An answer as it was first given: to `first`, by its coins, on that round's record."""

    first: Ask
    charged: int
    spent: int


@dataclass(frozen=True, slots=True)
class RefusedAsk:
    """A refusal; its report has no sum that was spent."""

    reason: Reason


Outcome = AnsweredAsk | RefusedAsk


@dataclass(slots=True)
class _Replayed:
    """Replayed device of one user: its ledger and its answers."""

    stored: dict[bytes, AnsweredAsk] = field(default_factory=dict)
    frozen: dict[bytes, Ask] = field(default_factory=dict)
    studies: dict[bytes, int] = field(default_factory=dict)
    refusals: RefusalCounts = field(default_factory=RefusalCounts)
    life: int = 0

    def answer(self, ask: Ask) -> Outcome | None:
        """Answer a request as `Device.answer` and `MemoryLedger.commit` do, step by step.

        The clock stands still, so that a day's spending is the life's.

        Returns:
          None where no report leaves.
        """
        stored = self.stored.get(ask.request)
        if stored is not None:
            return stored
        spent = self.studies.get(ask.study, 0)
        if ask.objection is not None:
            return self._refuse(ask, ask.objection)
        first = self.frozen.get(ask.question)
        if first is not None:
            return AnsweredAsk(first, 0, 0)
        if len(self.stored) >= MAX_ANSWERS:
            return self._refuse(ask, Reason.OVER_LIFE_BUDGET)
        cost = ask.nano_nats
        reason = self._over(ask, spent, cost)
        if reason is not None:
            return self._refuse(ask, reason)
        self.studies[ask.study] = spent + cost
        self.life += cost
        self.frozen[ask.question] = ask
        answered = AnsweredAsk(ask, cost, spent + cost)
        self.stored[ask.request] = answered
        return answered

    def _refuse(self, ask: Ask, reason: Reason) -> Outcome | None:
        """Count a refusal as a device does, by a clock that stands still."""
        study = None if reason is Reason.UNKNOWN_STUDY else ask.study
        return RefusedAsk(reason) if self.refusals.admit(study, now_s=0) else None

    def _over(self, ask: Ask, spent: int, cost: int) -> Reason | None:
        for reason, limit, so_far in (
            (Reason.OVER_LIFE_BUDGET, ask.limits.life, self.life),
            (Reason.OVER_DAY_BUDGET, ask.limits.day, self.life),
            (Reason.OVER_STUDY_BUDGET, ask.limits.study, spent),
        ):
            if so_far + cost > limit:
                return reason
        return None


def replay(asks: Iterable[Ask]) -> list[Outcome | None]:
    """Replay the requests to one user, in order, and return its outcomes."""
    device = _Replayed()
    return [device.answer(ask) for ask in asks]
