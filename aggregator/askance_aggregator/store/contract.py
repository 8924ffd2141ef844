"""Interface of every store; one contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy

DIGEST_BYTES = 32
DEVICE_ID_BYTES = 64  # at most; at least one
TOKEN_ID_BYTES = 16
MAX_SEQUENCE = (1 << 63) - 1
MAX_EVIDENCE = 4  # conflicting reports kept for one request and device: enough to prove a conflict


@dataclass(frozen=True, slots=True)
class EnrolledDevice:
    """A device that the aggregator knows: its place among the users, its token's SHA-256."""

    ordinal: int
    token_digest: bytes


class EnrolmentRefused(StoreError):
    """Devices that may not be taken up; none of them was."""


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Outcome of an enrolment: new devices, and devices that were enrolled already."""

    new: int
    known: int


class StudyState(IntEnum):
    """State of a study. The numbers are the wire's."""

    OPEN = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4


@dataclass(frozen=True, slots=True)
class Conclusion:
    """End of a study.

    Args:
      state: any but OPEN.
      reason: a word for programs.
      message: one line of text.
      result_json: one JSON object.
      max_asked_nano_nats: the most nano-nats that any user was asked for.
    """

    state: StudyState
    reason: str
    message: str
    result_json: str
    max_asked_nano_nats: int = 0


class StoredReport(NamedTuple):
    """A report's bytes as they arrived, with the request and the user they answer for.

    `sequence` is the report's number in the device's ledger; 0: it has none.
    """

    request_digest: bytes
    ordinal: int
    data: bytes
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time at which a round closes.

    Args:
      boot: the steady clock that `at_ms` is on (see `clock.SteadyClock`).
      at_ms: the time on that clock, in milliseconds.
      left_ms: the time that was left when this was noted, for a process on another clock.
    """

    boot: str
    at_ms: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class RoundNote:
    """A round as it was noted: its deadline, None without one, and whether it has closed."""

    deadline: Deadline | None
    closed: bool


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request that was asked: its study's digest, and whether its round or study is over."""

    study_digest: bytes
    over: bool


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A stored study without its transcript and its result; reason and message are of its end."""

    digest: bytes
    signed: SignedStudy
    state: StudyState
    reason: str
    message: str
    rounds_closed: int


class StudyLog(Protocol):
    """A study's transcript: lines, appended and never changed."""

    def append(self, line: str) -> None:
        """Add a line; it is durable when this returns."""
        ...

    def lines(self) -> Iterator[str]:
        """All lines, oldest first, as they are when this is called."""
        ...


