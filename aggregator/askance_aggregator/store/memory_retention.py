"""Deletion in the store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from askance_aggregator.store.retention import KeptStudy, not_ended


class MemoryRetention:
    """See `Retention`.

    Args:
      lock: of the store.
      ended: returns the digests of the studies that have ended.
      drop_reports: forgets a study's reports and returns how many there were.
      drop_results: forgets a study's transcripts and results.
    """

    def __init__(
        self,
        lock: threading.Lock,
        ended: Callable[[], list[bytes]],
        drop_reports: Callable[[bytes], int],
        drop_results: Callable[[bytes], None],
    ) -> None:
        self._lock = lock
        self._ended = ended
        self._drop_reports = drop_reports
        self._drop_results = drop_results
        self._kept: dict[bytes, KeptStudy] = {}

    def note_ends(self, now_s: int) -> int:
        ended = self._ended()
        with self._lock:
            fresh = [digest for digest in ended if digest not in self._kept]
            self._kept.update((digest, KeptStudy(digest, now_s)) for digest in fresh)
        return len(fresh)

    def kept(self) -> list[KeptStudy]:
        with self._lock:
            return sorted(self._kept.values(), key=lambda one: one.ended_unix_s)

    def of(self, digest: bytes) -> KeptStudy | None:
        return self._kept.get(digest)

    def delete_reports(self, digest: bytes, now_s: int) -> None:
        if digest not in self._ended():
            raise not_ended(digest)
        with self._lock:
            found = self._kept.setdefault(digest, KeptStudy(digest, now_s))
            if found.reports_deleted_unix_s is None:
                self._kept[digest] = replace(found, reports_deleted_unix_s=now_s, rows_left=True)

    def remove_rows(self, digest: bytes, most: int) -> int:
        with self._lock:
            found = self._kept.get(digest)
            if found is None or not found.rows_left:
                return 0
            self._kept[digest] = replace(found, rows_left=False)
            return self._drop_reports(digest)

    def delete_results(self, digest: bytes, now_s: int) -> None:
        self.delete_reports(digest, now_s)
        with self._lock:
            found = self._kept[digest]
            if found.results_deleted_unix_s is None:
                self._kept[digest] = replace(found, results_deleted_unix_s=now_s)
                self._drop_results(digest)
