"""Collector of what ended studies left, and of devices that have lapsed.

Reports are deleted first, results later; open studies are not touched.

The days of a study count from the time at which the collector noted its end, so they are never
fewer than signed. A clock that was set back only delays a deletion.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from askance_aggregator.store import KeptStudy, Store, StudyNotEnded
from askance_aggregator.studies.keep import UNLIMITED, Keep, keep_of
from askance_client.codec import decode_study
from askance_client.errors import AskanceError, StoreError
from askance_client.ledger import SECONDS_PER_DAY

_LOGGER = logging.getLogger(__name__)
ROWS_AT_ONCE = 5_000
"""Rows of reports that one transaction removes: some 12 ms, which other reports may wait."""
_PAUSE_S = 0.02  # between two of them, for the reports that wait


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """An operator's days.

    Args:
      default: days of studies that sign none.
      most: upper bounds on signed days.
      every_s: seconds between two collections.
    """

    default: Keep = UNLIMITED
    most: Keep = UNLIMITED
    every_s: int = 3_600


KEEP_ALL = KeepLimits()


@dataclass(frozen=True, slots=True)
class Collected:
    """Outcome of a collection."""

    reports_of: int  # studies whose reports were deleted, or whose deletion was completed
    results_of: int  # studies whose results were deleted
    rows: int  # removed one by one; a store that drops reports together counts none
    devices: int = 0  # that have lapsed and were forgotten


class Collector:
    """Deletes what is due; for one thread, but for `wake`.

    Args:
      pause: waits for a number of seconds between two steps; returns True to stop.
      lapse_after_days: a device that has not called on more days, of those on which any has, is
        forgotten; None: none is.
    """

    def __init__(
        self,
        store: Store,
        limits: KeepLimits,
        now_s: Callable[[], int],
        pause: Callable[[float], bool],
        lapse_after_days: int | None = None,
    ) -> None:
        self._store = store
        self._limits = limits
        self._now_s = now_s
        self._pause = pause
        self._lapse_after_days = lapse_after_days
        self._woken = threading.Event()

    def wake(self) -> None:
        """Let `run` collect at once; for any thread."""
        self._woken.set()

    def run(self, stopping: threading.Event) -> None:
        """Collect now, at every interval and when woken, until `stopping` is set and `wake` called.

        A store that fails is tried again at the next time.
        """
        while not stopping.is_set():
            self._woken.clear()
            try:
                found = self.collect()
            except StoreError as error:
                _LOGGER.error("a collection waits for the store", exc_info=error)
            else:
                if found != Collected(0, 0, 0):
                    _LOGGER.info(
                        "deleted what was due",
                        extra={
                            "reports_of": found.reports_of,
                            "results_of": found.results_of,
                            "rows": found.rows,
                            "devices": found.devices,
                        },
                    )
            self._woken.wait(self._limits.every_s)

    def collect(self) -> Collected:
        """Delete what is due now, and complete deletions that were interrupted or asked for.

        Raises:
          StoreError: the store failed; what was deleted stays deleted.
        """
        retention, now_s = self._store.retention, self._now_s()
        retention.note_ends(now_s)
        reports_of = results_of = rows = 0
        for kept in retention.kept():
            keep = self._keep(kept)
            reports_due = kept.reports_deleted_unix_s is None and _due(
                kept, keep.reports_days, now_s
            )
            results_due = kept.results_deleted_unix_s is None and _due(
                kept, keep.results_days, now_s
            )
            if reports_due:
                retention.delete_reports(kept.digest, now_s)
            if reports_due or kept.rows_left:
                reports_of += 1
                rows += self._remove(kept.digest)
            if results_due:
                retention.delete_results(kept.digest, now_s)
                results_of += 1
        return Collected(reports_of, results_of, rows, self._lapse(now_s))

    def _lapse(self, now_s: int) -> int:
        """Forget devices that have lapsed; return how many."""
        # A device's absence is counted in days on which any other one has called. On a day without
        # a call the service was down, or was not reached. A wrong clock adds no such days: the
        # register takes later ones back at a call of an earlier day.
        if self._lapse_after_days is None:
            return 0
        today = now_s // SECONDS_PER_DAY
        before_day = self._store.register.called_day(today, self._lapse_after_days)
        if before_day is None:
            return 0
        gone = 0
        for part in self._store.register.lapse(before_day):
            gone += part
            if self._pause(_PAUSE_S):
                break  # the rest at the next start
        return gone

    def _remove(self, digest: bytes) -> int:
        """Remove the rows of a study's deleted reports, a part at a time; return how many."""
        removed = 0
        while part := self._store.retention.remove_rows(digest, ROWS_AT_ONCE):
            removed += part
            if self._pause(_PAUSE_S):
                break  # the rest at the next start
        return removed

    def _keep(self, kept: KeptStudy) -> Keep:
        """Return the days of a study; none are limited if it signs what this operator refuses."""
        signed = self._store.study(kept.digest)
        if signed is None:
            raise StudyNotEnded(f"study {kept.digest.hex()[:16]}: expected a stored one, got none")
        try:
            own = keep_of(decode_study(signed.study))
        except AskanceError:  # written by another version: only its analyst deletes it
            return UNLIMITED
        most = self._limits.most
        bounded = Keep(
            _least(own.reports_days, most.reports_days), _least(own.results_days, most.results_days)
        )
        return bounded.within(self._limits.default, most)


def _least(signed: int | None, most: int | None) -> int | None:
    """Return the signed days, or the bound if an operator has lowered it since."""
    return signed if signed is None or most is None else min(signed, most)


def _due(kept: KeptStudy, days: int | None, now_s: int) -> bool:
    return days is not None and kept.ended_unix_s + days * SECONDS_PER_DAY <= now_s
