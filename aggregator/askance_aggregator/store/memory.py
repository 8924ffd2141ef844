"""A store that lasts as long as its process: for simulations."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from askance_aggregator.store.audit import AuditLog, MemoryAuditLog
from askance_aggregator.store.backups import Manifest, RestoreNote
from askance_aggregator.store.certificates import MemoryCertificates
from askance_aggregator.store.checks import (
    checked_arrivals,
    checked_devices,
    checked_enrolment,
    concluded_otherwise,
    refuse_more_devices,
    refuse_other_gateway,
    refuse_other_token,
)
from askance_aggregator.store.contract import (
    DIGEST_BYTES,
    MAX_EVIDENCE,
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    EnrolledGateway,
    EpochEntry,
    RoundNote,
    StoredReport,
)
from askance_aggregator.store.dialect import unknown_study
from askance_aggregator.store.listing import StudyEntry, StudyState
from askance_aggregator.store.management import MemoryManagement
from askance_aggregator.store.memory_listing import MemoryListing
from askance_aggregator.store.memory_register import MemoryRegister
from askance_aggregator.store.memory_retention import MemoryRetention
from askance_aggregator.store.replicas import SoleReplica
from askance_aggregator.store.retention import reports_deleted
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy


class MemoryStore:
    """The store's contract on dictionaries (see `Store`)."""

    def __init__(self) -> None:
        self.replicas = SoleReplica()
        self.management = MemoryManagement(self._key_of)
        self.listing = MemoryListing(self.studies, self.summary, self.management.paused)
        self._lock = threading.Lock()
        self._devices: dict[bytes, EnrolledDevice] = {}
        self._gateways: dict[bytes, EnrolledGateway] = {}
        self._studies: dict[bytes, SignedStudy] = {}
        self._logs: dict[tuple[bytes, int], list[str]] = {}
        self._reports: dict[bytes, dict[int, bytes]] = {}
        self._evidence: dict[bytes, dict[int, list[bytes]]] = {}
        self._by_token: dict[bytes, int] = {}
        self._rounds: dict[_Round, RoundNote] = {}
        self._requests: dict[bytes, _Round] = {}
        self._conclusions: dict[tuple[bytes, int], Conclusion] = {}
        self._sequences: dict[int, int] = {}
        self.retention = MemoryRetention(
            self._lock, lambda: list(self.conclusions()), self._drop_reports, self._drop_results
        )
        self.certificates = MemoryCertificates()
        self._audit = MemoryAuditLog()
        self.register = MemoryRegister(
            self._devices, self._gateways, self._by_token, self._lock, self.certificates.erase
        )

    @property
    def audit(self) -> AuditLog:
        return self._audit

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        listed = checked_devices(devices)
        with self._lock:
            for place, (device_id, _) in enumerate(listed):
                if device_id in self._devices:
                    raise StoreError(f"enrolment: expected new ids, found device {place} enrolled")
            start = self.population()
            for ordinal, (device_id, token_digest) in enumerate(listed, start):
                self._devices[device_id] = EnrolledDevice(ordinal, token_digest)
            return range(start, start + len(listed))

    def enrol_with(
        self,
        devices: Iterable[tuple[bytes, bytes]],
        token_id: bytes,
        limit: int,
        gateway: tuple[bytes, bytes] | None = None,
    ) -> Enrolled:
        listed = checked_enrolment(devices, token_id, gateway)
        with self._lock:
            self.register.check_token(token_id)
            fresh = []
            for place, (device_id, token_digest) in enumerate(listed):
                known = self._devices.get(device_id)
                if known is None:
                    fresh.append((device_id, token_digest))
                elif known.token_digest != token_digest:
                    raise refuse_other_token(place)
            used = self._by_token.get(token_id, 0) + len(fresh)
            if fresh and used > limit:
                raise refuse_more_devices(limit, used)
            number = self._gateway_number(gateway)
            self._by_token[token_id] = used
            for ordinal, (device_id, token_digest) in enumerate(fresh, self.population()):
                self._devices[device_id] = EnrolledDevice(ordinal, token_digest)
            if number:
                for device_id, _ in listed:
                    known = self._devices[device_id]
                    self._devices[device_id] = replace(known, gateway=number)
            return Enrolled(len(fresh), len(listed) - len(fresh))

    def _gateway_number(self, gateway: tuple[bytes, bytes] | None) -> int:
        """Return a gateway's number, which it gets when it is new; 0 for none."""
        if gateway is None:
            return 0
        fresh = EnrolledGateway(len(self._gateways) + 1, gateway[1])
        known = self._gateways.setdefault(gateway[0], fresh)
        if known.token_digest != gateway[1]:
            raise refuse_other_gateway()
        return known.number

    def gateway(self, gateway_id: bytes) -> EnrolledGateway | None:
        return self._gateways.get(gateway_id)

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        return self._devices.get(device_id)

    def population(self) -> int:
        return len(self._devices) + self.register.forgotten

    def add_study(self, digest: bytes, signed: SignedStudy) -> None:
        if len(digest) != DIGEST_BYTES:
            raise StoreError(
                f"study: expected a digest of {DIGEST_BYTES} bytes, found {len(digest)}"
            )
        with self._lock:
            if self._studies.setdefault(digest, signed) != signed:
                raise StoreError(f"study {digest.hex()[:16]}: expected no other, found one stored")

    def studies(self) -> dict[bytes, SignedStudy]:
        with self._lock:
            return dict(self._studies)

    def study(self, digest: bytes) -> SignedStudy | None:
        return self._studies.get(digest)

    def open_studies(self) -> dict[bytes, SignedStudy]:
        ended = self.conclusions()
        return {digest: one for digest, one in self.studies().items() if digest not in ended}

    def summary(self, digest: bytes) -> StudyEntry | None:
        signed = self._studies.get(digest)
        return None if signed is None else self._summary(digest, signed)

    def count_studies(self) -> dict[StudyState, int]:
        states = Counter(self._summary(*item).state for item in self.studies().items())
        return {state: states[state] for state in StudyState}

    def log(self, study_digest: bytes, epoch: int = 0) -> _MemoryStudyLog:
        if study_digest not in self._studies:
            raise unknown_study(study_digest)
        with self._lock:
            return _MemoryStudyLog(self._logs.setdefault((study_digest, epoch), []))

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
        epoch: int = 0,
    ) -> RoundNote:
        with self._lock:
            if study_digest not in self._studies:
                raise unknown_study(study_digest)
            round_ = _Round(study_digest, epoch, number)
            self._requests.update(dict.fromkeys(request_digests, round_))
            return self._rounds.setdefault(round_, RoundNote(deadline, closed=False))

    def note_deadline(
        self, study_digest: bytes, number: int, deadline: Deadline, epoch: int = 0
    ) -> None:
        self._change_round(_Round(study_digest, epoch, number), deadline=deadline)

    def close_round(self, study_digest: bytes, number: int, epoch: int = 0) -> None:
        self._change_round(_Round(study_digest, epoch, number), closed=True)

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        round_ = self._requests.get(request_digest)
        if round_ is None:
            return None
        ended = any((round_.study, of) in self._conclusions for of in (0, round_.epoch))
        return AskedRequest(round_.study, ended or self._rounds[round_].closed)

    def conclude(self, study_digest: bytes, conclusion: Conclusion, epoch: int = 0) -> None:
        with self._lock:
            if study_digest not in self._studies:
                raise unknown_study(study_digest)
            if self._conclusions.setdefault((study_digest, epoch), conclusion) != conclusion:
                raise concluded_otherwise(study_digest)

    def epochs(self, study_digest: bytes) -> list[EpochEntry]:
        with self._lock:
            ended = sorted(
                (epoch, end)
                for (study, epoch), end in self._conclusions.items()
                if study == study_digest and epoch
            )
        return [
            EpochEntry(epoch, end.state, end.reason, end.message, end.max_asked_nano_nats)
            for epoch, end in ended
        ]

    def conclusions(self) -> dict[bytes, Conclusion]:
        with self._lock:
            return {study: end for (study, epoch), end in self._conclusions.items() if not epoch}

    def conclusion(self, study_digest: bytes, epoch: int = 0) -> Conclusion | None:
        return self._conclusions.get((study_digest, epoch))

    def study_costs(self) -> list[int]:
        return [ended.max_asked_nano_nats for ended in self.conclusions().values()]

    def nano_nats_asked(self) -> int:
        return sum(self.study_costs())

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        arrivals = checked_arrivals(arrivals)
        with self._lock:
            for digest in {arrival.request_digest for arrival in arrivals}:
                self._check_kept(digest)
            return [self._accept_one(arrival) for arrival in arrivals]

    def _drop_reports(self, study: bytes) -> int:
        """Forget a study's reports and return how many there were; the lock is held."""
        own = [digest for digest, round_ in self._requests.items() if round_.study == study]
        for digest in own:
            self._evidence.pop(digest, None)
        self.register.drop_users(study)
        return sum(len(self._reports.pop(digest, {})) for digest in own)

    def _drop_results(self, study: bytes) -> None:
        """Forget a study's transcripts and results; the lock is held."""
        self.register.drop_population(study)
        for place in [place for place in self._logs if place[0] == study]:
            del self._logs[place]
        for place, ended in self._conclusions.items():
            if place[0] == study:
                self._conclusions[place] = replace(ended, result_json="")

    def _check_kept(self, request_digest: bytes) -> None:
        """Raise a StoreError if the reports to a request were deleted."""
        round_ = self._requests.get(request_digest)
        kept = None if round_ is None else self.retention.of(round_.study)
        if kept is not None and kept.reports_deleted_unix_s is not None:
            raise reports_deleted(request_digest)

    def _accept_one(self, arrival: StoredReport) -> AckStatus:
        known = self._reports.setdefault(arrival.request_digest, {})
        first = known.get(arrival.ordinal)
        if first is None:
            known[arrival.ordinal] = arrival.data
            highest = self._sequences.get(arrival.ordinal, 0)
            if arrival.sequence > highest:
                self._sequences[arrival.ordinal] = arrival.sequence
            return AckStatus.ACCEPTED
        if first == arrival.data:
            return AckStatus.DUPLICATE
        kept = self._evidence.setdefault(arrival.request_digest, {})
        others = kept.setdefault(arrival.ordinal, [])
        if arrival.data not in others and len(others) < MAX_EVIDENCE:
            others.append(arrival.data)
        return AckStatus.CONFLICT

    def acknowledged_sequence(self, ordinal: int) -> int:
        return self._sequences.get(ordinal, 0)

    def reports(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        with self._lock:
            return iter(sorted(self._reports.get(request_digest, {}).items()))

    def report(self, request_digest: bytes, ordinal: int) -> bytes | None:
        return self._reports.get(request_digest, {}).get(ordinal)

    def evidence(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        with self._lock:
            kept = sorted(self._evidence.get(request_digest, {}).items())
            return iter([(ordinal, data) for ordinal, others in kept for data in others])

    def back_up(self, path: Path, now_s: int) -> Manifest:
        raise StoreError(f"backup {path}: expected a store on a disk, got one in memory")

    def restored_sequences(self) -> dict[int, int]:
        return {}

    def restores(self) -> list[RestoreNote]:
        return []

    def check_writable(self) -> None:
        """Do nothing: memory takes every write."""

    def size_bytes(self) -> int:
        return 0

    def _change_round(self, round_: _Round, **changes: Any) -> None:
        with self._lock:
            self._rounds[round_] = replace(self._rounds[round_], **changes)

    def _key_of(self, digest: bytes) -> bytes:
        if digest not in self._studies:
            raise unknown_study(digest)
        return self._studies[digest].public_key

    def _summary(self, digest: bytes, signed: SignedStudy) -> StudyEntry:
        with self._lock:
            own = {r: note for r, note in self._rounds.items() if r.study == digest}
        latest = max((round_.epoch for round_ in own), default=0)
        closed = sum(note.closed for round_, note in own.items() if round_.epoch == latest)
        ended = self.conclusion(digest)
        if ended is None:
            return StudyEntry(digest, signed, StudyState.OPEN, "", "", closed)
        return StudyEntry(digest, signed, ended.state, ended.reason, ended.message, closed)

    def close(self) -> None:
        """Nothing to release."""


class _Round(NamedTuple):
    study: bytes
    epoch: int
    number: int


class _MemoryStudyLog:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def append(self, line: str) -> None:
        self._lines.append(line)

    def lines(self) -> Iterator[str]:
        return iter(tuple(self._lines))
