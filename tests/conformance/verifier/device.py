"""Rules of a device's ledger: what is charged, resent, reused or refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.conformance.verifier.families import InvalidRandomizer
from tests.conformance.verifier.inference import Invalid
from tests.conformance.verifier.schemas import Schema
from tests.conformance.verifier.studies import (
    Request,
    named_study,
    report,
    request_of,
    sha256,
    signature_holds,
    study_of,
)
from tests.conformance.verifier.wire import SIGNED_STUDY, Malformed, Message, decode

DAY_S, HOUR_S, SLACK_S = 86_400, 3_600, 60
LEAST_LOSS = 1_000_000  # nano-nats
DEFAULT_ANSWERS = 4_096  # of a study that signs no number
MAX_ANSWERS, MAX_REFUSALS, MAX_STUDIES = 1 << 16, 256, 256
Outcome = tuple[str, bytes | None]
"""A word (charged, resent, reused, silent, or a reason) and the report, if one leaves."""


@dataclass
class Ledger:
    """Charges of one device; all that survives a restart."""

    reports: dict[bytes, bytes] = field(default_factory=dict)
    symbols: dict[bytes, bytes] = field(default_factory=dict)
    charges: list[tuple[bytes, int, int]] = field(default_factory=list)  # study, time, nano-nats

    @property
    def last_s(self) -> int:
        """Time of the latest charge; 0 if there is none."""
        return max([at_s for _, at_s, _ in self.charges], default=0)

    def life(self) -> int:
        """All charges."""
        return sum(nano for _, _, nano in self.charges)

    def day(self, day: int) -> int:
        """Charges of one UTC day."""
        return sum(nano for _, at_s, nano in self.charges if at_s // DAY_S == day)

    def study(self, digest: bytes) -> int:
        """Charges of one study."""
        return sum(nano for study, _, nano in self.charges if study == digest)

    def answers(self, digest: bytes) -> int:
        """Number of charged answers of one study."""
        return sum(study == digest for study, _, _ in self.charges)


@dataclass(frozen=True)
class Policy:
    """The owner's limits; None: no limit but the life's, or all fields."""

    analysts: list[bytes]
    life: int
    day: int | None
    study: int | None
    fields: list[str] | None


class Device:
    """A device with its record, policy and ledger."""

    def __init__(self, schema: Schema, record: Message, policy: Policy) -> None:
        self.schema, self.record, self.policy = schema, schema.read(record), policy
        self.ledger = Ledger()
        self.restart()

    def restart(self) -> None:
        """Forget all but the ledger."""
        self.studies: dict[bytes, tuple[Message, Schema]] = {}
        self.refusals: Counter[bytes | None] = Counter()
        self.hour = 0

    def introduce(self, data: bytes) -> str:
        """Meet a signed study.

        Returns:
            The reason for which it is refused; empty if it is accepted.
        """
        signed = decode(SIGNED_STUDY, data)
        if signed["public_key"] not in self.policy.analysts:
            return "UNTRUSTED_KEY"
        if not signature_holds(signed["study"], signed["public_key"], signed["signature"]):
            return "BAD_SIGNATURE"
        try:
            study, schema = study_of(signed["study"])
        except Malformed:
            return "MALFORMED"
        if schema.digest != self.schema.digest:
            return "SCHEMA_MISMATCH"
        self.studies[sha256(signed["study"])] = (study, schema)
        if len(self.studies) > MAX_STUDIES:
            del self.studies[next(iter(self.studies))]
        return ""

    def ask(self, at_s: int, requests: list[bytes], coins: list[list[int]]) -> list[Outcome]:
        """Answer the requests of one message, in order.

        Args:
            at_s: the clock's time, one for the message.
            requests: payloads; an equal one is answered once.
            coins: the words for each request, used if it is charged.
        """
        outcomes: dict[bytes, Outcome] = {}
        for payload, words in zip(requests, coins, strict=True):
            if payload not in outcomes:
                outcomes[payload] = self._ask(at_s, payload, words)
        return [outcomes[payload] for payload in requests]

    def _ask(self, at_s: int, payload: bytes, coins: list[int]) -> Outcome:
        digest = sha256(payload)
        if digest in self.ledger.reports:
            return "resent", self.ledger.reports[digest]
        named: bytes | None = None
        try:
            digest_named = named_study(payload)["study_digest"]
            named = digest_named if digest_named in self.studies else None
            if named is None:
                return self._refuse(at_s, digest, "UNKNOWN_STUDY", None)
            request = request_of(payload, self.studies[named][1])
        except Malformed:
            return self._refuse(at_s, digest, "MALFORMED", named)
        except Invalid:
            return self._refuse(at_s, digest, "INVALID_QUERY", named)
        except InvalidRandomizer:
            return self._refuse(at_s, digest, "INVALID_RANDOMIZER", named)
        time_s = self._time(at_s)
        reason = self._objection(request, time_s)
        if reason:
            return self._refuse(at_s, digest, reason, named)
        frozen = self.ledger.symbols.get(request.question)
        if frozen is not None:
            return "reused", report(digest, frozen)
        reason = self._over(request, at_s // DAY_S)
        if reason:
            return self._refuse(at_s, digest, reason, named)
        return "charged", self._charge(request, time_s, coins)

    def _time(self, at_s: int) -> int:
        """The time of a charge: a clock up to a minute behind, on the same day, stands still."""
        last_s = self.ledger.last_s
        stands = 0 < last_s - at_s <= SLACK_S and last_s // DAY_S == at_s // DAY_S
        return last_s if stands else at_s

    def _objection(self, request: Request, time_s: int) -> str:
        study = self.studies[request.study][0]
        if not request.query.fields <= set(study["fields"]):
            return "FIELD_NOT_ALLOWED"
        if request.mismatched():
            return "LEVELS_MISMATCH"
        if request.randomizer.nano_nats < LEAST_LOSS:
            return "INVALID_RANDOMIZER"
        if self.policy.fields is not None and not request.query.fields <= {*self.policy.fields}:
            return "FIELD_NOT_ALLOWED"
        if time_s < self.ledger.last_s:
            return "CLOCK_MOVED_BACK"
        return "EXPIRED" if time_s >= study["expires_unix_s"] else ""

    def _over(self, request: Request, day: int) -> str:
        """The widest limit that the charge would pass."""
        ledger, policy, nano = self.ledger, self.policy, request.randomizer.nano_nats
        study = self.studies[request.study][0]
        promised: int = study["budget_nano_nats"]
        most_answers: int = study["most_answers"] or DEFAULT_ANSWERS
        most_a_day = policy.life if policy.day is None else policy.day
        most_a_study = min(policy.life if policy.study is None else policy.study, promised)
        if len(ledger.charges) >= MAX_ANSWERS or ledger.life() + nano > policy.life:
            return "OVER_LIFE_BUDGET"
        if ledger.day(day) + nano > most_a_day:
            return "OVER_DAY_BUDGET"
        if ledger.study(request.study) + nano > most_a_study:
            return "OVER_STUDY_BUDGET"
        return "OVER_STUDY_BUDGET" if ledger.answers(request.study) >= most_answers else ""

    def _charge(self, request: Request, time_s: int, coins: list[int]) -> bytes:
        values = request.query.evaluate(self.record, request.schema)
        symbol, nano = request.symbol(values, coins), request.randomizer.nano_nats
        ledger = self.ledger
        ledger.charges.append((request.study, time_s, nano))
        spent = ledger.study(request.study)
        data = report(request.digest, symbol, nano, spent, len(ledger.charges))
        ledger.reports[request.digest], ledger.symbols[request.question] = data, symbol
        return data

    def _refuse(self, at_s: int, digest: bytes, reason: str, study: bytes | None) -> Outcome:
        """A refusal leaves, unless too many of its study did in this hour."""
        if at_s // HOUR_S != self.hour:
            self.refusals.clear()
            self.hour = at_s // HOUR_S
        counted = [known for known in self.refusals if known is not None]
        if study not in self.refusals and len(counted) >= MAX_STUDIES:
            study = None
        self.refusals[study] += 1
        if self.refusals[study] > MAX_REFUSALS:
            return "silent", None
        return reason, report(digest, reason)
