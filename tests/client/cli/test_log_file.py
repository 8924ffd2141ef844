"""The log of a device in a file: for its owner only, bounded, and without values."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_client.cli import event_log
from askance_client.cli.event_log import Journal, start_log


@pytest.fixture(autouse=True)
def _without_handlers() -> Iterator[None]:
    logger = logging.getLogger("askance.device")
    before = list(logger.handlers), logger.level, logger.propagate
    yield
    for handler in set(logger.handlers) - set(before[0]):
        handler.close()
        logger.removeHandler(handler)
    logger.level, logger.propagate = before[1:]


def test_a_log_stays_within_its_bound_and_belongs_to_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MAX_LOG_BYTES", 1_000)
    start_log(tmp_path / "log")
    journal = Journal()
    for number in range(200):
        journal.say(f"line {number}")
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["log", "log.1", "log.2", "log.3"]
    assert all(file.stat().st_size <= 1_000 for file in files)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert (tmp_path / "log").read_text().endswith("line 199\n")


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for word in ("first", "second"):
        start_log(tmp_path / "log")
        Journal().say(word)
        logger = logging.getLogger("askance.device")
        logger.removeHandler(logger.handlers[-1])
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["first", "second"]
    assert all(line[:20].endswith("Z") for line in lines)
