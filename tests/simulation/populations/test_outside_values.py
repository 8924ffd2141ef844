"""Values outside a given schema: none, a warning above 1 %, an error above the accepted share."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import askance as ask
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Bit, Bits, Category, Field, Integer, Real, Schema
from askance_simulation.populations import Population

USERS = 400
INSIDE: dict[str, tuple[Field, str, str]] = {  # the field, a value inside and one outside of it
    "label": (Category(("a", "b")), "a", "c"),
    "number of another kind": (Integer(0, 9), "3", "three"),
    "number below": (Integer(0, 9), "3", "-1"),
    "number above": (Real("0", "1", 4), "0.5", "1.04"),
    "bit": (Bit(), "1", "2"),
    "bits": (Bits(3), "011", "01"),
}


def people(folder: Path, kind: Field, inside: str, outside: str, count: int) -> Path:
    """Write USERS users, `count` of them with a value outside and one with none."""
    values = [outside] * count + [inside] * (USERS - count)
    path = folder / "people.csv"
    path.write_text("x,y\n" + "".join(f"{value},1\n" for value in values) + "?,1\n")
    return path


@pytest.mark.parametrize("case", INSIDE)
@pytest.mark.parametrize(
    ("count", "warned"), [(0, False), (4, False), (5, True), (200, True)], ids=str
)
def test_more_than_one_in_a_hundred_is_a_warning(
    tmp_path: Path, case: str, count: int, warned: bool
) -> None:
    kind, inside, outside = INSIDE[case]
    path = people(tmp_path, kind, inside, outside, count)
    found = Population.from_csv(path, Schema("s", 1, x=kind))
    assert list(found.warnings) == (["x"] if warned else [])
    assert all(
        f"{count:,} of {USERS:,} values of x are" in text for text in found.warnings.values()
    )


@pytest.mark.parametrize("case", INSIDE)
def test_more_than_half_is_an_error_unless_accepted(tmp_path: Path, case: str) -> None:
    kind, inside, outside = INSIDE[case]
    path = people(tmp_path, kind, inside, outside, 201)
    schema = Schema("s", 1, x=kind)
    with pytest.raises(InvalidRecord, match="got values outside it in 201 of 400 rows"):
        Population.from_csv(path, schema)
    accepted = Population.from_csv(path, schema, most_outside=Fraction(201, 400))
    assert list(accepted.warnings) == ["x"]


@pytest.mark.parametrize("value", ["-0.03125", "0", "1", "1.03125"])
def test_rounding_to_the_grid_is_no_step_outside(tmp_path: Path, value: str) -> None:
    """The grid has 16 steps, so that a number is off by 1/32 at most."""
    kind = Real("0", "1", 4)
    path = people(tmp_path, kind, value, value, 0)
    assert Population.from_csv(path, Schema("s", 1, x=kind)).warnings == {}


def test_a_result_warns_of_the_fields_that_its_study_asks_about(tmp_path: Path) -> None:
    path = people(tmp_path, Integer(0, 9), "3", "12", 100)
    schema = Schema("s", 1, x=Integer(0, 9), y=Integer(0, 9))
    users = Population.from_csv(path, schema)
    for name, warned in (("x", True), ("y", False)):
        study = ask.Study(ask.learners.mean(schema[name]), schema, epsilon=4)
        found = ask.simulate(study, users, fleet="columns")
        assert bool(found.warnings) is warned
        assert ("outside the schema" in found.to_json()["verdict"]) is warned


@pytest.mark.parametrize("share", ["2", "-1/10", "many"])
def test_a_share_out_of_range_is_refused(tmp_path: Path, share: str) -> None:
    path = people(tmp_path, Bit(), "0", "1", 200)
    with pytest.raises(InvalidParameter, match=f"most_outside.*{share}"):
        Population.from_csv(path, most_outside=share)
