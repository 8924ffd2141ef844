"""Lists of studies: a part at a time, newest first, by state, analyst and digest."""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Generic, Protocol, TypeVar

from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.printable import value_text

MAX_STUDIES = 500  # of one part: some 100 KB on the wire
_DIGITS = 64  # of a public key, and of a digest


class StudyState(IntEnum):
    """State of a study. The numbers are the wire's."""

    OPEN = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A stored study without its transcript and its result; reason and message are of its end.

    `rounds_closed` are those of its latest epoch, all of them if it collects once.
    """

    digest: bytes
    signed: SignedStudy
    state: StudyState
    reason: str
    message: str
    rounds_closed: int


class ListedState(StrEnum):
    """State by which studies are listed; a scheduled study is open."""

    OPEN = "open"  # and not paused
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> StudyState | None:
        """State of a study that has ended; None of one that is open."""
        return None if self in (ListedState.OPEN, ListedState.PAUSED) else StudyState[self.name]


@dataclass(frozen=True, slots=True)
class StudyQuery:
    """Part of a list of studies.

    Args:
      state: of the studies listed; None: any.
      analyst: hexadecimal digits that begin their analyst's public key; empty: any.
      study: hexadecimal digits that begin their digest; empty: any.
      cursor: digest of the study beside which the part begins; empty: at an end of the list.
      newer: whether the part is newer than the cursor, and not older; without one, whether it is
        the oldest part.
      limit: studies at most, 1 to 500; None: all.

    Raises:
      InvalidParameter: a limit, or digits, of no list.
    """

    state: ListedState | None = None
    analyst: str = ""
    study: str = ""
    cursor: bytes = b""
    newer: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit <= MAX_STUDIES:
            raise InvalidParameter(f"limit: expected 1 to {MAX_STUDIES} studies, got {self.limit}")
        for name, digits in (("analyst", self.analyst), ("study", self.study)):
            if len(digits) > _DIGITS or not set(digits) <= set(string.hexdigits):
                raise InvalidParameter(
                    f"{name}: expected at most {_DIGITS} hexadecimal digits,"
                    f" got {value_text(digits[:80])}"
                )


class ListedStudy(Protocol):
    """Study in a list."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the study."""
        ...


T_co = TypeVar("T_co", bound=ListedStudy, covariant=True)


@dataclass(frozen=True, slots=True)
class StudyExtent:
    """List of which a query was answered with a part.

    Args:
      fitting: number of studies that fit the query, on all its parts.
      total: number of studies of the list, whatever the query says.
      more: whether there is another part in the query's direction.
    """

    fitting: int
    total: int
    more: bool


@dataclass(frozen=True, slots=True)
class StudyList(Generic[T_co]):
    """Part of a list of studies: of stored entries, of statuses, or of what a caller receives.

    Args:
      studies: the newest first.
      extent: of the list.
    """

    studies: tuple[T_co, ...]
    extent: StudyExtent


class Listing(Protocol):
    """Lists of the studies of a store."""

    def page(self, query: StudyQuery, owner: bytes | None = None) -> StudyList[StudyEntry]:
        """Return a part of the list of studies.

        Args:
          query: the part.
          owner: public key of the analyst whose studies the list has; None: of all analysts.

        Raises:
          InvalidParameter: the cursor is no study of the list.
        """
        ...


def unknown_cursor(cursor: bytes) -> InvalidParameter:
    """Return the refusal of a cursor that is no study of the list."""
    return InvalidParameter(
        f"cursor: expected the digest of a listed study, got {value_text(cursor.hex()[:64])}"
    )


def key_range(digits: str) -> tuple[bytes, bytes]:
    """Return the least and the greatest value of 32 bytes that begins with hexadecimal digits."""
    return bytes.fromhex(digits.ljust(_DIGITS, "0")), bytes.fromhex(digits.ljust(_DIGITS, "f"))
