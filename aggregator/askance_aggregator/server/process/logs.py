"""Logs: one JSON object a line, or a coloured line on a terminal.

Everything that is logged in the process passes here: our own events and what the service logs
through `logging`. An event is a few fixed words; what varies stands in fields. Of other libraries'
records only the first line of the unformatted text is kept, and of an exception that is not one of
ours its type and where it came from: what they would say may repeat what they were given.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

import structlog
from grpc import aio
from structlog.stdlib import BoundLogger, ExtraAdder, ProcessorFormatter
from structlog.typing import Processor

from askance_client.errors import AskanceError

_OURS = frozenset({"askance", "askance_client", "askance_aggregator", "askance_simulation"})
_FRAMES = 12  # the innermost: where it went wrong
Event = MutableMapping[str, Any]


def logger(name: str) -> BoundLogger:
    """Return a logger for operational events: `logger(__name__).info("serving", address=...)`."""
    found: BoundLogger = structlog.stdlib.get_logger(name)
    return found


@contextmanager
def logs_to(stream: TextIO, level: str) -> Iterator[None]:
    """Send every log record of this process of a level ("info") or above to a stream, meanwhile."""
    handler = logging.StreamHandler(stream)
    handler.addFilter(_tame)
    handler.setFormatter(_formatter(_renderer(stream)))
    root = logging.getLogger()
    before, hook = root.level, threading.excepthook
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_dated(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=BoundLogger,
    )
    root.addHandler(handler)
    root.setLevel(level.upper())
    threading.excepthook = _thread_failed
    try:
        yield
    finally:
        threading.excepthook = hook
        root.setLevel(before)
        root.removeHandler(handler)
        structlog.reset_defaults()


def _dated() -> list[Processor]:
    return [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]


def _formatter(renderer: Processor) -> ProcessorFormatter:
    return ProcessorFormatter(
        foreign_pre_chain=[ExtraAdder(), *_dated()],
        keep_exc_info=False,  # it would be printed whole
        processors=[ProcessorFormatter.remove_processors_meta, _say_failure, renderer],
    )


def _renderer(stream: TextIO) -> Processor:
    if stream.isatty():
        return structlog.dev.ConsoleRenderer(timestamp_key="time")
    return structlog.processors.JSONRenderer(ensure_ascii=False)


def _tame(record: logging.LogRecord) -> bool:
    """Take out of another library's record whatever may repeat what the library was given.

    Returns:
      False for a record to leave out: gRPC logs as an error that it could not send the end of a
      call whose caller has gone, which any caller can cause.
    """
    if record.name.split(".")[0] not in _OURS:
        if record.exc_info and isinstance(record.exc_info[1], aio.InternalError):
            return False
        record.msg = str(record.msg).partition("\n")[0]
        record.args = ()
    return True


def _say_failure(_: object, __: str, event: Event) -> Event:
    """Replace an exception by the part of it that may be logged."""
    found = event.pop("exc_info", None)
    error = sys.exc_info()[1] if found is True else found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["error"] = type(error).__name__
        if isinstance(error, AskanceError):
            event["message"] = str(error)
        event["at"] = _places(error.__traceback__)
    return event


def _places(trace: TracebackType | None) -> list[str]:
    frames = list(traceback.walk_tb(trace))[-_FRAMES:]
    return [
        f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_name}"
        for frame, line in frames
    ]


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    logger(__name__).error("a thread ended in an error", exc_info=failed.exc_value)
