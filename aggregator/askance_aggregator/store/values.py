"""Values that a store takes and returns, and bounds on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from askance_aggregator.store.listing import StudyState
from askance_client.errors import StoreError

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
