"""Decisions about requests, made before a record is read: reuse, refuse, or charge and answer.

A decision is a function of the history of requests, the clock and the owner's policy. No function
here has access to a record or to coins.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from askance_client.codec import encode_report
from askance_client.device.examination import ExaminedRequest, ExaminedStudy, Examiner, Known
from askance_client.device.policy import Policy
from askance_client.ledger import MAX_ANSWERS, SECONDS_PER_DAY, Ledger, Limits, Overrun, Totals
from askance_client.ledger.contract import overrun
from askance_client.messages import Reason, Refusal, Repeat, Report

MAX_REFUSALS = 256  # that leave, per study and hour: four full messages
MAX_WEIGHT = 5 << 18
"""Weight of the answers of one turn: of the heaviest question of any family, and a little more.

A machine a twelfth as fast as a server (`WEIGHT_PER_S`) evaluates or draws it in 5.1 s."""

SECONDS_PER_HOUR = 3_600
_MAX_COUNTED = 256  # studies with a count of their own; requests of others share one
_CLOCK_SLACK_S = 60  # a clock that is corrected by so little is taken to stand still

OVERRUNS = {
    Overrun.STUDY: Reason.OVER_STUDY_BUDGET,
    Overrun.EPOCH: Reason.OVER_STUDY_BUDGET,
    Overrun.DAY: Reason.OVER_DAY_BUDGET,
    Overrun.WINDOW: Reason.OVER_WINDOW_BUDGET,
    Overrun.LIFE: Reason.OVER_LIFE_BUDGET,
    Overrun.ANSWERS: Reason.OVER_LIFE_BUDGET,
    Overrun.STUDY_ANSWERS: Reason.OVER_STUDY_BUDGET,
    Overrun.WORK: Reason.OVER_DAY_BUDGET,
    Overrun.SPACE: Reason.OVER_LIFE_BUDGET,
}


class Due(NamedTuple):
    """An answer that is to be evaluated, charged and sent.

    Args:
      at_s: the charge's time, Unix seconds; no earlier than any charge before it.
    """

    payload: bytes
    asked: ExaminedRequest
    study: ExaminedStudy
    limits: Limits
    at_s: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """A question that another request of the same message is charged for."""

    question: bytes


Settlement = bytes | Due | Repeated | Refusal
"""A report that needs no evaluation, an answer to be charged, a repetition, or a refusal."""


class Settling:
    """Settle the requests of one message in order, each as if those before it were committed.

    Args:
      studies: the accepted studies, by digest.
      full: the digests of those for whose payloads the ledger has no more room.
      now_s: one reading of the clock for the whole message: the day that is checked is the day that
        is charged.
      most: weight of one request above which it is refused, at most `MAX_WEIGHT`.
    """

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy,
        examiner: Examiner,
        studies: Mapping[bytes, ExaminedStudy],
        full: Set[bytes],
        now_s: int,
        most: int = MAX_WEIGHT,
    ) -> None:
        self._ledger = ledger
        self._policy = policy
        self._examiner = examiner
        self._studies = studies
        self._full = full
        self._now_s = now_s
        self._most = most
        self._weight = 0  # of what is due so far
        self._due: dict[bytes, Due] = {}  # of the message so far, by question; all of one day

    def settle(self, payload: bytes, known: Known) -> tuple[bytes | None, Settlement | None]:
        """Decide on a request.

        Returns:
          The digest of its study, None where it names no accepted one; and the decision, None where
          it is left for the next turn.
        """
        digest, named, asked = known
        study = None if isinstance(named, Refusal) else self._studies.get(named)
        if study is None:
            unknown = Refusal(Reason.UNKNOWN_STUDY, "expected a request of an accepted study")
            refusal = named if isinstance(named, Refusal) else unknown
            return None, self._stored_or(digest, refusal, None, payload)
        asked = asked or self._examiner.request(payload, study)
        if isinstance(asked, Refusal):
            return study.digest, self._stored_or(digest, asked, study, payload)
        return study.digest, self._decide(payload, asked, study)

    def _stored_or(
        self, digest: bytes, refusal: Refusal, study: ExaminedStudy | None, payload: bytes
    ) -> Settlement:
        """Return the report of a request that was answered before, also if it is refused now."""
        # The report may never have arrived, so the owner's consent holds for it as for a new one.
        # Of a study that is not known now, consent cannot be asked for.
        stored = self._ledger.stored(digest)
        if stored is None or (study is None and self._policy.consent is not None):
            return refusal
        objection = study and objection_of_owner(self._policy, study, payload, self._now_s)
        return objection or stored

    def _decide(
        self, payload: bytes, asked: ExaminedRequest, study: ExaminedStudy
    ) -> Settlement | None:
        day = self._now_s // SECONDS_PER_DAY
        limits = self._policy.limits(study.terms, day)
        standing = self._ledger.standing(asked.digest, asked.question, study.digest, day, limits)
        at_s = self._time(standing.totals.last_s)
        if standing.report is not None:
            return objection_of_owner(self._policy, study, payload, at_s) or standing.report
        objection = self._policy.objection(asked.request.query.fields_used)
        objection = objection or self._policy.too_early(study.terms.repeat)
        objection = objection or _untimely(study, at_s, self._now_s, standing.totals.last_s)
        objection = objection or off_epoch(study.terms.repeat, asked.request.epoch, day)
        objection = objection or objection_of_owner(self._policy, study, payload, at_s)
        if objection is not None:
            return objection
        if standing.frozen is not None:
            return reused(asked.digest, standing.frozen)
        if asked.question in self._due:
            return Repeated(asked.question)
        if asked.weight > self._most:
            text = f"weight: expected at most {self._most} this hour, got {asked.weight}"
            return Refusal(Reason.INVALID_RANDOMIZER, text)
        if self._weight and self._weight + asked.weight > MAX_WEIGHT:
            return None
        due = Due(payload, asked, study, limits, at_s)
        past = self._past(standing.totals, due)
        if past is not None:
            return over(past, asked.nano_nats, limits)
        self._due[asked.question] = due
        self._weight += asked.weight
        return due

    def _time(self, last_s: int) -> int:
        """The time of a charge: a clock that went back a little, within a day, stands still."""
        back = 0 < last_s - self._now_s <= _CLOCK_SLACK_S
        same_day = last_s // SECONDS_PER_DAY == self._now_s // SECONDS_PER_DAY
        return last_s if back and same_day else self._now_s

    def _past(self, totals: Totals, due: Due) -> Overrun | None:
        """The limit that a charge would pass, those of the message before it included."""
        if due.study.digest in self._full:
            return Overrun.SPACE
        for one in self._due.values():
            own = one.study.digest == due.study.digest
            totals = totals.after(one.asked.nano_nats, one.asked.weight, own)
        return overrun(totals, due.asked.nano_nats, due.limits, due.asked.weight)


class RefusalCounts:
    """Refusals of the present hour, counted per study in memory.

    Past `MAX_REFUSALS` no report leaves for a request that would be refused, until the hour is
    over; requests that are answered are not affected, and neither are other studies.
    """

    __slots__ = ("_counts", "_hour")

    def __init__(self) -> None:
        self._counts: dict[bytes | None, int] = {}
        self._hour = 0

    def admit(self, study: bytes | None, now_s: int) -> bool:
        """Count one more refusal, and return whether it may leave.

        `study` is the digest of the accepted study that was named; None: of no such study.
        """
        hour = now_s // SECONDS_PER_HOUR
        if hour != self._hour:
            self._counts.clear()
            self._hour = hour
        own = len(self._counts) - (None in self._counts)
        if study not in self._counts and own >= _MAX_COUNTED:
            study = None
        self._counts[study] = self._counts.get(study, 0) + 1
        return self._counts[study] <= MAX_REFUSALS


def reused(digest: bytes, symbol: bytes) -> bytes:
    """The report of a frozen answer: the same bytes at every retry, without a charge or a row."""
    return encode_report(Report(digest, symbol, 0, 0))


def refused(digest: bytes, refusal: Refusal) -> bytes:
    """The report of a refusal: its reason, and no sum that was spent."""
    return encode_report(Report(digest, refusal, 0, 0))


def over(past: Overrun, nano_nats: int, limits: Limits) -> Refusal:
    """The refusal of a charge that would pass a limit."""
    texts = {
        Overrun.ANSWERS: f"at most {MAX_ANSWERS} answers in all",
        Overrun.STUDY_ANSWERS: f"at most {limits.answers} answers to the study",
        Overrun.WORK: f"work of at most {limits.work} for the study on one day",
        Overrun.SPACE: "requests that the ledger has room for",
    }
    if past in texts:
        return Refusal(OVERRUNS[past], f"expected {texts[past]}")
    allowed = {Overrun.STUDY: limits.study, Overrun.DAY: limits.day, Overrun.LIFE: limits.life}
    for kind, span in ((Overrun.WINDOW, limits.window), (Overrun.EPOCH, limits.epoch)):
        allowed[kind] = 0 if span is None else span.nano_nats
    return Refusal(
        OVERRUNS[past],
        f"expected at most {allowed[past]} nano-nats per {past.value} in all,"
        f" got a request for {nano_nats} more",
    )


def objection_of_owner(
    policy: Policy, study: ExaminedStudy, payload: bytes, at_s: int
) -> Refusal | None:
    """The owner's objection to a study; None if one of its analysts' copies is agreed to."""
    if policy.consent is None:
        return None
    objections = [policy.consent(copy, payload, at_s) for copy in (study, *study.copies)]
    if None in objections:
        return None
    waiting = [one for one in objections if one is not None and one.reason is Reason.WAITING]
    return (waiting or objections)[0]


def off_epoch(repeat: Repeat | None, epoch: int, day: int) -> Refusal | None:
    """A refusal when a request is of another epoch than the device's day."""
    if repeat is None or epoch == repeat.index(day):
        return None
    return Refusal(Reason.WRONG_EPOCH, f"epoch: expected {repeat.index(day)}, got {epoch}")


def _untimely(study: ExaminedStudy, at_s: int, now_s: int, last_s: int) -> Refusal | None:
    """A refusal when the clock cannot be right, or the study has expired."""
    if at_s < last_s:
        # A clock set back would revive expired studies: wait until it passes the last charge.
        return Refusal(
            Reason.CLOCK_MOVED_BACK,
            f"clock: expected {last_s} s since 1970 or later, the time of the last charge,"
            f" got {now_s} s",
        )
    if at_s >= study.terms.expires_unix_s:
        return Refusal(Reason.EXPIRED, "expected a study that has not expired")
    return None
