"""Event log of a running device: one line per event on stderr, counts rather than names."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from threading import Lock

from askance_client.messages import Reason, Refusal
from askance_client.printable import printable
from askance_client.service.clock import steady_ms, utc

MAX_LOG_BYTES = 8 << 20
"""Bytes of a log's file; with the older ones 32 MiB, some 300,000 lines."""

_OLDER_LOGS = 3
_EVERY_S = 2  # seconds whose events make one line of counts
_MAX_WARNINGS = 20  # printed for one file
_TEXTS = 8  # of refusals, within that time: a hostile aggregator could fill the log with them
_SOURCE_EVERY_MS = 60_000  # between two lines about record sources
_LOGGER = logging.getLogger("askance.device")


def start_log(file: Path | None = None) -> None:
    """Send the journal's lines to a file or, without one, to stderr, with the time in UTC.

    Args:
      file: readable by its owner only. Past `MAX_LOG_BYTES` it is renamed to FILE.1, and older ones
        to FILE.2 and so on; `_OLDER_LOGS` of them are kept.
    """
    handler = logging.StreamHandler(sys.stderr) if file is None else _rotating(file)
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = utc
    handler.setFormatter(formatter)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def _rotating(file: Path) -> logging.Handler:
    """A handler whose files belong to their owner and do not grow past the limit."""
    from logging.handlers import RotatingFileHandler  # its parts take memory of every device

    class OwnFile(RotatingFileHandler):
        """Makes its files readable by their owner only."""

        def _open(self) -> TextIOWrapper:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            return open(descriptor, "a", encoding="utf-8")

    return OwnFile(file, maxBytes=MAX_LOG_BYTES, backupCount=_OLDER_LOGS, encoding="utf-8")


def warn(warnings: Sequence[str]) -> None:
    """Print the first warnings to stderr, one per line, and the number of the others."""
    for warning in warnings[:_MAX_WARNINGS]:
        print(f"askance: {warning}", file=sys.stderr)
    if len(warnings) > _MAX_WARNINGS:
        others = len(warnings) - _MAX_WARNINGS
        print(f"askance: {others} more rows with warnings", file=sys.stderr)


class SourceLog:
    """Failures of record sources, one line per minute; safe to call from several threads.

    The line is always this one: a text, a type or a number of what failed may follow from the
    record. `device doctor` reads the source and says why.
    """

    def __init__(self, now_ms: Callable[[], int], write: Callable[[str], None]) -> None:
        self._now_ms = now_ms
        self._write = write
        self._lock = Lock()
        self._next_ms = 0

    def failed(self, failure: Exception) -> None:
        """Log a failure, unless there was one in the minute before."""
        now_ms = self._now_ms()
        with self._lock:
            if now_ms < self._next_ms:
                return
            self._next_ms = now_ms + _SOURCE_EVERY_MS
        self._write("record source failed (device doctor says why)")


class Journal:
    """Write events of a gateway to the log (see `Watcher`).

    No line has a value, a symbol or a member's name in it, nor a number or text that follows from
    a record.
    """

    def __init__(self) -> None:
        self._answered = 0
        self._refused: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()
        self._due: asyncio.TimerHandle | None = None
        self._sources = SourceLog(steady_ms, _LOGGER.warning)

    def say(self, message: str) -> None:
        """A line of its own."""
        _LOGGER.info(message)

    def answered(self, refusal: Reason | None) -> None:
        """Count one more answer, or one more refusal for that reason."""
        if refusal is None:
            self._answered += 1
        else:
            self._refused[refusal.name] += 1
        self._soon()

    def refused(self, refusal: Refusal) -> None:
        """Keep a refusal's text, if there were few others lately."""
        text = f"{refusal.reason.name}: {printable(refusal.message)}"
        if text in self._texts or len(self._texts) < _TEXTS:
            self._texts[text] += 1
            self._soon()

    def failed(self, failure: str) -> None:
        """Count one more failure of an exchange, ledger or evaluation."""
        self._failed[failure] += 1
        self._soon()

    def source_failed(self, failure: Exception) -> None:
        """Log a record source's failure, in any thread."""
        self._sources.failed(failure)

    def connection(self, number: int, *, up: bool) -> None:
        """A connection came to be, or was lost."""
        if up:
            _LOGGER.info("connected")
        else:
            _LOGGER.warning("connection lost")

    def flush(self) -> None:
        """Write down what has been counted."""
        self._due = None
        if self._answered:
            _LOGGER.info("answered count=%d", self._answered)
        for reason, count in sorted(self._refused.items()):
            _LOGGER.info("refused count=%d reason=%s", count, reason)
        for text, count in self._texts.most_common():
            _LOGGER.info("refused count=%d text=%r", count, text)
        for failure, count in self._failed.most_common():
            _LOGGER.warning("failed count=%d failure=%r", count, failure)
        self._answered = 0
        self._refused.clear()
        self._failed.clear()
        self._texts.clear()

    def _soon(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_EVERY_S, self.flush)
