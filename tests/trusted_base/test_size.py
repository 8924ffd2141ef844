"""The trusted core stays small and closed, and its page shows the figures of this tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "trusted_base.py"
PAGE = ROOT / "docs" / "trusted-base.md"


def load() -> ModuleType:
    spec = spec_from_file_location("trusted_base", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # which dataclasses look their module up in
    spec.loader.exec_module(module)
    return module


TOOL = load()


def test_the_limits_are_kept() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "**the trusted core**" in done.stdout


@pytest.mark.parametrize("limit", ["CORE_READ_LINES", "CLIENT_CODE_LINES", "PAGE_CODE_LINES"])
def test_one_line_past_a_limit_fails(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measure: Callable[[], int] = {
        "CORE_READ_LINES": lambda: int(TOOL.lines_of(TOOL.core()).read),
        "CLIENT_CODE_LINES": lambda: int(TOOL.client().code),
        "PAGE_CODE_LINES": lambda: int(TOOL.lines_of([TOOL.PAGE]).code),
    }[limit]
    lines = measure()
    monkeypatch.setattr(TOOL, limit, lines)
    assert TOOL.violations() == []
    monkeypatch.setattr(TOOL, limit, lines - 1)
    (violation,) = TOOL.violations()
    assert violation.endswith(f"got {lines}")


def test_the_page_and_the_rest_are_the_whole_client() -> None:
    whole, page = TOOL.lines_of([TOOL.CLIENT]), TOOL.lines_of([TOOL.PAGE])
    assert TOOL.client() + page == whole
    assert page.code > 0


def test_lines_are_counted_by_kind() -> None:
    source = '''"""A module.

Two more lines.
"""

import os  # read by nobody
from sys import (
    argv,
    path,
)

__all__ = [
    "f",
]


def f() -> str:
    """A docstring."""
    # a comment
    return """text

that counts"""


class Empty:
    """A docstring only."""
'''
    lines = TOOL.count(source)
    assert (lines.total, lines.code, lines.read) == (26, 13, 5)


def test_the_core_imports_itself_and_its_support_only() -> None:
    """The core imports only itself and its named support."""
    allowed = (*TOOL.core(), *TOOL.SUPPORT)
    strangers = []
    for module, _ in TOOL.modules(TOOL.core()):
        path = ROOT / "client" / Path(*module.split(".")).with_suffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                inside = any(f"{name}.".startswith(f"{package}.") for package in allowed)
                if name.startswith("askance_client") and not inside:
                    strangers.append(f"{module} imports {name}")
    assert strangers == []


def test_the_page_shows_the_figures_of_the_script() -> None:
    assert TOOL.report(per_module=False) in PAGE.read_text(encoding="utf-8")
