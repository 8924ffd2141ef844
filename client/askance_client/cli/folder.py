"""Operations on a device's folder, the same for a running device and for one that is stopped."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance_client.cli.configuration import DeviceConfiguration, read_configuration
from askance_client.cli.explaining import explain, kept_request, kept_study
from askance_client.cli.explanations import ANY_STUDY, explained_request, explained_study, left
from askance_client.cli.home import DeviceHome
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter
from askance_client.ledger import LedgerFile, Posting, PostingKind
from askance_client.owner import ConsentRule, Consents, KnownStudy, Operation, ask_running
from askance_client.printable import value_text
from askance_client.service.clock import system_now_s

_LEAST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A device's files, opened.

    Args:
      consents: the owner's decisions; None if no device has run here.
    """

    home: DeviceHome
    ledgers: LedgerFile
    consents: Consents | None
    configuration: Callable[[], DeviceConfiguration]
    running: bool = False
    now_s: Callable[[], int] = system_now_s

    def operations(self) -> Mapping[str, Operation]:
        """Return the operations by the names of their commands."""
        return {
            "status": self.status,
            "policy": self.policy,
            "history": self.history,
            "studies": self.studies,
            "explain": self.explain,
            "approve": self.approve,
            "deny": self.deny,
        }

    def status(self, _: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Make one object of sums (see `sums_of`), with the studies that wait."""
        now_s = self.now_s()
        waiting = () if self.consents is None else self.consents.waiting(now_s)
        yield {
            "device_id": self.home.secret().device().device_id.hex(),
            **sums_of(self.ledgers),
            "running": self.running,
            "waiting": [self._explained(known, now_s) for known in waiting],
        }

    def policy(self, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Make one object: permissions, and what is left to a `member`, or to the poorest."""
        found, member = self.configuration(), _text(arguments, "member")
        policy = found.policy
        yield {
            "analysts": sorted(key.hex() for key in policy.analysts),
            "fields": None if policy.fields is None else sorted(policy.fields),
            "refresh_days": policy.refresh_days,
            "consent": found.rule.value,
            "consent_days": found.consent_days,
            "left": left(self.ledgers, policy, bytes(32), ANY_STUDY, self.now_s(), member),
        }

    def studies(self, _: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Make an object per known study, in the order in which they came."""
        for known in self._known:
            yield self._explained(known, self.now_s())

    def history(self, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Make an object per row, in plain words; a gateway's with the member's name.

        `member` names the member whose rows are wanted, `newest` the number of rows.
        """
        analysts: dict[bytes, list[str]] = {}
        for known in self._known:
            analysts.setdefault(known.digest, []).append(known.analyst.hex())
        member, newest = _text(arguments, "member"), _number(arguments, "newest", None)
        rows: Iterable[Posting] = self.ledgers.postings()
        rows = (row for row in rows if member in ("", row.member))
        for posting in rows if newest is None else deque(rows, newest):
            entry = explain(posting)
            if posting.kind is PostingKind.ANSWER:
                entry["analysts"] = analysts.get(posting.charge.study_digest, [])
            yield entry

    def explain(self, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Make an object per study that waits, or one of the study or request that is named."""
        name, now_s = _text(arguments, "name"), self.now_s()
        if not name:
            for known in () if self.consents is None else self.consents.waiting(now_s):
                yield self._explained(known, now_s, whole=True)
            return
        wanted = name.lower()
        fits = [study for study in self._known if study.digest.hex().startswith(wanted)]
        if fits and len(name) >= _LEAST_DIGITS:
            found = self._consents().named(name, _key(arguments))
            yield self._explained(found, now_s, whole=True, member=_text(arguments, "member"))
        else:
            yield self._request(wanted, name)

    def approve(self, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Approve a study, durably; make one object of it."""
        consents, now_s = self._consents(), self.now_s()
        known = consents.named(_text(arguments, "study"), _key(arguments))
        days = _number(arguments, "days", self.configuration().consent_days)
        approved = consents.approve(known, now_s, days, _text(arguments, "why"))
        yield self._explained(approved, now_s)

    def deny(self, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Deny a study, durably; make one object of it."""
        consents, now_s = self._consents(), self.now_s()
        known = consents.named(_text(arguments, "study"), _key(arguments))
        yield self._explained(consents.deny(known, now_s, _text(arguments, "why")), now_s)

    @property
    def _known(self) -> tuple[KnownStudy, ...]:
        return () if self.consents is None else self.consents.studies()

    def _consents(self) -> Consents:
        if self.consents is None:
            raise InvalidParameter(
                f"device {self.home.folder}: expected a study that it was asked about, got none yet"
            )
        return self.consents

    def _explained(
        self, known: KnownStudy, now_s: int, *, whole: bool = False, member: str = ""
    ) -> dict[str, Any]:
        terms = kept_study(known.study)
        if terms is None:  # examined when it came; unreadable only by another version
            return {"study": known.digest.hex(), "analyst": known.analyst.hex()}
        entry = explained_study(known, terms, self._consents().state(known, now_s))
        if whole:
            policy = self.configuration().policy
            entry["left"] = left(self.ledgers, policy, known.digest, terms, now_s, member)
            entry["questions"] = list(_questions(known))
        return entry

    def _request(self, wanted: str, name: str) -> dict[str, Any]:
        """Explain a request that was answered, or that a study waits with."""
        held = [(asked, known.study) for known in self._known for asked in known.questions]
        answered = (
            (posting.charge.payload, posting.charge.study) for posting in self.ledgers.answers()
        )
        for source in (held, answered):
            for payload, study in source:
                if len(wanted) >= _LEAST_DIGITS and digest_of(payload).hex().startswith(wanted):
                    request = kept_request(payload, study)
                    if request is not None:
                        return {"questions": [explained_request(request, payload)]}
        raise InvalidParameter(
            f"expected the first {_LEAST_DIGITS} digits or more of a study (device status) or a"
            f" request (device history) of this device, got {value_text(name)}"
        )


def sums_of(ledgers: LedgerFile) -> dict[str, int]:
    """Return the sums of a folder.

    `members` counts members with a row, `spent_nano_nats` is the most of one.
    """
    spent: dict[str, int] = {}
    studies: set[bytes] = set()
    answers = 0
    for posting in ledgers.postings():
        spent[posting.member] = spent.get(posting.member, 0) + posting.charge.nano_nats
        if posting.kind is PostingKind.ANSWER:
            studies.add(posting.charge.study_digest)
            answers += 1
    return {
        "members": len(spent),
        "spent_nano_nats": max(spent.values(), default=0),
        "answers": answers,
        "studies": len(studies),
    }


def _questions(known: KnownStudy) -> Iterator[dict[str, Any]]:
    for payload in known.questions:
        request = kept_request(payload, known.study)
        if request is not None:
            yield explained_request(request, payload)


def _text(arguments: Mapping[str, Any], name: str) -> str:
    found = arguments.get(name) or ""
    if not isinstance(found, str):
        raise InvalidParameter(f"{name}: expected a text, got {value_text(found)}")
    return found


def _number(arguments: Mapping[str, Any], name: str, absent: int | None) -> int | None:
    found = arguments.get(name, absent)
    if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 0):
        raise InvalidParameter(f"{name}: expected a whole number, got {value_text(found)}")
    return found


def _key(arguments: Mapping[str, Any]) -> bytes | None:
    text = _text(arguments, "analyst")
    try:
        return bytes.fromhex(text) if text else None
    except ValueError:
        raise InvalidParameter(
            f"analyst: expected hexadecimal digits, got {value_text(text)}"
        ) from None


def ask(
    home: DeviceHome, path: Path, name: str, arguments: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Let the running device of a folder do an operation, or do it on the folder if none runs."""
    found = ask_running(home.control_path, name, arguments)
    if found is not None:
        return found
    with opened(home, path) as folder:
        return list(folder.operations()[name](arguments))


@contextmanager
def opened(home: DeviceHome, path: Path) -> Iterator[OpenFolder]:
    """Open a folder in which no device runs, for the length of a block."""
    with closing(home.ledgers()) as ledgers:
        if not os.path.lexists(home.consents_path):
            yield OpenFolder(home, ledgers, None, lambda: read_configuration(path))
            return
        rule = read_configuration(path).rule if path.is_file() else ConsentRule.ASK
        with closing(Consents.open(home.consents_path, rule)) as consents:
            yield OpenFolder(home, ledgers, consents, lambda: read_configuration(path))
