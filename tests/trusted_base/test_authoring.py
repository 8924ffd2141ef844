"""No received byte uses the modules of the core's packages that only an analyst needs."""

from __future__ import annotations

import inspect
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import pytest

from askance_client.queries import categories, operators, rendering
from askance_client.queries.operators import Expression
from tests.protocol import test_vectors as vectors
from tests.trusted_base.test_size import TOOL

AUTHORING: tuple[ModuleType, ...] = (categories, operators, rendering)
NOT_CALLED = {"__hash__"}  # Python's own, by identity


def reached(*_: object, **__: object) -> NoReturn:
    pytest.fail("a received byte reached a function that only an analyst needs")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function and method of the modules fails the test when it is called."""
    for module in AUTHORING:
        for name, found in vars(module).items():
            if isinstance(found, FunctionType) and found.__module__ == module.__name__:
                monkeypatch.setattr(module, name, reached)
    for name, found in vars(Expression).items():
        if inspect.isfunction(found) and name not in NOT_CALLED:
            monkeypatch.setattr(Expression, name, reached)


def test_they_are_those_that_are_not_counted() -> None:
    assert tuple(module.__name__ for module in AUTHORING) == TOOL.AUTHORING


@pytest.mark.usefixtures("without")
def test_no_request_of_the_golden_vectors_reaches_them() -> None:
    answered = [case for kind, case in given(good=True) if kind == "request"]
    for case in answered:
        vectors.test_a_device_answers_a_request_with_these_bytes("request", case)
    assert sum(len(case["reports"]) for case in answered) > 10


@pytest.mark.usefixtures("without")
def test_no_bad_golden_vector_reaches_them() -> None:
    refused = given(good=False)
    for kind, case in refused:
        vectors.test_a_bad_vector_is_refused_with_its_reason(kind, case)
    assert len(refused) > 100


def test_they_fail_when_they_are_called(without: None) -> None:
    from askance_client.queries import Bit, Schema

    with pytest.raises(pytest.fail.Exception, match="only an analyst"):
        Schema("person", 1, smoker=Bit()).smoker == 1  # noqa: B015  # an expression's operator


def given(*, good: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return the golden vectors as (kind, case)."""
    return [tuple(getattr(one, "values", one)) for one in vectors.cases(good=good)]
