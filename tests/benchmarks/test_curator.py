"""The curator's benchmark: it runs and reports every draw in both units."""

from __future__ import annotations

import json
from types import ModuleType

import pytest


def test_it_tells_a_call_and_a_draw(
    curator: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = curator.ours([1, 50]) + curator.choices([20])
    assert [(one.what, one.count) for one in rows] == [
        ("discrete Laplace", 1),
        ("discrete Gaussian", 1),
        ("discrete Laplace", 50),
        ("discrete Gaussian", 50),
        ("exponential, one of", 20),
        ("permute-and-flip, one of", 20),
    ]
    assert all(one.call == pytest.approx(one.draw * one.count) for one in rows)


@pytest.mark.slow
def test_the_program_runs(curator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert curator.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scale"] == 1000
    assert {row["count"] for row in told["rows"]} == {1, 1000}
