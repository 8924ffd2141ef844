"""Hypotheses are written as JSON and read again; other JSON is one error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import pytest

from askance_aggregator.learners import (
    Answer,
    Conjunction,
    Document,
    FrequencyEstimate,
    JsonObject,
    MaskedParity,
    MeanEstimate,
    hypothesis_from_json,
    hypothesis_json,
    hypothesis_of,
)
from askance_client.errors import InvalidParameter

SAVED = [
    ("conjunctions", Conjunction(5, (0, 3)), "x[0] and x[3]"),
    ("conjunctions", Conjunction(5, ()), "always"),
    ("masked-parity", MaskedParity((0, 1, 1, 0), 1), "r = 0110, a = 1"),
    ("mean", MeanEstimate(0.1, -1 / 3, 2.0), "0.1 (-0.33333 .. 2)"),
    (
        "frequency",
        FrequencyEstimate(("estimate", "b"), Answer((0.25, 0.75), (0.2, 0.7), (0.3, 0.8))),
        "estimate: 0.25 (0.2 .. 0.3)\nb: 0.75 (0.7 .. 0.8)",
    ),
]


@pytest.mark.parametrize(("learner", "hypothesis", "text"), SAVED)
def test_a_hypothesis_is_read_as_it_was_written(learner: str, hypothesis: Any, text: str) -> None:
    written = json.loads(json.dumps(hypothesis_json(hypothesis), allow_nan=False))
    assert hypothesis_from_json(learner, written) == hypothesis
    assert str(hypothesis) == text


@pytest.mark.parametrize(
    ("learner", "data", "message"),
    [
        ("oracle", {}, "expected the hypothesis of one of association, .*found 'oracle'"),
        ("conjunctions", [], "conjunction: expected an object, found list"),
        ("conjunctions", {"variables": [0]}, "conjunction: expected d, got none"),
        ("conjunctions", {"variables": [0.5], "d": 3}, "whole numbers as variables, found float"),
        ("conjunctions", {"variables": [7], "d": 3}, "ascending variables"),
        ("conjunctions", {"variables": 3, "d": 3}, "expected a list as variables, found int"),
        ("masked-parity", {"r": "012", "a": 0}, "expected a text of 0 and 1"),
        ("masked-parity", {"r": 1, "a": 0}, "expected a text as r, found int"),
        ("mean", {"estimate": "1", "low": 0, "high": 1}, "finite numbers as estimate, found str"),
        ("mean", {"estimate": True, "low": 0, "high": 1}, "found bool"),
        ("mean", {"estimate": float("nan"), "low": 0, "high": 1}, "finite numbers as estimate"),
        ("mean", {"estimate": 10**400, "low": 0, "high": 1}, "finite numbers as estimate"),
        ("frequency", {"a": 3}, "frequency.a: expected an object, found int"),
    ],
)
def test_a_mistake_in_a_file_is_named(learner: str, data: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        hypothesis_from_json(learner, data)


def test_a_document_is_read_part_by_part() -> None:
    data = {"a": {"t": [[1, 2.5], []]}, "l": [{"n": 1}, {"n": 2}], "s": ["x"], "k": "v", "w": 3}
    document = Document("d", data)
    assert document.part("a").read("t", tuple[tuple[float, ...], ...]) == ((1.0, 2.5), ())
    assert [part.whole("n") for part in document.parts("l")] == [1, 2]
    assert document.read("s", tuple[str, ...]) == ("x",)
    assert (document.text("k"), document.whole("w")) == ("v", 3)
    assert document.read("absent", float | None) is None
    with pytest.raises(InvalidParameter, match=r"d\.l\[1\]: expected m, got none"):
        document.parts("l")[1].text("m")
    with pytest.raises(InvalidParameter, match="d: expected a text as l, found dict"):
        document.read("l", tuple[str, ...])


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Part(JsonObject):
    share: Fraction


@dataclass(frozen=True, slots=True)
class Whole(JsonObject):
    json_name: ClassVar = "whole"
    json_keys: ClassVar = (
        "summary", "low=ends.low", "high=ends.high", "sure=is_sure", "pieces=parts", "value", "of?",
    )  # fmt: skip

    value: int | str
    ends: Interval | None
    is_sure: bool
    parts: tuple[Part, ...]
    of: str = "population"

    def __str__(self) -> str:
        return f"whole {self.value}"


WHOLE = {
    "summary": "whole 3",
    "low": 0.5,
    "high": 2,
    "sure": 1,
    "pieces": [{"share": "1/3"}],
    "value": 3,
    "of": "sample",
}


def test_an_object_is_written_and_read_by_its_fields() -> None:
    whole = Whole(3, Interval(0.5, 2), True, (Part(Fraction(1, 3)),), "sample")
    assert json.dumps(whole.to_json()) == json.dumps(WHOLE)
    assert Whole.from_json(WHOLE) == whole
    without = {**WHOLE, "low": None, "high": None, "value": "three"}
    del without["of"]
    assert Whole.from_json(without) == Whole("three", None, True, whole.parts)
    assert Whole("three", None, False, ()).to_json()["low"] is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"value": 0.5}, "whole: expected whole numbers as value, found float"),
        ({"sure": True}, "whole: expected whole numbers as sure, found bool"),
        ({"low": None}, "whole: expected finite numbers as low, found NoneType"),
        ({"pieces": {}}, "whole: expected a list as pieces, found dict"),
        ({"pieces": [{}]}, r"whole\.pieces\[0\]: expected share, got none"),
        ({"pieces": [{"share": "a"}]}, "share"),
        ({"pieces": [3]}, r"whole\.pieces\[0\]: expected an object, found int"),
    ],
)
def test_a_mistake_in_an_object_names_its_key(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Whole.from_json({**WHOLE, **changed})


def test_a_group_without_its_mean_is_refused() -> None:
    data = {"low": 0, "high": 1, "p_value": None, "groups": [{"name": "a"}, {"name": "b"}]}
    with pytest.raises(InvalidParameter, match=r"groups\[0\]: expected mean, got none"):
        hypothesis_from_json("difference", data)


def test_a_learner_has_one_kind_of_hypothesis() -> None:
    with pytest.raises(InvalidParameter, match="'mean' is registered already"):
        hypothesis_of("mean")(MeanEstimate)
