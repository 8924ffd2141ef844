"""`device status`, `history` and `verify`: what a folder's ledgers hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from askance.client.accounting import format_nats
from askance.client.command.configuration import read_configuration
from askance.client.command.home import DeviceHome, mismatches
from askance.client.command.naming import binding
from askance.client.command.people import read_schema
from askance.client.device import Audit


def status(home: DeviceHome, _: Path) -> dict[str, Any]:
    """Sums; `members` counts who has answered anything, `spent_nano_nats` is the most of one."""
    file = home.ledgers()
    spent: Counter[str] = Counter()
    studies: set[bytes] = set()
    answers = 0
    try:
        identity = home.secret().device()
        for answer in file.answers():
            spent[answer.member] += answer.charge.nano_nats
            studies.add(answer.charge.study_digest)
            answers += 1
    finally:
        file.close()
    return {
        "device_id": identity.device_id.hex(),
        "members": len(spent),
        "spent_nano_nats": max(spent.values(), default=0),
        "answers": answers,
        "studies": len(studies),
    }


def tell_status(result: dict[str, Any]) -> str:
    """The sums in a line."""
    spent = f"{format_nats(result['spent_nano_nats'])} nats spent"
    if result["members"] > 1:
        spent = f"at most {spent} by one of {result['members']} members"
    return (
        f"device {result['device_id']}: {spent} on {result['answers']} answers to"
        f" {result['studies']} studies"
    )


def history(home: DeviceHome, _: Path) -> dict[str, Any]:
    """Every answer; of a gateway's with the member's name."""
    file = home.ledgers()
    try:
        return {
            "entries": [
                {
                    **({"member": answer.member} if answer.member else {}),
                    "day": answer.charge.day,
                    "study": answer.charge.study_digest.hex(),
                    "request": answer.charge.request_digest.hex(),
                    "nano_nats": answer.charge.nano_nats,
                }
                for answer in file.answers()
            ]
        }
    finally:
        file.close()


def tell_history(result: dict[str, Any]) -> str:
    """A table; the members' names stand last, since they may be long."""
    lines = ["day      study              request            nats"]
    lines += [
        f"{entry['day']:<8} {entry['study'][:16]:<18} {entry['request'][:16]:<18} "
        f"{format_nats(entry['nano_nats']):<12} {entry.get('member', '')}".rstrip()
        for entry in result["entries"]
    ]
    return "\n".join(lines)


def verify(home: DeviceHome, configuration: Path) -> dict[str, Any]:
    """Adds everything up anew and holds it against the configured budgets, and the configuration
    against what the ledger is bound to."""
    configured = read_configuration(configuration)
    audit = Audit(configured.policy)
    expected = binding(configured.records.naming, read_schema(configured))
    checked, violations = 0, []
    file = home.ledgers()
    try:
        bound = file.binding()
        violations += mismatches(bound, expected)
        for answer in file.answers():
            checked += 1
            whose = f"member {answer.member!r}: " if answer.member else ""
            request = answer.charge.request_digest.hex()[:16]
            violations += [f"{whose}request {request}: {what}" for what in audit.take(answer)]
        if checked and not bound:
            violations.append("ledger: expected one that is bound to its members' names, got none")
    finally:
        file.close()
    return {"checked": checked, "violations": violations}


def tell_verify(result: dict[str, Any]) -> str:
    """The violations, and how many answers were gone over."""
    count = len(result["violations"])
    return "\n".join(
        [*result["violations"], f"{result['checked']} answers checked, {count} violations"]
    )
