"""Management of studies: those that are paused, and when each was submitted.

A study that is paused stays open and asks nothing new; the note outlives the process. The time of a
submission is what an analyst's quotas are counted by.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SubmissionNote:
    """Submission of a study.

    Args:
      digest: of the study.
      at_unix_s: when it was accepted, in whole seconds since 1970, UTC.
    """

    digest: bytes
    at_unix_s: int


class Management(Protocol):
    """Notes about studies that their analysts and operators manage; durable when they return."""

    def pause(self, digest: bytes) -> None:
        """Note that a study is paused; again changes nothing.

        Raises:
          StoreError: there is no such study.
        """
        ...

    def unpause(self, digest: bytes) -> None:
        """Note that a study is not paused; again changes nothing."""
        ...

    def paused(self) -> frozenset[bytes]:
        """Return the digests of the studies that are paused."""
        ...

    def note_submission(self, digest: bytes, at_unix_s: int) -> None:
        """Note when a study was accepted; the first note stays.

        Raises:
          StoreError: there is no such study.
        """
        ...

    def submissions(self, public_key: bytes) -> list[SubmissionNote]:
        """Return the submissions of an analyst that were noted, oldest first."""
        ...


class MemoryManagement:
    """See `Management`.

    Args:
      key_of: returns the public key of a study's analyst.

    Raises:
      StoreError: of `key_of`, for a study that is not stored.
    """

    def __init__(self, key_of: Callable[[bytes], bytes]) -> None:
        self._key_of = key_of
        self._lock = threading.Lock()
        self._paused: set[bytes] = set()
        self._submitted: dict[bytes, int] = {}

    def pause(self, digest: bytes) -> None:
        self._key_of(digest)
        with self._lock:
            self._paused.add(digest)

    def unpause(self, digest: bytes) -> None:
        with self._lock:
            self._paused.discard(digest)

    def paused(self) -> frozenset[bytes]:
        with self._lock:
            return frozenset(self._paused)

    def note_submission(self, digest: bytes, at_unix_s: int) -> None:
        self._key_of(digest)
        with self._lock:
            self._submitted.setdefault(digest, at_unix_s)

    def submissions(self, public_key: bytes) -> list[SubmissionNote]:
        with self._lock:
            noted = list(self._submitted.items())
        own = [SubmissionNote(*item) for item in noted if self._key_of(item[0]) == public_key]
        return sorted(own, key=lambda note: note.at_unix_s)
