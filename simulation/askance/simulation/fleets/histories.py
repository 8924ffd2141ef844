"""Histories: a user's answers, charges and refusals as a function of its requests, by replay.

Users who were asked the same in the same order do the same, but for what their records and coins
decide: which symbol they send. So the fleet remembers what was asked of whom, and nothing a user.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from askance.aggregator.session import Cohort
from askance.client.ledger import MAX_ANSWERS, Limits
from askance.client.messages import Reason
from askance.client.queries import Query
from askance.client.randomizers import Randomizer


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Request to a cohort, with all that every device of the fleet derives from examining it.

    Args:
      cohort: who was asked.
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
class Answered:
    """An answer as it was first given: to `first`, by its coins, on that round's record."""

    first: Ask
    charged: int
    spent: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal, and what the study has cost so far."""

    reason: Reason
    spent: int


Outcome = Answered | Refused


@dataclass(slots=True)
class _Replayed:
    """Replayed device of one user: its ledger and its answers."""

    stored: dict[bytes, Answered] = field(default_factory=dict)
    frozen: dict[bytes, Ask] = field(default_factory=dict)
    studies: dict[bytes, int] = field(default_factory=dict)
    life: int = 0

    def answer(self, ask: Ask) -> Outcome:
        """Answer a request as `Device.answer` and `MemoryLedger.commit` do, step by step.

        The clock stands still, so that a day's spending is the life's.
        """
        stored = self.stored.get(ask.request)
        if stored is not None:
            return stored
        spent = self.studies.get(ask.study, 0)
        if ask.objection is not None:
            known = ask.objection is not Reason.UNKNOWN_STUDY
            return Refused(ask.objection, spent if known else 0)
        if len(self.stored) >= MAX_ANSWERS:
            return Refused(Reason.OVER_LIFE_BUDGET, spent)
        first = self.frozen.get(ask.question)
        cost = ask.nano_nats if first is None else 0
        reason = self._over(ask, spent, cost)
        if reason is not None:
            return Refused(reason, spent)
        self.studies[ask.study] = spent + cost
        self.life += cost
        self.frozen.setdefault(ask.question, ask)
        answered = Answered(first or ask, cost, spent + cost)
        self.stored[ask.request] = answered
        return answered

    def _over(self, ask: Ask, spent: int, cost: int) -> Reason | None:
        if cost == 0:
            return None
        for reason, limit, so_far in (
            (Reason.OVER_STUDY_BUDGET, ask.limits.study, spent),
            (Reason.OVER_DAY_BUDGET, ask.limits.day, self.life),
            (Reason.OVER_LIFE_BUDGET, ask.limits.life, self.life),
        ):
            if so_far + cost > limit:
                return reason
        return None


def replay(asks: Iterable[Ask]) -> list[Outcome]:
    """Replay the requests to one user, in order, and return its outcomes."""
    device = _Replayed()
    return [device.answer(ask) for ask in asks]
