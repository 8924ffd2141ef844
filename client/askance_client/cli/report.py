"""`device status`, `history` and `verify`: what a folder's ledgers hold."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from askance_client.accounting import format_nats
from askance_client.cli.configuration import read_configuration
from askance_client.cli.folder import ask
from askance_client.cli.home import DeviceHome, mismatches
from askance_client.cli.members import open_records, read_schema
from askance_client.codec import decode_report, decode_study, digest_of
from askance_client.device.examination import ExaminedStudy, Examiner
from askance_client.device.policy import Policy
from askance_client.errors import AskanceError
from askance_client.exact_laws import valid
from askance_client.ledger import LOSS_STEP, MAX_ANSWERS, NO_HASH, Posting, PostingKind
from askance_client.messages import Refusal
from askance_client.printable import printable
from askance_client.records import binding

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
            self._studies[digest] = None
            if digest_of(data) == digest:
                with suppress(AskanceError):
                    self._studies[digest] = ExaminedStudy(digest, decode_study(data), b"", data)
        return self._studies[digest]


def status(home: DeviceHome, path: Path) -> dict[str, Any]:
    """Return sums, and the studies that wait for the owner; of a running device too."""
    return ask(home, path, "status", {})[0]


def tell_status(result: dict[str, Any]) -> str:
    """Return the sums in a line, and a line per study that waits."""
    spent = f"{format_nats(result['spent_nano_nats'])} nats spent"
    if result["members"] > 1:
        spent = f"at most {spent} by one of {result['members']} members"
    lines = [
        f"device {result['device_id']}: {spent} on"
        f" {result['answers']} {_plural(result['answers'], 'answer', 'answers')} to"
        f" {result['studies']} {_plural(result['studies'], 'study', 'studies')}"
    ]
    lines += [
        f"waiting: study {known['study'][:16]}: {known['purpose'] or 'no purpose'},"
        f" at most {format_nats(_most(known))} nats, until {known['expires']}"
        for known in result["waiting"]
    ]
    return "\n".join(lines)


def _most(known: dict[str, Any]) -> int:
    """The most that a study may cost, all its epochs together, in nano-nats."""
    most: int = known.get("course_nano_nats", known["budget_nano_nats"])
    return most


def _plural(number: int, singular: str, plural: str) -> str:
    return singular if number == 1 else plural


def history(home: DeviceHome, path: Path) -> dict[str, Any]:
    """Return every row in plain words; a gateway's with the member's name."""
    return {"entries": ask(home, path, "history", {})}


def tell_history(result: dict[str, Any]) -> str:
    """Format a paragraph per row: time, cost and study, then the question and the answer."""
    lines = [line for entry in result["entries"] for line in _paragraph(entry)]
    return "\n".join(lines or ["no question was charged"])


def csv_history(result: dict[str, Any]) -> str:
    """Format a line of CSV per row, under a header; printable characters only."""
    written = StringIO()
    writer = csv.DictWriter(written, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for entry in result["entries"]:
        cells = {name: _cell(entry.get(name)) for name in _COLUMNS}
        writer.writerow(cells | {"nats": format_nats(entry["nano_nats"])})
    return written.getvalue().rstrip("\n")


_COLUMNS = (
    "time",
    "day",
    "member",
    "kind",
    "sequence",
    "nats",
    "study",
    "analysts",
    "purpose",
    "learner",
    "request",
    "question",
    "answer",
    "event",
)
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet would compute a cell that begins with one


def _cell(found: object) -> object:
    if isinstance(found, list):
        return " ".join(str(item) for item in found)
    if not isinstance(found, str):
        return found
    text = printable(found)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _paragraph(entry: dict[str, Any]) -> Iterator[str]:
    member = f"  {printable(entry['member'])}" if "member" in entry else ""
    cost = f"{format_nats(entry['nano_nats'])} nats"
    if "event" in entry:
        yield f"{entry['time']}  {cost}{member}"
        yield f"  {entry['event']}"
        return
    why = f": {entry['purpose']} ({entry['learner']})" if entry["purpose"] is not None else ""
    yield f"{entry['time']}  {cost}{member}"
    yield f"  study     {entry['study'][:16]}{why}"
    for analyst in entry["analysts"]:
        yield f"  signed by {analyst}"
    yield f"  asked     {entry['question']}"
    if "formula" in entry:
        yield f"  formula   {entry['formula']}"
    yield f"  answered  {entry['answer']}"


def verify(home: DeviceHome, configuration: Path) -> dict[str, Any]:
    """Check the chain and the binding, and recompute every charge, against the configuration.

    Mark and counter were checked when the file was opened.
    """
    configured = read_configuration(configuration)
    expected = binding(open_records(configured).naming, read_schema(configured))
    checked, violations = 0, []
    with closing(home.ledgers(configured.counter)) as file:
        audit = LedgerAudit(configured.policy, file.accepted)
        bound = file.binding()
        violations += mismatches(bound, expected)
        for posting in file.postings():
            checked += posting.kind is PostingKind.ANSWER
            whose = f"member {posting.member!r}: " if posting.member else ""
            row = f"{whose}row {posting.place}"
            violations += [f"{row}: {what}" for what in audit.take(posting)]
        if checked and not bound:
            violations.append("ledger: expected one that is bound to its members' names, got none")
    return {
        "checked": checked,
        "violations": violations,
        "unverifiable": audit.unverifiable,
        "accepted_breaks": audit.accepted_breaks,
    }


def tell_verify(result: dict[str, Any]) -> str:
    """Format the violations and the counts."""
    lines = [*result["violations"]]
    lines.append(f"{result['checked']} answers checked, {len(result['violations'])} violations")
    if result["unverifiable"]:
        lines.append(
            f"{result['unverifiable']} charges cannot be recomputed: their requests were not kept"
        )
    if result["accepted_breaks"]:
        lines.append(f"{result['accepted_breaks']} breaks of the chain in a loss that was accepted")
    return "\n".join(lines)
