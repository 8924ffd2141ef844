"""A log says what happened and to which study, and repeats nothing that it was given."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from grpc import aio

from askance_aggregator.server.process.logs import logger, logs_to
from askance_client.errors import StoreError

SECRET = "zzyzx"


class Log(io.StringIO):
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def only(self) -> dict[str, Any]:
        (event,) = self.events()
        return event


@pytest.fixture
def log() -> Iterator[Log]:
    stream = Log()
    with logs_to(stream, "info"):
        yield stream


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_event_is_one_object_with_its_level_and_time(log: Log) -> None:
    logger("askance.test").info("serving", address="127.0.0.1:1", studies_resumed=2)
    event = log.only()
    assert event.pop("time").endswith("Z")
    assert event == {
        "event": "serving",
        "level": "info",
        "address": "127.0.0.1:1",
        "studies_resumed": 2,
    }


def test_what_the_service_logs_is_an_event_with_fields_too(log: Log) -> None:
    logging.getLogger("askance.test").warning("a study cannot go on", extra={"study": "ab" * 8})
    assert log.only()["event"] == "a study cannot go on"
    assert log.only()["study"] == "ab" * 8


def test_less_than_the_level_is_not_logged(log: Log) -> None:
    logger("askance.test").debug("much")
    logging.getLogger("askance.test").debug("more")
    assert log.getvalue() == ""


def test_an_error_of_ours_is_told_with_its_place(log: Log) -> None:
    error = raised(StoreError("store: expected a disk, found none"))
    logging.getLogger("askance.test").error("a call failed", exc_info=error)
    event = log.only()
    assert event["error"] == "StoreError"
    assert event["message"] == "store: expected a disk, found none"
    assert event["at"][-1].endswith(" raised")


@pytest.mark.parametrize("name", ["askance.test", "asyncio"])
def test_what_another_error_says_is_not_repeated(name: str, log: Log) -> None:
    error = raised(ValueError(f"could not read {SECRET}"))
    logging.getLogger(name).error("a call failed", exc_info=error)
    assert SECRET not in log.getvalue()
    assert log.only()["error"] == "ValueError"
    assert log.only()["at"][-1].endswith(" raised")


def test_of_another_library_only_the_fixed_words_are_kept(log: Log) -> None:
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: %s", SECRET)
    logging.getLogger("grpc").warning("%s came", SECRET)
    assert [event["event"] for event in log.events()] == [
        "Task exception was never retrieved",
        "%s came",
    ]


def test_a_thread_that_fails_is_logged(log: Log) -> None:
    def fail() -> None:
        raise ValueError(SECRET)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert log.only()["event"] == "a thread ended in an error"
    assert SECRET not in log.getvalue()


def test_a_person_reads_lines_instead() -> None:
    class Terminal(Log):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with logs_to(stream, "info"):
        logger("askance.test").info("serving", address="127.0.0.1:1")
    assert "serving" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_afterwards_logging_is_as_it_was(log: Log) -> None:
    root, hook = logging.getLogger(), threading.excepthook
    before = list(root.handlers), root.level
    with logs_to(io.StringIO(), "debug"):
        pass
    assert (list(root.handlers), root.level, threading.excepthook) == (*before, hook)


def test_a_caller_that_has_gone_is_no_error(log: Log) -> None:
    """GRPC logs that it could not send the end of a call; any caller can cause it at will."""
    grpc_log = logging.getLogger("grpc._cython.cygrpc")
    gone = raised(aio.InternalError("execute_batch"))
    grpc_log.error("Exception not handled by _handle_exceptions in servicer", exc_info=gone)
    assert log.events() == []
    grpc_log.error("Unexpected [KeyError] raised by servicer method", exc_info=raised(KeyError()))
    assert log.only()["level"] == "error"
