"""The front, `import askance as ask`: lazy, complete and the same to mypy and at run time."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import askance
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"grpc", "scipy", "sklearn", "matplotlib", "numpy", "google.protobuf", "cryptography"}


def loaded_after(statement: str) -> set[str]:
    path = [str(ROOT / folder) for folder in FOLDERS]
    code = f"import sys; sys.path[:0] = {path!r}; {statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_the_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import askance as ask; ask.__version__; dir(ask)")
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith("askance")} == {
        "askance",
        "askance_client",
        "askance_client.version",
    }


def test_a_study_is_made_without_grpc_and_plots() -> None:
    loaded = loaded_after("import askance as ask; ask.Study, ask.learners.frequency, ask.simulate")
    assert loaded & {"grpc", "sklearn", "matplotlib", "pyarrow", "pandas"} == set()


@pytest.mark.parametrize("learner", ["mean", "frequency"])
def test_a_small_study_from_the_command_line_loads_no_solver_and_no_bar(learner: str) -> None:
    loaded = loaded_after(
        "import contextlib; from askance.cli import main\n"
        f"words = ['simulate', {learner!r}, '--users', '5000', '--epsilon', '2', '--json']\n"
        "with contextlib.redirect_stdout(None): main([*words, '--fleet', 'columns'])"
    )
    heavy = {"grpc", "numba", "rich", "scipy.optimize", "scipy.special", "scipy.sparse"}
    assert "askance_aggregator.special_functions" in loaded
    assert loaded & heavy == set()


@pytest.mark.parametrize("name", askance.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(askance, name) is not None


def test_dir_shows_the_public_names_only() -> None:
    assert dir(askance) == sorted(askance.__all__)
    assert len(set(askance.__all__)) == len(askance.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(askance, "nothing")  # noqa: B009  # mypy knows that it is not there


def test_no_public_name_is_a_submodule_but_the_learners() -> None:
    folder = ROOT / "askance"
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert modules & set(askance.__all__) == {"learners"}


def test_the_type_checker_reads_the_names_that_are_imported_at_run_time() -> None:
    tree = ast.parse((ROOT / "askance/__init__.py").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: str(node.module)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(askance.__all__) == sorted(seen)
    seen.pop("learners")  # a module of this package
    assert askance.learners is import_module("askance.learners")
    for name, module in seen.items():
        assert getattr(askance, name) is getattr(import_module(module), name), name


def test_python_m_askance_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "askance", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(str(ROOT / n) for n in ("client", "aggregator", "simulation"))},
    )
    assert done.stdout == f"askance {askance.__version__}\n"
