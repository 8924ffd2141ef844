"""Audit log of a process that serves: its recorder, and the log's end in the process's own log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from askance_aggregator.server.callers import AuditRecorder
from askance_aggregator.server.process.logs import logger
from askance_aggregator.store import AuditLog
from askance_client.errors import StoreError

_LOG = logger(__name__)


@contextmanager
def recording(log: AuditLog, now_s: Callable[[], int]) -> Iterator[AuditRecorder]:
    """Provide a recorder; at the end record the refusals that were only counted.

    The number and the digest of the last entry are logged at the start and at the end: `audit
    verify --expect` then finds a log that was cut off.

    Args:
      log: the store's.
      now_s: the time, in whole seconds since 1970, UTC.
    """
    recorder = AuditRecorder(log, now_s)
    _log_head(log)
    try:
        yield recorder
    finally:
        try:
            recorder.flush(all_of_them=True)
        except StoreError as error:
            _LOG.error("refusals were not recorded", error=str(error))
        _log_head(log)


def _log_head(log: AuditLog) -> None:
    try:
        head = log.head()
    except StoreError as error:
        _LOG.warning("the audit log cannot be read", error=str(error))
        return
    if head is not None:
        _LOG.info("audit log", entry=head.number, digest=head.digest.hex())
