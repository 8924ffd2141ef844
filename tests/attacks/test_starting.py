"""Calls that come while an aggregator starts: it listens before it goes on with its studies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.server.process import process
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_aggregator.server.process.reloading import Rereading
from askance_aggregator.server.studies import StudyManager
from tests.aggregator.server.process.conftest import made


def test_a_study_that_comes_in_at_the_start_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, the study was counted when it was submitted, and found in the store a moment later."""
    happened: list[str] = []

    def record_call(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def telling(*arguments: Any, **named: Any) -> Any:
            happened.append(name)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, telling)

    record_call(PrometheusObserver, "studies_found")
    record_call(AggregatorServer, "start")
    record_call(StudyManager, "resume")
    stopping = threading.Event()
    stopping.set()
    home = made(tmp_path / "aggregator", now_s=1_700_000_000)
    configuration = read_configuration(home.configuration)
    rereading = Rereading(threading.Event(), lambda: configuration)
    process.serve(configuration, stopping=stopping, ready=lambda _: None, rereading=rereading)
    assert happened == ["studies_found", "start", "resume"]
