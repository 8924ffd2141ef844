"""`device status`, `history` and `verify`: what a folder's ledgers hold."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from askance_client.accounting import format_nats
from askance_client.cli.configuration import read_configuration
from askance_client.cli.folder import ask
from askance_client.cli.home import DeviceHome, mismatches
from askance_client.cli.ledger_audit import LedgerAudit
from askance_client.cli.members import open_records, read_schema
from askance_client.ledger import PostingKind
from askance_client.printable import printable
from askance_client.records import binding


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
    yield f"  answered  {entry['answer']}"


def verify(home: DeviceHome, configuration: Path) -> dict[str, Any]:
    """Check the chain and the binding, and recompute every charge, against the configuration.

    Mark and counter were checked when the file was opened.
    """
    configured = read_configuration(configuration)
    expected = binding(open_records(configured).naming, read_schema(configured))
    checked, violations = 0, []
    file = home.ledgers(configured.counter)
    try:
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
    finally:
        file.close()
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
