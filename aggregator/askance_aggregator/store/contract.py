"""Interface of every store; one contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from askance_aggregator.store.audit import AuditLog
from askance_aggregator.store.backups import Manifest, RestoreNote
from askance_aggregator.store.certificates import CertificateStore
from askance_aggregator.store.listing import Listing, StudyEntry, StudyState
from askance_aggregator.store.management import Management
from askance_aggregator.store.outer import OuterReleases
from askance_aggregator.store.register import Register
from askance_aggregator.store.replicas import Replicas
from askance_aggregator.store.retention import Retention
from askance_aggregator.store.webhooks import WebhookQueue
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy

DIGEST_BYTES = 32
LEAF_KEY_BYTES = 32
DEVICE_ID_BYTES = 64  # at most; at least one
TOKEN_ID_BYTES = 16
MAX_SEQUENCE = (1 << 63) - 1
MAX_EVIDENCE = 4  # conflicting reports kept for one request and device: enough to prove a conflict


@dataclass(frozen=True, slots=True)
class EnrolledDevice:
    """A device that the aggregator knows.

    Args:
      ordinal: its place among the users.
      token_digest: SHA-256 of its token.
      gateway: the number of the gateway that it is a member of; 0: of none.
    """

    ordinal: int
    token_digest: bytes
    gateway: int = 0


@dataclass(frozen=True, slots=True)
class EnrolledGateway:
    """A gateway that the aggregator knows: its number, from 1, and its token's SHA-256."""

    number: int
    token_digest: bytes


class EnrolmentRefused(StoreError):
    """Devices that may not be taken up; none of them was."""


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Outcome of an enrolment: new devices, and devices that were enrolled already."""

    new: int
    known: int


@dataclass(frozen=True, slots=True)
class Conclusion:
    """End of a study, or of one epoch of a repeated one.

    Args:
      state: any but OPEN.
      reason: a word for programs.
      message: one line of text.
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
    """A round as it was noted.

    Args:
      deadline: None: it has none.
      age_s: seconds since it was first opened, by the store's clock.
    """

    deadline: Deadline | None
    closed: bool
    age_s: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class OpenRounds:
    """Rounds that take reports.

    Args:
      oldest_s: seconds since the oldest was first opened, by the store's clock; None: there is
        none, or it was opened before times were kept.
    """

    number: int
    oldest_s: int | None


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request that was asked: its study's digest, and whether its round or study is over."""

    study_digest: bytes
    over: bool


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """An ended epoch of a repeated study, without its transcript and its result."""

    epoch: int
    state: StudyState
    reason: str
    message: str
    max_asked_nano_nats: int


class StudyLog(Protocol):
    """A transcript of a study or of one of its epochs: lines, appended and never changed."""

    def append(self, line: str) -> None:
        """Add a line; it is durable when this returns."""
        ...

    def lines(self) -> Iterator[str]:
        """All lines, oldest first, as they are when this is called; read as they are taken."""
        ...


