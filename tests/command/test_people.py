"""Whom a device stands for: one row, or all of them under names that stay theirs."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from askance.client.command.configuration import Configuration, read_configuration
from askance.client.command.people import People, read_people
from askance.client.errors import AskanceError
from askance.client.service import Secret

SCHEMA = '[fields]\nage = { type = "integer", low = 0, high = 99 }\n'
SECRET = Secret(bytes(range(32)))
BY_NUMBER = "rows_may_only_be_appended = true"


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
    people = read_people(configured(tmp_path, BY_NUMBER, "age\n10\n20\n"))
    assert (people.names, ages(people)) == (("0", "1"), [10, 20])


def test_a_column_that_the_schema_does_not_have_may_name_people(tmp_path: Path) -> None:
    people = read_people(configured(tmp_path, 'key = "id"', "id,age\nb,10\na,20\n"))
    assert (people.names, ages(people)) == (("b", "a"), [10, 20])


def test_values_that_fit_nothing_are_counted_for_the_people_it_stands_for(tmp_path: Path) -> None:
    rows = "age\n10\nold\n100\n?\n"  # 100 is brought to the bound
    assert read_people(configured(tmp_path, BY_NUMBER, rows)).unfit == {"age": 1}
    assert read_people(configured(tmp_path, "row = 0", rows)).unfit == {}
    assert read_people(configured(tmp_path, "row = 1", rows)).unfit == {"age": 1}


BAD = {
    "a row that is not there": ("row = 2", "age\n1\n2\n", "", "expected one of 2 rows from 0"),
    "a name twice": ('key = "id"', "id,age\nsecret,1\nx,1\nsecret,2\n", "", "in rows 0 and 2"),
    "no name": ('key = "id"', "id,age\n?,9999\n?,2\n", "", "expected a row with a usable name"),
    "no such column": ('key = "who"', "id,age\nsecret,1\n", "", "expected a column 'who'"),
    "no such field": (
        BY_NUMBER,
        "age\n1\n",
        'fields = ["pay"]',
        "policy.fields: expected fields of the",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_one_error_without_a_value(tmp_path: Path, case: str) -> None:
    records, data, policy, message = BAD[case]
    with pytest.raises(AskanceError, match=message) as caught:
        read_people(configured(tmp_path, records, data, policy))
    assert "secret" not in str(caught.value)


def test_identities_are_derived_from_the_secret_and_the_name_alone() -> None:
    """Fixed for ever: another derivation would give everybody a new budget at the aggregator."""
    member = SECRET.member("zoë")
    assert member.device_id.hex() == "b2fdd6e193cf68f8eaf8bf66cd75f87e"
    assert member.token.hex() == "aecf8ad71b061277153db91de19731f04736839bea19bdf27a417cf3ebd7651e"
    device = SECRET.device()
    assert device.device_id == hmac.digest(SECRET.value, b"askance device id v1", "sha256")[:16]
    assert device.token == hmac.digest(SECRET.value, b"askance device token v1", "sha256")
    others = {device, *(SECRET.member(str(number)) for number in range(100)), SECRET.member("")}
    assert len({one.device_id for one in others} | {one.token for one in others}) == 204
    assert Secret(bytes(32)).member("zoë") != member


def test_no_token_that_is_sent_is_a_key_of_another_identity() -> None:
    """In row mode the token that was sent was once the key that members were derived with."""
    for sent in (SECRET.device().token, SECRET.device().device_id.ljust(32, b"\0")):
        assert sent != SECRET.value
        assert Secret(sent).member("a") != SECRET.member("a")
    assert SECRET.value.hex() not in repr(SECRET)
    assert str(SECRET.value) not in repr(SECRET)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(AskanceError, match="secret: expected 32 bytes"):
        Secret(bytes(size))
