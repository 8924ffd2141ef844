"""A signed study of texts with a list of candidates: devices over gRPC, and columns' own names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from askance_aggregator.analyst import read_definition
from askance_aggregator.names import named_schema_from_toml
from askance_simulation.populations import Population

SCHEMA = 'name = "towns"\n[fields]\n"Home town" = { type = "text" }\n'
STUDY = """
learner = "heavy-hitters"
epsilon = "8"
schema = "towns.toml"
[parameters]
column = "Home town"
threshold = "1/4"
candidates = ["Chur, Stadt", "Bern", "Rom", 1291]
[rounds]
deadline_s = 60
"""
TOWNS = ["Bern"] * 150 + ["Chur, Stadt"] * 99 + ["Basel"] * 51


def test_devices_answer_for_a_list_and_the_result_names_texts_and_column(
    open_served: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    """300 users at epsilon 8: shares of .5 and .33 are known to within .1."""
    (tmp_path / "towns.toml").write_text(SCHEMA)
    (tmp_path / "study.toml").write_text(STUDY)
    study = read_definition(tmp_path / "study.toml").study
    assert study.learner.parameters["candidates"] == '"Chur, Stadt",Bern,Rom,1291'
    schema = named_schema_from_toml(tmp_path / "towns.toml")
    people = Population.from_arrow({"Home town": TOWNS}, schema)
    with open_served(devices=True, population=people) as served, served.connected() as aggregator:
        handle = aggregator.submit(study)
        result = handle.result(timeout_s=120)
        assert result.verify().answers == 300
    found = result.to_json()
    assert found["fields"] == ["Home town"]
    assert [one["value"] for one in found["hypothesis"]["found"]] == ["Bern", "Chur, Stadt"]
    others = found["hypothesis"]["others"]
    assert others["candidates"] == 4
    assert others["low"] <= 51 / 300 <= others["high"]
    assert str(result).startswith("heavy-hitters of Home town, 300 users, epsilon 8\n")
