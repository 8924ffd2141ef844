"""A store that lasts as long as its process: for simulations."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from askance_aggregator.store.contract import (
    DIGEST_BYTES,
    MAX_EVIDENCE,
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    RoundNote,
    StoredReport,
    StudyEntry,
    StudyState,
    checked_arrivals,
    checked_devices,
    checked_enrolment,
    concluded_otherwise,
    refuse_more_devices,
    refuse_other_token,
    unknown_study,
)
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy


class MemoryStore:
    """The store's contract on dictionaries (see `Store`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[bytes, EnrolledDevice] = {}
        self._studies: dict[bytes, SignedStudy] = {}
        self._logs: dict[bytes, list[str]] = {}
        self._reports: dict[bytes, dict[int, bytes]] = {}
        self._evidence: dict[bytes, dict[int, list[bytes]]] = {}
        self._by_token: dict[bytes, int] = {}
        self._rounds: dict[tuple[bytes, int], RoundNote] = {}
        self._requests: dict[bytes, tuple[bytes, int]] = {}
        self._conclusions: dict[bytes, Conclusion] = {}
        self._sequences: dict[int, int] = {}

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        listed = checked_devices(devices)
        with self._lock:
            for place, (device_id, _) in enumerate(listed):
                if device_id in self._devices:
                    raise StoreError(f"enrolment: expected new ids, found device {place} enrolled")
            start = len(self._devices)
            for ordinal, (device_id, token_digest) in enumerate(listed, start):
                self._devices[device_id] = EnrolledDevice(ordinal, token_digest)
            return range(start, len(self._devices))

    def enrol_with(
        self, devices: Iterable[tuple[bytes, bytes]], token_id: bytes, limit: int
    ) -> Enrolled:
        listed = checked_enrolment(devices, token_id)
        with self._lock:
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
            self._by_token[token_id] = used
            for ordinal, (device_id, token_digest) in enumerate(fresh, len(self._devices)):
                self._devices[device_id] = EnrolledDevice(ordinal, token_digest)
            return Enrolled(len(fresh), len(listed) - len(fresh))

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        return self._devices.get(device_id)

    def population(self) -> int:
        return len(self._devices)

    def add_study(self, digest: bytes, signed: SignedStudy) -> None:
        if len(digest) != DIGEST_BYTES:
            raise StoreError(
                f"study: expected a digest of {DIGEST_BYTES} bytes, found {len(digest)}"
            )
        with self._lock:
            if self._studies.setdefault(digest, signed) != signed:
                raise StoreError(f"study {digest.hex()[:16]}: expected no other, found one stored")
            self._logs.setdefault(digest, [])

    def studies(self) -> dict[bytes, SignedStudy]:
        with self._lock:
            return dict(self._studies)

    def study(self, digest: bytes) -> SignedStudy | None:
        return self._studies.get(digest)

    def open_studies(self) -> dict[bytes, SignedStudy]:
        ended = self._conclusions
        return {digest: one for digest, one in self.studies().items() if digest not in ended}

    def summaries(self, public_key: bytes) -> list[StudyEntry]:
        return [
            self._summary(digest, signed)
            for digest, signed in self.studies().items()
            if signed.public_key == public_key
        ]

    def summary(self, digest: bytes) -> StudyEntry | None:
        signed = self._studies.get(digest)
        return None if signed is None else self._summary(digest, signed)

    def count_studies(self) -> dict[StudyState, int]:
        states = Counter(self._summary(*item).state for item in self.studies().items())
        return {state: states[state] for state in StudyState}

    def log(self, study_digest: bytes) -> _MemoryStudyLog:
        lines = self._logs.get(study_digest)
        if lines is None:
            raise unknown_study(study_digest)
        return _MemoryStudyLog(lines)

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
    ) -> RoundNote:
        with self._lock:
            if study_digest not in self._studies:
                raise unknown_study(study_digest)
            round_ = (study_digest, number)
            self._requests.update(dict.fromkeys(request_digests, round_))
            return self._rounds.setdefault(round_, RoundNote(deadline, closed=False))

    def note_deadline(self, study_digest: bytes, number: int, deadline: Deadline) -> None:
        self._change_round(study_digest, number, deadline=deadline)

    def close_round(self, study_digest: bytes, number: int) -> None:
        self._change_round(study_digest, number, closed=True)

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        round_ = self._requests.get(request_digest)
        if round_ is None:
            return None
        over = self._rounds[round_].closed or round_[0] in self._conclusions
        return AskedRequest(round_[0], over)

    def conclude(self, study_digest: bytes, conclusion: Conclusion) -> None:
        with self._lock:
            if study_digest not in self._studies:
                raise unknown_study(study_digest)
            if self._conclusions.setdefault(study_digest, conclusion) != conclusion:
                raise concluded_otherwise(study_digest)

    def conclusions(self) -> dict[bytes, Conclusion]:
        with self._lock:
            return dict(self._conclusions)

    def conclusion(self, study_digest: bytes) -> Conclusion | None:
        return self._conclusions.get(study_digest)

    def nano_nats_asked(self) -> int:
        return sum(ended.max_asked_nano_nats for ended in self.conclusions().values())

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        arrivals = checked_arrivals(arrivals)
        with self._lock:
            return [self._accept_one(arrival) for arrival in arrivals]

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

    def check_writable(self) -> None:
        """Do nothing: memory takes every write."""

    def size_bytes(self) -> int:
        return 0

    def _change_round(self, study_digest: bytes, number: int, **changes: Any) -> None:
        with self._lock:
            round_ = (study_digest, number)
            self._rounds[round_] = replace(self._rounds[round_], **changes)

    def _summary(self, digest: bytes, signed: SignedStudy) -> StudyEntry:
        with self._lock:
            closed = sum(
                note.closed for (study, _), note in self._rounds.items() if study == digest
            )
        ended = self._conclusions.get(digest)
        if ended is None:
            return StudyEntry(digest, signed, StudyState.OPEN, "", "", closed)
        return StudyEntry(digest, signed, ended.state, ended.reason, ended.message, closed)

    def close(self) -> None:
        """Nothing to release."""


class _MemoryStudyLog:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def append(self, line: str) -> None:
        self._lines.append(line)

    def lines(self) -> Iterator[str]:
        return iter(tuple(self._lines))