class Store(Protocol):
    """The aggregator's memory. Safe to share between threads.

    A repeated study has a transcript, rounds and a conclusion per epoch, under the epoch's index (1
    or more). What is kept under epoch 0 is the study's own: all of it if it collects once, its
    conclusion alone if it repeats.

    In a store that several processes share, only the process that holds a study's lease appends to
    its transcript, notes and closes its rounds and concludes it, if any process ever had a lease of
    it; otherwise these raise `LeaseLost`, and nothing is written.

    Every method raises StoreError when the store cannot be read or written; `log`, `open_round` and
    `conclude` also when there is no such study.
    """

    @property
    def replicas(self) -> Replicas:
        """The processes that share the store."""
        ...

    @property
    def audit(self) -> AuditLog:
        """The log of what callers and operators did."""
        ...

    @property
    def certificates(self) -> CertificateStore:
        """Certificates of devices and gateways."""
        ...

    @property
    def register(self) -> Register:
        """The operator's view of the devices."""
        ...

    @property
    def listing(self) -> Listing:
        """Lists of studies."""
        ...

    @property
    def management(self) -> Management:
        """Paused studies, and times of submission."""
        ...

    @property
    def webhooks(self) -> WebhookQueue:
        """Ends of studies on their way to webhooks."""
        ...

    @property
    def outer(self) -> OuterReleases:
        """Releases of tallies, and whose answers they count."""
        ...

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
        self,
        devices: Iterable[tuple[bytes, bytes]],
        token_id: bytes,
        limit: int,
        gateway: tuple[bytes, bytes] | None = None,
    ) -> Enrolled:
        """Enrol devices by an enrolment token, all or none, given as to `enrol`.

        The same device again, with the same token of its own, is known and stays as it is, but for
        its gateway.

        Args:
          devices: each as its id and the SHA-256 of its token.
          token_id: of the enrolment token, 16 bytes.
          limit: devices in all by this enrolment token.
          gateway: what the devices are members of from now on, given as a device is; it becomes
            known with them. None: new devices are members of none, known ones of what they were.

        Raises:
          EnrolmentRefused: an id that is known with another token, more than `limit` devices in all
            by this enrolment token, or a token that was revoked; nothing was changed.
          StoreError: ids or digests that `enrol` does not take either.
        """
        ...

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        """The device of that id, if it is enrolled."""
        ...

    def find_devices(self, device_ids: Sequence[bytes]) -> list[EnrolledDevice | None]:
        """Return the device of each id, None where it is not enrolled."""
        ...

    def gateway(self, gateway_id: bytes) -> EnrolledGateway | None:
        """The gateway of that id, if it is enrolled."""
        ...

    def population(self) -> int:
        """Number of ordinals that were given: they are 0 .. population-1.

        Those of forgotten devices are among them, and never given again.
        """
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

    def summary(self, digest: bytes) -> StudyEntry | None:
        """Return the summary of one study, None if there is none."""
        ...

    def count_studies(self) -> dict[StudyState, int]:
        """Return the number of studies in each state."""
        ...

    def log(self, study_digest: bytes, epoch: int = 0) -> StudyLog:
        """The transcript of a study, or of one of its epochs."""
        ...

    def keep_leaf_key(self, study_digest: bytes, fresh: bytes) -> bytes:
        """Return the secret from which the salts of a study's leaves follow; durable.

        All processes of a store that they share get one key. It is deleted with the reports.

        Args:
          study_digest: of a study that is stored.
          fresh: 32 random bytes, kept as the key of a study that has none yet.

        Raises:
          StoreError: there is no such study, its reports were deleted, or another number of bytes.
        """
        ...

    def leaf_key(self, study_digest: bytes) -> bytes | None:
        """Return a study's leaf key; None if it has none, or it was deleted with the reports."""
        ...

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
        epoch: int = 0,
    ) -> RoundNote:
        """Note that a round's requests are about to be asked, and its deadline.

        Returns:
          The round as it was noted first, with the deadline noted last.
        """
        ...

    def open_rounds(self) -> OpenRounds:
        """Return how many rounds take reports, and the age of the oldest."""
        ...

    def note_deadline(
        self, study_digest: bytes, number: int, deadline: Deadline, epoch: int = 0
    ) -> None:
        """Replace the deadline of a round that was noted."""
        ...

    def close_round(self, study_digest: bytes, number: int, epoch: int = 0) -> None:
        """Note that a round takes no more reports; for good."""
        ...

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        """Return the request of that digest; None if no round recorded it.

        It is over when its round has closed, or its epoch or its study has ended.
        """
        ...

    def conclude(
        self,
        study_digest: bytes,
        conclusion: Conclusion,
        epoch: int = 0,
        ended_unix_s: int | None = None,
    ) -> None:
        """Note how a study, or one of its epochs, ended, and when; StoreError if otherwise.

        The time is that of a study's end, in Unix seconds; None: `Retention.note_ends` notes one.
        """
        ...

    def epochs(self, study_digest: bytes) -> list[EpochEntry]:
        """Return the ended epochs of a study by index; none if it collects once.

        The end of the study itself is not among them.
        """
        ...

    def conclusions(self) -> dict[bytes, Conclusion]:
        """Return the ends of all studies that have ended, by digest; for checks of a store."""
        ...

    def conclusion(self, study_digest: bytes, epoch: int = 0) -> Conclusion | None:
        """Return the end of a study or of an epoch; None while it is open, or if it is unknown."""
        ...

    def study_costs(self) -> list[int]:
        """Return for each ended study the most nano-nats that a user was asked for, unordered."""
        ...

    def nano_nats_asked(self) -> int:
        """Return the sum over ended studies of the most nano-nats that a user was asked for."""
        ...

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        """Make a batch of reports durable in one transaction, each counted exactly once.

        The caller has checked that the request was asked of that user and that the report is one.

        Returns:
          For each arrival ACCEPTED (new), DUPLICATE (the same bytes are stored already) or CONFLICT
          (other bytes are; these are kept as evidence, the first `MAX_EVIDENCE` of them). In a
          store that several processes share, LATE if its round has closed or its study has ended:
          it is not stored. The one process of another store checks that itself.

        Raises:
          StoreError: nothing may be acknowledged. What became durable all the same is a duplicate
            when it is delivered again.
        """
        ...

    def acknowledged_sequence(self, ordinal: int) -> int:
        """Return the highest sequence number in the accepted reports of a user; 0 for none."""
        ...

    def acknowledged_sequences(self, ordinals: Sequence[int]) -> list[int]:
        """Return the highest sequence number of each user (see `acknowledged_sequence`)."""
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

    def back_up(self, path: Path, now_s: int) -> Manifest:
        """Write a backup to a new file, whole or not at all, while the store is written to."""
        ...

    def restores(self) -> list[RestoreNote]:
        """Return the restorations of backups into this store, the oldest first."""
        ...

    def restored_sequences(self) -> dict[int, int]:
        """Return the highest sequence numbers of users as the last restored backup had them.

        By ordinal; a user of none is absent.
        """
        ...

    @property
    def retention(self) -> Retention:
        """Deletion of what ended studies left."""
        ...

    def check_writable(self) -> None:
        """Write and remove 64 KiB durably."""
        ...

    def size_bytes(self) -> int:
        """Return the bytes that the store takes on its disk."""
        ...

    def close(self) -> None:
        """Release what the store holds; nothing else may be called afterwards."""
        ...
