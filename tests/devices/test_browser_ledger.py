"""A share of `tests/endurance/browser_kills.py`: the ledger in IndexedDB, in Chromium."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest

from tests.devices.scripted import PACKAGE, missing

SCRIPT = PACKAGE.parents[1] / "tests" / "endurance" / "browser_kills.py"
WHY = missing() or (None if shutil.which("chromium") else "needs chromium")


@pytest.mark.slow
@pytest.mark.skipif(WHY is not None, reason=WHY or "")
def test_tabs_and_a_browser_are_killed() -> None:
    spec = importlib.util.spec_from_file_location("browser_kills", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    figures = script.run(3, 1, 2)
    assert sum(figures["kills"].values()) == 4
    assert figures["questions"] >= 12
