"""Examples in docstrings: every public name has one, and each runs as it is printed."""

from __future__ import annotations

import doctest
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance import estimators
from askance_aggregator.learners import learners

WITHOUT = {
    "Answers": "a type",
    "Learning": "a type",
    "__version__": "a text",
    "audit": "takes a minute: askance verify --audit",
    "connect": "needs an aggregator; docs/deployment.md",
    "demo": "starts a service; the README runs it",
    "learn_under_noise": "needs a population and a loss of one's own: askance reproduce theorem-8",
    "reproduce": "takes seconds to minutes: askance reproduce",
    "study_from_toml": "needs a file; docs/deployment.md",
    "verify_export": "needs an aggregator's file; docs/deployment.md",
}
"""Public names without an example, each with the reason."""

FUNCTIONS = {"pca": "principal_components"}  # learners whose function has another name
NEEDS = {"Simulation": "pandas", "askance": "pandas"}
FLAGS = doctest.NORMALIZE_WHITESPACE


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, ask.AskanceError)


def public() -> dict[str, Any]:
    """Return what needs an example, by its name in the documentation."""
    found: dict[str, Any] = {"askance": ask, "askance.learners": ask.learners}
    found |= {name: getattr(ask, name) for name in ask.__all__}
    del found["learners"]
    for entry in learners():
        name = FUNCTIONS.get(entry.name, entry.name.replace("-", "_"))
        found[f"learners.{name}"] = getattr(ask.learners, name)
    if find_spec("sklearn"):
        found |= {f"estimators.{name}": getattr(estimators, name) for name in estimators.__all__}
    return {name: value for name, value in found.items() if not is_error(value)}


PUBLIC = public()


def example_of(name: str) -> doctest.DocTest:
    """Return the example of a name, with a namespace of its own."""
    names = {"ask": ask, "np": np}
    text = PUBLIC[name].__doc__ or ""
    return doctest.DocTestParser().get_doctest(text, names, name, None, None)


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - WITHOUT.keys()))
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    example = example_of(name)
    assert example.examples, f"{name}: expected an example in its docstring, got none"
    assert any(step.want for step in example.examples), f"{name}: expected a result that is shown"
    printed: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=printed.append)
    assert failed == 0, "".join(printed)


def test_the_exceptions_are_public_names_without_an_example() -> None:
    for name in WITHOUT:
        assert name in PUBLIC
        assert name == "__version__" or ">>> " not in (PUBLIC[name].__doc__ or "")


def test_a_wrong_result_would_be_seen() -> None:
    text = ">>> ask.Bit().encode('1')\n2\n"
    wrong = doctest.DocTestParser().get_doctest(text, {"ask": ask}, "wrong", None, None)
    assert doctest.DocTestRunner().run(wrong, out=lambda _: None).failed == 1
