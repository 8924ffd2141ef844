"""The fleets' benchmark runs, and its phases are parts of the whole."""

from __future__ import annotations

import json
from types import ModuleType

import pytest


def test_both_fleets_answer(fleets: ModuleType) -> None:
    told = fleets.answers(40)
    for name in ("objects", "grpc"):
        one = told[name]
        assert one["answers"] == 40
        assert len(one["rounds_s"]) == 1
        assert one["answers_per_s"] == pytest.approx(40 / one["rounds_s"][0])
        assert one["other_s"] >= 0
        assert one["total_s"] >= one["make_s"] + one["connect_s"] + sum(one["rounds_s"])
    assert told["objects"]["connect_s"] == 0 < told["grpc"]["connect_s"]


def test_waiting_for_devices_ends(fleets: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "CONNECTED_WITHIN_S", 0.0)
    with pytest.raises(TimeoutError, match="expected 3 devices to connect, found 2"):
        fleets._wait_until(lambda: 2, 3)


def test_durable_writes_take_time(fleets: ModuleType) -> None:
    latency = fleets.fdatasync_ms(20)
    assert 0 < latency["median"] <= latency["p99"]


@pytest.mark.slow
def test_it_runs(fleets: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert fleets.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["demo"]["success"] is True
    assert len(told["demo"]["rounds_s"]) == 2
