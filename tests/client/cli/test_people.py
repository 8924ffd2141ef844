"""Members that a device stands for: one row, or all rows under stable names."""

from __future__ import annotations

import hmac
from dataclasses import replace
from pathlib import Path

import pytest

from askance_client.cli.configuration import DeviceConfiguration, read_configuration
from askance_client.cli.event_log import warn
from askance_client.cli.members import MemberRoster, read_people
from askance_client.errors import AskanceError
from askance_client.queries import EncodedRecord
from askance_client.randomizers import SystemCoins
from askance_client.records import Origin
from askance_client.service import Secret

SCHEMA = '[fields]\nage = { type = "integer", low = 0, high = 99 }\n'
SECRET = Secret(bytes(range(32)))
BY_NUMBER = "rows_may_only_be_appended = true"


def configured(folder: Path, records: str, data: str, policy: str = "") -> DeviceConfiguration:
    (folder / "people.toml").write_text(SCHEMA)
    (folder / "people.csv").write_text(data)
    path = folder / "device.toml"
    path.write_text(
        f'aggregator = "127.0.0.1:1"\n[policy]\nanalysts = ["{"ab" * 32}"]\nlife_epsilon = 1\n'
        f'{policy}\n[records]\nschema = "people.toml"\ndata = "people.csv"\n{records}\n'
    )
    return read_configuration(path)


def record(people: MemberRoster, place: int) -> EncodedRecord:
    return people.record(place, SystemCoins(), lambda failure: None).load()


def ages(people: MemberRoster) -> list[object]:
    return [record(people, place).values["age"] for place in range(len(people.names))]


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
    assert read_people(configured(tmp_path, BY_NUMBER, rows)).unfit() == {"age": 1}
    assert read_people(configured(tmp_path, "row = 0", rows)).unfit() == {}
    assert read_people(configured(tmp_path, "row = 1", rows)).unfit() == {"age": 1}


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
    """Fixed for ever: another derivation would give every user a new budget at the aggregator."""
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


ROWS = "id,age\na,10\n{}\nc,30\n"


def people_of(folder: Path, row: str, naming: str = 'key = "id"') -> MemberRoster:
    return read_people(configured(folder, naming, ROWS.format(row)))


def test_a_malformed_row_with_a_certain_name_is_answered_for_without_values(tmp_path: Path) -> None:
    people = people_of(tmp_path, "secret," + "9" * 140_000)
    assert people.names == ("a", "secret", "c")
    assert [record(people, place).present["age"] for place in range(3)] == [True, False, True]
    (warning,) = people.warnings
    assert warning.startswith(f"{tmp_path / 'people.csv'}: line 3: expected cells of at most")
    assert warning.endswith("values count as missing")
    assert people.unfit() == {}
    assert "secret" not in warning


@pytest.mark.parametrize(
    "row",
    [
        "secret,1,20",  # "secret,1" may be the name
        "secret",
        '"secret"1,20',
        ",20",
        "?,20",
        f"{'n' * 257},20",
        f"{'é' * 129},20",
    ],
)
def test_a_row_without_a_certain_name_is_left_out_with_a_warning(tmp_path: Path, row: str) -> None:
    people = people_of(tmp_path, row)
    assert (people.names, ages(people)) == (("a", "c"), [10, 30])
    (warning,) = people.warnings
    assert ("line 3: " in warning) or ("row 1 from 0: no usable name" in warning)
    assert "left out" in warning
    assert "secret" not in warning


def test_a_name_that_is_just_short_enough_is_one(tmp_path: Path) -> None:
    assert people_of(tmp_path, f"{'é' * 128},20").names == ("a", "é" * 128, "c")


@pytest.mark.parametrize("naming", [BY_NUMBER, "row = 1"])
def test_a_malformed_row_keeps_its_number(tmp_path: Path, naming: str) -> None:
    people = people_of(tmp_path, "secret,1,20", naming)
    place = people.names.index("" if naming == "row = 1" else "1")
    assert not record(people, place).present["age"]
    assert len(people.warnings) == 1
    if naming == BY_NUMBER:
        assert (people.names, record(people, 2).values["age"]) == (("0", "1", "2"), 30)


def test_no_row_takes_a_number_that_is_not_certain(tmp_path: Path) -> None:
    """After a quote that does not close, another row would answer from some user's budget."""
    people = people_of(tmp_path, 'secret,"20', BY_NUMBER)
    assert people.names == ("0", "1")
    assert "rows 2 to 2 from 0" in people.warnings[1]
    assert people_of(tmp_path, 'secret,"20', "row = 0").names == ("",)
    with pytest.raises(AskanceError, match="expected one of 2 rows from 0, got row 2: a quote"):
        people_of(tmp_path, 'secret,"20', "row = 2")


def test_a_name_in_json_that_cannot_be_kept_is_left_out(tmp_path: Path) -> None:
    configuration = configured(tmp_path, 'key = "id"', "id,age\na,1\n")
    path = tmp_path / "people.json"
    path.write_text(
        '[{"id": "a", "age": 1}, {"id": "\\ud800", "age": 2}, {"id": "b\\u0000", "age": 3},'
        ' {"id": true, "age": 4}, {"id": 7, "age": 5}]'
    )
    records = replace(configuration.records, origin=Origin("json", (str(path),)))
    people = read_people(replace(configuration, records=records))
    assert (people.names, ages(people)) == (("a", "7"), [1, 5])
    assert len(people.warnings) == 3


def test_the_printed_warnings_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    warn([f"warning {number}" for number in range(20)])
    assert capsys.readouterr().err.count("\n") == 20
    warn([f"warning {number}" for number in range(25)])
    assert capsys.readouterr().err.endswith("warning 19\naskance: 5 more rows with warnings\n")
