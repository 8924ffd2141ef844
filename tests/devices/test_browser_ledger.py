"""A share of `tests/endurance/browser_kills.py`: the ledger in IndexedDB, in Chromium."""

from __future__ import annotations

import pytest

from tests.devices.programs import WHY, program


@pytest.mark.slow
@pytest.mark.skipif(WHY is not None, reason=WHY or "")
def test_tabs_and_a_browser_are_killed() -> None:
    figures = program("browser_kills").run(3, 1, 2)
    assert sum(figures["kills"].values()) == 4
    assert figures["questions"] >= 12
