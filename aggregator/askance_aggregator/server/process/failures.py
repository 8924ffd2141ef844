"""Failures of the machine under an aggregator: counted, logged and shown by its health."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from askance_aggregator.server.process.logs import logger
from askance_client.errors import StoreError, StoreFailed

STORE, DESCRIPTORS = "store", "descriptors"
KINDS = (STORE, DESCRIPTORS)
# In a row: one failure may be an accident that the next try mends, three are a state.
FAILURES_TO_STOP_SERVING = 3
_LOG_EVERY_S = 60.0  # per kind: a full disk fails hundreds of commits per second
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

_LOG = logger(__name__)


class Counters(Protocol):
    """Metrics of failures."""

    def commit_failed(self) -> None:
        """Count a failure of the store."""

    def descriptors_exhausted(self) -> None:
        """Count a failure to open a file or to accept a connection."""

    def failures_in_a_row(self, kind: str, count: int) -> None:
        """Show the failures of a kind since its last success."""


class Writable(Protocol):
    """A store whose disk can be tried."""

    def check_writable(self) -> None:
        """Write and remove something durably; raises StoreError."""


@dataclass(slots=True)
class _Row:
    failures: int = 0
    logged_s: float = float("-inf")
    unlogged: int = 0


class Failures:
    """Failures in a row per kind; a store's observer (see `store.StoreWatch`). For any thread.

    `on_change` is called with whether the aggregator is to be taken out of service.
    """

    def __init__(
        self,
        counters: Counters,
        on_change: Callable[[bool], None],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters = counters
        self._on_change = on_change
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._rows = {kind: _Row() for kind in KINDS}
        self._failing = False

    def store_written(self) -> None:
        self._worked(STORE)

    def store_failed(self, error: StoreFailed) -> None:
        self._counters.commit_failed()
        self._failed(STORE, error)

    def look(self, store: Writable) -> None:
        """Try to open a file, and to write to a store that fails.

        Without traffic nothing else would show that the disk has space again.
        """
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                self._counters.descriptors_exhausted()
                self._failed(DESCRIPTORS, error)
        else:
            self._worked(DESCRIPTORS)
        if self._rows[STORE].failures:
            try:
                store.check_writable()
            except StoreError:
                return  # the store's observer, which is this object, has noted it

    def _failed(self, kind: str, error: Exception) -> None:
        with self._lock:
            row, now_s = self._rows[kind], self._monotonic_s()
            row.failures += 1
            self._show(kind)
            if now_s - row.logged_s < _LOG_EVERY_S:
                row.unlogged += 1
                return
            unlogged, row.unlogged, row.logged_s = row.unlogged, 0, now_s
            failures = row.failures
        _LOG.error(
            f"{kind}: failing", failures_in_a_row=failures, not_logged=unlogged, exc_info=error
        )

    def _worked(self, kind: str) -> None:
        if not self._rows[kind].failures:
            return
        with self._lock:
            failures, self._rows[kind] = self._rows[kind].failures, _Row()
            self._show(kind)
        _LOG.warning(f"{kind}: works again", failures_in_a_row=failures)

    def _show(self, kind: str) -> None:
        self._counters.failures_in_a_row(kind, self._rows[kind].failures)
        failing = any(row.failures >= FAILURES_TO_STOP_SERVING for row in self._rows.values())
        if failing != self._failing:
            self._failing = failing
            self._on_change(failing)
