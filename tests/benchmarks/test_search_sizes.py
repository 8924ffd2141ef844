"""The benchmark of searches: its exit code follows what it measured."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest


@pytest.mark.slow
def test_a_search_is_within_tau_at_the_plan_and_not_far_below_it(
    search_sizes: ModuleType,
) -> None:
    """A jump of 2 tau at the median: every cut that is asked is tau off it."""
    found = search_sizes.row("8", 0.0, 30, np.random.default_rng(1))
    assert found.now < found.halved / 4
    assert found.failing[0] <= 0.1
    assert found.failing[-1] > 0.05


@pytest.mark.parametrize(
    ("failing", "covering", "code"), [(0.05, 0.95, 0), (0.3, 1, 1), (0, 0.5, 1)]
)
def test_the_exit_code_says_whether_promises_hold(
    search_sizes: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: float,
    covering: float,
    code: int,
) -> None:
    found = search_sizes.Row("4", 0.0, 5_106, 1_894, (failing, 0, 0, 0), covering)
    monkeypatch.setattr(search_sizes, "row", lambda *_: found)
    assert search_sizes.main(["--quick"]) == code
    assert "1,894" in capsys.readouterr().out
