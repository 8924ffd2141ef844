"""An audit of a ledger file against a policy, its hash chains and the requests that it kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from askance_client.codec import decode_report, decode_study, digest_of
from askance_client.device.examination import ExaminedStudy, Examiner
from askance_client.device.policy import Policy
from askance_client.errors import AskanceError
from askance_client.exact_laws import valid
from askance_client.ledger import LOSS_STEP, MAX_ANSWERS, NO_HASH, Posting, PostingKind
from askance_client.messages import Refusal

_EXAMINED = 4096  # requests that are remembered: a gateway's members are asked the same ones


@dataclass(slots=True)
class _Sums:
    """Sums of one member's charges, computed anew."""

    life: int = 0
    answers: int = 0
    days: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    studies: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    given: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))  # answers, by study
    questions: set[bytes] = field(default_factory=set)


class LedgerAudit:
    """Checks all rows of a file, oldest first, each member's by themselves.

    Args:
        policy: the budgets that the sums are checked against.
        accepted: the place up to which the owner accepted the loss of rows: a chain that is broken
            there is counted in `accepted_breaks` and is no violation.
    """

    def __init__(self, policy: Policy, accepted: int = 0) -> None:
        self._policy = policy
        self._accepted = accepted
        self._members: dict[str, _Sums] = defaultdict(_Sums)
        self._chains: dict[tuple[str, bytes], tuple[int, bytes]] = {}
        self._studies: dict[bytes, ExaminedStudy | None] = {}
        self._examiner = Examiner(_EXAMINED)
        self._place = 0
        self.unverifiable = 0
        self.accepted_breaks = 0

    def take(self, posting: Posting) -> Iterator[str]:
        """Add the next row and yield its violations, one line each."""
        breaks = list(self._chain(posting))
        if posting.place <= self._accepted:
            self.accepted_breaks += len(breaks)
        else:
            yield from breaks
        sums, charge = self._members[posting.member], posting.charge
        sums.life += charge.nano_nats
        sums.days[charge.day] += charge.nano_nats
        if posting.kind is not PostingKind.ANSWER:
            return
        sums.answers += 1
        sums.studies[charge.study_digest] += charge.nano_nats
        sums.given[charge.study_digest] += 1
        if charge.question in sums.questions:
            yield "expected a question to be charged once"
        sums.questions.add(charge.question)
        if sums.answers > MAX_ANSWERS:
            yield f"expected at most {MAX_ANSWERS} answers in all"
        if sums.given[charge.study_digest] > self._policy.study_answers:
            yield f"expected at most {self._policy.study_answers} answers to one study"
        yield from self._over(posting, sums)
        yield from self._report(posting, sums)
        yield from self._recomputed(posting)

    def _chain(self, posting: Posting) -> Iterator[str]:
        """Yield the breaks of the file's order and of the row's chain."""
        if posting.place != self._place + 1:
            yield f"expected row {self._place + 1}, found row {posting.place}"
        self._place = posting.place
        chain = (posting.member, posting.enrolment)
        last, before = self._chains.get(chain, (0, NO_HASH))
        step = LOSS_STEP if posting.kind is PostingKind.LOSS else 1
        if posting.sequence != last + step:
            yield f"expected sequence number {last + step}, found {posting.sequence}"
        if posting.chained != posting.hash(before):
            yield "expected the hash of this row and those before it, found another"
        self._chains[chain] = (posting.sequence, posting.chained)

    def _over(self, posting: Posting, sums: _Sums) -> Iterator[str]:
        policy = self._policy
        for what, spent, allowed in (
            ("life", sums.life, policy.life_nano_nats),
            ("day", sums.days[posting.charge.day], policy.day_nano_nats),
            ("study", sums.studies[posting.charge.study_digest], policy.study_nano_nats),
        ):
            if allowed is not None and spent > allowed:
                yield f"expected at most {allowed} nano-nats per {what}, found {spent}"

    def _report(self, posting: Posting, sums: _Sums) -> Iterator[str]:
        """Yield the violations of the bytes that left."""
        charge = posting.charge
        try:
            report = decode_report(posting.report)
        except AskanceError as error:
            yield f"expected a report: {error}"
            return
        if report.request_digest != charge.request_digest:
            yield "expected a report on this request, found one on another"
        if report.outcome != charge.symbol:
            yield "expected the report to carry the symbol that was charged"
        for what, found, expected in (
            ("charged", report.charged_nano_nats, charge.nano_nats),
            ("spent by the study", report.spent_nano_nats, sums.studies[charge.study_digest]),
        ):
            if found != expected and posting.place > self._accepted:
                yield f"expected a report of {expected} nano-nats {what}, found {found}"
        # A row from before the numbering has a report without a number.
        if report.sequence not in (posting.sequence, 0):
            yield f"expected a report numbered {posting.sequence}, found {report.sequence}"

    def _recomputed(self, posting: Posting) -> Iterator[str]:
        """Yield the differences between the row and its charge computed anew from the request."""
        charge = posting.charge
        if not charge.payload or not charge.study:
            self.unverifiable += 1
            return
        if digest_of(charge.payload) != charge.request_digest:
            yield "expected the request that was charged, found another"
            return
        study = self._study(charge.study_digest, charge.study)
        if study is None:
            yield "expected the study that was charged, found another"
            return
        asked = self._examiner.request(charge.payload, study)
        if isinstance(asked, Refusal):
            yield f"expected a request that may be answered: {asked.reason.name}"
            return
        if asked.nano_nats != charge.nano_nats:
            yield (
                f"expected a charge of {asked.nano_nats} nano-nats for this request,"
                f" found {charge.nano_nats}"
            )
        if asked.question != charge.question:
            yield "expected the digest of the question in this request, found another"
        if not valid(asked.request.randomizer, charge.symbol):
            yield "expected a symbol of the request's randomizer, found none"

    def _study(self, digest: bytes, data: bytes) -> ExaminedStudy | None:
        """Return the study in `data`, or None if it is not the one with this digest."""
        if digest not in self._studies:
            study = None
            if digest_of(data) == digest:
                try:
                    study = ExaminedStudy(digest, decode_study(data), b"", data)
                except AskanceError:
                    study = None
            self._studies[digest] = study
        return self._studies[digest]
