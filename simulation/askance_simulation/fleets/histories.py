"""Histories: a user's answers, charges and refusals as a function of its requests, by replay.

Users who were asked the same in the same order do the same, but for what their records and coins
decide: which symbol they send. So the fleet keeps the questions of each cohort, and nothing per
  user.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from askance_aggregator.studies import Cohort
from askance_client.device.settling import OVERRUNS, RefusalCounts
from askance_client.ledger import SECONDS_PER_DAY, Limits, Totals
from askance_client.ledger.contract import overrun
from askance_client.messages import Reason
from askance_client.queries import Query
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Request to a cohort, with all that every device of the fleet derives from examining it.

    Args:
      cohort: the users who were asked.
      request: the request's digest.
      key: the coins' key for this request.
      question: what an answer is frozen under.
      weight: the work of an answer.
      limits: what may be spent.
      objection: why every device refuses it, whatever was spent; None: no device does.
      at_s: the time, Unix seconds.
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
    weight: int
    limits: Limits
    objection: Reason | None
    at_s: int = 0


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
    charges: list[tuple[int, bytes, int]] = field(default_factory=list)
    """Time, study and nano-nats."""
    work: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """Weight, by study and day."""
    refusals: RefusalCounts = field(default_factory=RefusalCounts)

    def answer(self, ask: Ask) -> Outcome | None:
        """Answer as `Device.answer` and `MemoryLedger.commit` do; None where no report leaves."""
        stored = self.stored.get(ask.request)
        if stored is not None:
            return stored
        if ask.objection is not None:
            return self._refuse(ask, ask.objection)
        first = self.frozen.get(ask.question)
        if first is not None:
            return AnsweredAsk(first, 0, 0)
        totals = self._totals(ask)
        past = overrun(totals, ask.nano_nats, ask.limits, ask.weight)
        if past is not None:
            return self._refuse(ask, OVERRUNS[past])
        cost = ask.nano_nats
        spent = totals.spent(ask.limits)
        self.charges.append((ask.at_s, ask.study, cost))
        self.work[ask.study, ask.at_s // SECONDS_PER_DAY] = totals.work + ask.weight
        self.frozen[ask.question] = ask
        answered = AnsweredAsk(ask, cost, spent + cost)
        self.stored[ask.request] = answered
        return answered

    def _refuse(self, ask: Ask, reason: Reason) -> Outcome | None:
        """Count a refusal as a device does, as if all were of one hour."""
        study = None if reason is Reason.UNKNOWN_STUDY else ask.study
        return RefusedAsk(reason) if self.refusals.admit(study, now_s=0) else None

    def _totals(self, ask: Ask) -> Totals:
        """Return the sums that a ledger has."""
        day, window, epoch = ask.at_s // SECONDS_PER_DAY, ask.limits.window, ask.limits.epoch
        of_study = [cost for _, study, cost in self.charges if study == ask.study]
        return Totals(
            study=sum(of_study),
            day=sum(cost for at_s, _, cost in self.charges if at_s // SECONDS_PER_DAY == day),
            life=sum(cost for _, _, cost in self.charges),
            last_s=0,
            window=0 if window is None else self._since(window.from_s),
            epoch=0 if epoch is None else self._since(epoch.from_s, ask.study),
            answers=len(self.charges),
            study_answers=len(of_study),
            work=self.work.get((ask.study, day), 0),
        )

    def _since(self, from_s: int, study: bytes | None = None) -> int:
        return sum(
            cost for at_s, of, cost in self.charges if at_s >= from_s and study in (None, of)
        )


def replay(asks: Iterable[Ask]) -> list[Outcome | None]:
    """Replay the requests to one user, in order, and return its outcomes."""
    device = _Replayed()
    return [device.answer(ask) for ask in asks]