class Store(Protocol):
    """The aggregator's memory. Safe to share between threads."""

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        """Enrol devices, all or none, given as (device id, SHA-256 of its token).

        Returns:
          Their ordinals, which go on from the last one, in the order given.

        Raises:
          StoreError: an id that is enrolled already, given twice, empty or too long; a digest of
            another length than 32 bytes.
        """
        ...

    def enrol_with(
        self, devices: Iterable[tuple[bytes, bytes]], token_id: bytes, limit: int
    ) -> Enrolled:
        """Enrol devices by an enrolment token, all or none, given as to `enrol`.

        The same device again, with the same token of its own, is known and changes nothing.

        Raises:
          EnrolmentRefused: an id that is known with another token, or more than `limit` devices in
            all by this enrolment token; no device was enrolled.
          StoreError: ids or digests that `enrol` does not take either.
        """
        ...

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        """The device of that id, if it is enrolled."""
        ...

    def population(self) -> int:
        """Number of enrolled devices: ordinals are 0 .. population-1."""
        ...

    def add_study(self, digest: bytes, signed: SignedStudy) -> None:
        """Keep a study under the SHA-256 of its bytes; the same study again changes nothing.

        Raises:
          StoreError: another study or signature stands under that digest.
        """
        ...

    def studies(self) -> dict[bytes, SignedStudy]:
        """Return all studies by digest, oldest first; for checks of a whole store."""
        ...

    def study(self, digest: bytes) -> SignedStudy | None:
        """Return the study of that digest, None if there is none."""
        ...

    def open_studies(self) -> dict[bytes, SignedStudy]:
        """Return the studies that have not ended, by digest, oldest first."""
        ...

    def summaries(self, public_key: bytes) -> list[StudyEntry]:
        """Return the summaries of an analyst's studies, oldest first."""
        ...

    def summary(self, digest: bytes) -> StudyEntry | None:
        """Return the summary of one study, None if there is none."""
        ...

    def count_studies(self) -> dict[StudyState, int]:
        """Return the number of studies in each state."""
        ...

    def log(self, study_digest: bytes) -> StudyLog:
        """The transcript of a study.

        Raises:
          StoreError: there is no such study.
        """
        ...

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
    ) -> RoundNote:
        """Note that a round's requests are about to be asked, and its deadline.

        Returns:
          The round as it was noted first, with the deadline noted last.

        Raises:
          StoreError: there is no such study.
        """
        ...

    def note_deadline(self, study_digest: bytes, number: int, deadline: Deadline) -> None:
        """Replace the deadline of a round that was noted."""
        ...

    def close_round(self, study_digest: bytes, number: int) -> None:
        """Note that a round takes no more reports; for good."""
        ...

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        """Return the request of that digest; None if no round recorded it."""
        ...

    def conclude(self, study_digest: bytes, conclusion: Conclusion) -> None:
        """Note how a study ended.

        Raises:
          StoreError: there is no such study, or it ended otherwise.
        """
        ...

    def conclusions(self) -> dict[bytes, Conclusion]:
        """Return the ends of all studies that have ended, by digest; for checks of a store."""
        ...

    def conclusion(self, study_digest: bytes) -> Conclusion | None:
        """Return the end of a study; None while it is open, or if there is no such study."""
        ...

    def nano_nats_asked(self) -> int:
        """Return the sum over ended studies of the most nano-nats that a user was asked for."""
        ...

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        """Make a batch of reports durable in one transaction, each counted exactly once.

        The caller has checked that the request was asked of that user and that the report is one.

        Returns:
          For each arrival ACCEPTED (new), DUPLICATE (the same bytes are stored already) or CONFLICT
          (other bytes are; these are kept as evidence, the first `MAX_EVIDENCE` of them).

        Raises:
          StoreError: nothing may be acknowledged. What became durable all the same is a duplicate
            when it is delivered again.
        """
        ...

    def acknowledged_sequence(self, ordinal: int) -> int:
        """Return the highest sequence number in the accepted reports of a user; 0 for none."""
        ...

    def reports(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the accepted reports of a request, (ordinal, bytes), in the order of ordinals."""
        ...

    def report(self, request_digest: bytes, ordinal: int) -> bytes | None:
        """Return the report accepted from one user for a request."""
        ...

    def evidence(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        """The refused reports of a request: (ordinal, bytes), by ordinal, oldest first."""
        ...

    def check_writable(self) -> None:
        """Write and remove 64 KiB durably.

        Raises:
          StoreError: the store takes no writes now.
        """
        ...

    def size_bytes(self) -> int:
        """Return the bytes that the store takes on its disk; 0 for one in memory."""
        ...

    def close(self) -> None:
        """Release what the store holds; nothing else may be called afterwards."""
        ...


def checked_devices(devices: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The devices as a list, each of which could be enrolled in an empty store."""
    listed = list(devices)
    seen: set[bytes] = set()
    for place, (device_id, token_digest) in enumerate(listed):
        if not 1 <= len(device_id) <= DEVICE_ID_BYTES:
            raise StoreError(
                f"enrolment: expected ids of 1 to {DEVICE_ID_BYTES} bytes,"
                f" found {len(device_id)} at device {place}"
            )
        if len(token_digest) != DIGEST_BYTES:
            raise StoreError(
                f"enrolment: expected token digests of {DIGEST_BYTES} bytes,"
                f" found {len(token_digest)} at device {place}"
            )
        if device_id in seen:
            raise StoreError(f"enrolment: expected distinct ids, found device {place} again")
        seen.add(device_id)
    return listed


def checked_arrivals(arrivals: Sequence[StoredReport]) -> Sequence[StoredReport]:
    """The arrivals, each of a form that a store keeps."""
    for arrival in arrivals:
        if len(arrival.request_digest) != DIGEST_BYTES or arrival.ordinal < 0:
            raise StoreError(
                f"reports: expected a digest of {DIGEST_BYTES} bytes and an ordinal of 0 or more,"
                f" found {len(arrival.request_digest)} bytes and {arrival.ordinal}"
            )
        if not 0 <= arrival.sequence <= MAX_SEQUENCE:
            raise StoreError(
                f"reports: expected a sequence number of 0 to 2^63 - 1, got {arrival.sequence}"
            )
    return arrivals


def checked_enrolment(
    devices: Iterable[tuple[bytes, bytes]], token_id: bytes
) -> list[tuple[bytes, bytes]]:
    """The devices of an enrolment by token, as `checked_devices` has them."""
    if len(token_id) != TOKEN_ID_BYTES:
        raise StoreError(
            f"enrolment: expected a token id of {TOKEN_ID_BYTES} bytes, found {len(token_id)}"
        )
    return checked_devices(devices)


def refuse_other_token(place: int) -> EnrolmentRefused:
    """The refusal of a device that is known with another token of its own."""
    return EnrolmentRefused(
        f"enrolment: expected new devices or their own tokens, found device {place} enrolled with"
        " another"
    )


def refuse_more_devices(limit: int, used: int) -> EnrolmentRefused:
    """The refusal of more devices than an enrolment token is for."""
    return EnrolmentRefused(
        f"enrolment: expected at most {limit} devices by this enrolment token, found {used}"
    )


def unknown_study(digest: bytes) -> StoreError:
    """The complaint about a study that is not stored."""
    return StoreError(f"study {digest.hex()[:16]}: expected a stored one, got none")


def concluded_otherwise(digest: bytes) -> StoreError:
    """The complaint about a second end of a study."""
    return StoreError(f"study {digest.hex()[:16]}: expected no other conclusion, found one stored")
