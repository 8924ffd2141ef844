"""The benchmarks are programs, not a package: tests load them by their files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    sys.path.insert(0, str(BENCHMARKS))  # it imports others, as a program in that folder does
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.fixture(scope="session")
def association() -> ModuleType:
    return _load("association")


@pytest.fixture(scope="session")
def fleets() -> ModuleType:
    return _load("fleets")


@pytest.fixture(scope="session")
def columns() -> ModuleType:
    return _load("columns")


@pytest.fixture(scope="session")
def intervals() -> ModuleType:
    return _load("intervals")


@pytest.fixture(scope="session")
def balls() -> ModuleType:
    return _load("balls")


@pytest.fixture(scope="session")
def cell_sizes() -> ModuleType:
    return _load("cell_sizes")


@pytest.fixture(scope="session")
def search_sizes() -> ModuleType:
    return _load("search_sizes")


@pytest.fixture(scope="session")
def prior_intervals() -> ModuleType:
    return _load("prior_intervals")


@pytest.fixture(scope="session")
def vectors() -> ModuleType:
    return _load("vectors")


@pytest.fixture(scope="session")
def parity() -> ModuleType:
    return _load("parity")


@pytest.fixture(scope="session")
def logistic() -> ModuleType:
    return _load("logistic")


@pytest.fixture(scope="session")
def curator() -> ModuleType:
    return _load("curator")


@pytest.fixture(scope="session")
def boosting() -> ModuleType:
    return _load("boosting")


@pytest.fixture(scope="session")
def adult() -> ModuleType:
    return _load("adult")


@pytest.fixture(scope="session")
def table_of_learners() -> ModuleType:
    return _load("learners")


@pytest.fixture(scope="session")
def gradients() -> ModuleType:
    return _load("gradients")


@pytest.fixture(scope="session")
def all_columns() -> ModuleType:
    """`benchmarks/all_columns.py`."""
    return _load("all_columns")


@pytest.fixture(scope="session")
def whole_studies() -> ModuleType:
    return _load("whole_studies")


@pytest.fixture(scope="session")
def trend() -> ModuleType:
    return _load("trend")


@pytest.fixture(scope="session")
def amplification() -> ModuleType:
    """`benchmarks/amplification.py`."""
    return _load("amplification")


@pytest.fixture(scope="session")
def plan_seconds() -> ModuleType:
    """`benchmarks/plan_seconds.py`."""
    return _load("plan_seconds")


@pytest.fixture(scope="session")
def kernels() -> ModuleType:
    return _load("kernels")


@pytest.fixture(scope="session")
def csv_rows() -> ModuleType:
    return _load("csv_rows")


@pytest.fixture(scope="session")
def parquet_rows() -> ModuleType:
    return _load("parquet_rows")


@pytest.fixture(scope="session")
def model_errors() -> ModuleType:
    """`benchmarks/model_errors.py`."""
    return _load("model_errors")


@pytest.fixture(scope="session")
def drawn_answers() -> ModuleType:
    """`benchmarks/drawn_answers.py`."""
    return _load("drawn_answers")
