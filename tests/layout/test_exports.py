"""Every name that a module lists in `__all__` exists."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

PACKAGES = (
    "askance_client",
    "askance_aggregator",
    "askance_simulation",
    "askance",
    "askance_papers",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_that_a_module_exports_exist(package: str) -> None:
    root = importlib.import_module(package)
    absent = []
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            names = getattr(module, "__all__", ())
            absent += [f"{found.name}.{name}" for name in names if not hasattr(module, name)]
    assert absent == []
