"""Whom a device stands for: one row, or all of them under names that stay theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance.client.command.configuration import Configuration, read_configuration
from askance.client.command.people import People, read_people
from askance.client.errors import AskanceError
from askance.client.service import Identity, member_identity

SCHEMA = '[fields]\nage = { type = "integer", low = 0, high = 99 }\n'
ROOT = Identity(bytes(16), bytes(range(32)))


def configured(folder: Path, records: str, data: str, policy: str = "") -> Configuration:
    (folder / "people.toml").write_text(SCHEMA)
    (folder / "people.csv").write_text(data)
    path = folder / "device.toml"
    path.write_text(
        f'aggregator = "127.0.0.1:1"\n[policy]\nanalysts = ["{"ab" * 32}"]\nlife_epsilon = 1\n'
        f'{policy}\n[records]\nschema = "people.toml"\ndata = "people.csv"\n{records}\n'
    )
    return read_configuration(path)


def ages(people: People) -> list[object]:
    return [people.record(place).values["age"] for place in range(len(people.names))]


def test_a_row_is_one_person_without_a_name(tmp_path: Path) -> None:
    people = read_people(configured(tmp_path, "row = 1", "age\n10\n20\n"))
    assert (people.names, ages(people)) == (("",), [20])


def test_all_rows_are_named_by_their_numbers(tmp_path: Path) -> None:
    people = read_people(configured(tmp_path, "", "age\n10\n20\n"))
    assert (people.names, ages(people)) == (("0", "1"), [10, 20])


def test_a_column_that_the_schema_does_not_have_may_name_people(tmp_path: Path) -> None:
    people = read_people(configured(tmp_path, 'key = "id"', "id,age\nb,10\na,20\n"))
    assert (people.names, ages(people)) == (("b", "a"), [10, 20])


def test_values_that_fit_nothing_are_counted_for_the_people_it_stands_for(tmp_path: Path) -> None:
    rows = "age\n10\nold\n100\n?\n"  # 100 is brought to the bound
    assert read_people(configured(tmp_path, "", rows)).unfit == {"age": 1}
    assert read_people(configured(tmp_path, "row = 0", rows)).unfit == {}
    assert read_people(configured(tmp_path, "row = 1", rows)).unfit == {"age": 1}


BAD = {
    "a row that is not there": (
        "row = 2",
        "age\n1\n2\n",
        "",
        "records.row: expected one of 2 rows",
    ),
    "a name twice": ('key = "id"', "id,age\nsecret,1\nx,1\nsecret,2\n", "", "in rows 0 and 2"),
    "no name": ('key = "id"', "id,age\nsecret,1\n?,2\n", "", "expected a name in row 1"),
    "no such column": ('key = "who"', "id,age\nsecret,1\n", "", "expected a column 'who'"),
    "no such field": ("", "age\n1\n", 'fields = ["pay"]', "policy.fields: expected fields of the"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_one_error_without_a_value(tmp_path: Path, case: str) -> None:
    records, data, policy, message = BAD[case]
    with pytest.raises(AskanceError, match=message) as caught:
        read_people(configured(tmp_path, records, data, policy))
    assert "secret" not in str(caught.value)


def test_members_are_who_they_are_by_the_root_s_secret_and_their_name() -> None:
    """Fixed for ever: another derivation would give everybody a new budget at the aggregator."""
    member = member_identity(ROOT, "zoë")
    assert member.device_id.hex() == "b2fdd6e193cf68f8eaf8bf66cd75f87e"
    assert member.token.hex() == "aecf8ad71b061277153db91de19731f04736839bea19bdf27a417cf3ebd7651e"
    others = {member_identity(ROOT, str(number)) for number in range(100)}
    assert len({one.device_id for one in others} | {one.token for one in others}) == 200
    assert member_identity(Identity(bytes(16), bytes(32)), "zoë") != member
