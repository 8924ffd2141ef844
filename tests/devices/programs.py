"""Programs of `tests/endurance`, of which tests run a share."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.devices.scripted import missing

FOLDER = Path(__file__).resolve().parents[1] / "endurance"
WHY = missing() or (None if shutil.which("chromium") else "needs chromium")
"""Why those that use the package and a browser cannot run here; None if they can."""


def program(name: str) -> Any:
    """Load a program as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their own
    spec.loader.exec_module(module)
    return module
