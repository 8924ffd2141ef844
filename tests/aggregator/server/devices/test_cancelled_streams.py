"""Memory per cancelled stream, in a small run of the endurance program."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).resolve().parents[4] / "tests" / "endurance" / "cancelled_streams.py"


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cancelled_streams", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("values", "slope"), [([5, 5, 5], 0), ([0, 3, 6, 9], 3), ([1, 0, 1, 0], -0.2)]
)
def test_the_slope_is_that_of_least_squares(
    program: ModuleType, values: list[float], slope: float
) -> None:
    assert program.slope(values) == pytest.approx(slope)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_cancelled_stream_leaves_less_than_a_kilobyte(program: ModuleType) -> None:
    """GRPC keeps about 150 bytes; a request, a task or a connection's object has 1 kB or more."""
    assert program.measure(streams=2_000, rounds=8)["bytes_per_stream"] < 1_000
