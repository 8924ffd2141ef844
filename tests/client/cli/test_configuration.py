"""A device's configuration: read whole, or refused with the place of the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from askance_client.addresses import Address
from askance_client.cli.configuration import read_configuration
from askance_client.cli.counters import CounterCommand, CounterFile
from askance_client.cli.record_settings import an_origin
from askance_client.cli.template import Given, device_toml
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.records import (
    AllRows,
    ByColumn,
    ByNumber,
    Naming,
    OneRow,
    Origin,
    Several,
)

KEY = "ab" * 32
WHOLE = f"""
aggregator = "aggregator.example:7443"
ca = "ca.pem"
[policy]
analysts = ["{KEY}"]
life_epsilon = "8"
day_epsilon = 2
study_epsilon = "0.5"
fields = ["age"]
[records]
schema = "people.toml"
data = "people.csv"
key = "id"
[run]
release_ms = 250
connections = 3
longest_wait_s = 5
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "device.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_that_can_be_set(tmp_path: Path) -> None:
    found = read_configuration(written(tmp_path, WHOLE))
    assert found.aggregator == Address("aggregator.example", 7443)
    assert found.ca == tmp_path / "ca.pem"
    assert found.policy == Policy(
        frozenset({bytes.fromhex(KEY)}), 8 * 10**9, 2 * 10**9, 5 * 10**8, frozenset({"age"})
    )
    assert (found.records.schema, found.records.origin) == (
        tmp_path / "people.toml",
        Origin("csv", ("people.csv",)),
    )
    assert found.records.naming == ByColumn("id")
    assert (found.release_ms, found.connections, found.longest_wait_s) == (250, 3, 5)


def test_a_counter_is_a_file_outside_or_a_command(tmp_path: Path) -> None:
    def read(line: str) -> object:
        return read_configuration(written(tmp_path, f"{line}\n{WHOLE}")).counter

    assert read("") is None
    assert read('counter = "/mnt/other/counter"') == CounterFile(Path("/mnt/other/counter"))
    assert read('counter = "../counter"') == CounterFile(tmp_path / "../counter")
    assert isinstance(read('counter = "command:nv-counter --index 7"'), CounterCommand)
    for line, message in (
        ("counter = 7", "counter: expected a text, got 7"),
        ('counter = "counter"', "counter: expected a file outside"),
        ('counter = "command:"', "counter: expected a command's words, got none"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            read(line)


NAMINGS: list[tuple[str, dict[str, Any], Naming]] = [
    ("row = 3", {"row": 3}, OneRow(3)),
    ('key = "a \\"b\\""', {"key": 'a "b"'}, ByColumn('a "b"')),
    ("rows_may_only_be_appended = true", {"rows_by_number": True}, ByNumber()),
    ("one_person = true", {"one_person": True}, AllRows()),
]


@pytest.mark.parametrize(("line", "given", "naming"), NAMINGS)
def test_each_naming_is_written_and_read(
    tmp_path: Path, line: str, given: dict[str, Any], naming: Naming
) -> None:
    assert line in device_toml(Given(**given)).split("\n")
    path = written(tmp_path, WHOLE.replace('key = "id"', line))
    assert read_configuration(path).records.naming == naming


@pytest.mark.parametrize("line", ["", "rows_may_only_be_appended = false"])
def test_rows_are_named_by_number_only_if_the_owner_sets_it(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, WHOLE.replace('key = "id"', line))
    with pytest.raises(InvalidParameter, match=r"records.key: expected one of row .*, got none"):
        read_configuration(path)


ORIGINS: list[tuple[str, Origin]] = [
    ('data = "people.json"', Origin("json", ("people.json",))),
    ('data = "people.txt"\nkind = "json-lines"', Origin("json-lines", ("people.txt",))),
    ('data = "p.db"\nquery = "SELECT 1"', Origin("sqlite", ("p.db",), "SELECT 1")),
    ('data = "p.duckdb"\nquery = "SELECT 1"', Origin("duckdb", ("p.duckdb",), "SELECT 1")),
    ('command = ["list", "a \\"b\\""]', Origin("command", ("list", 'a "b"'))),
    ('url = "http://127.0.0.1:1/"', Origin("http", ("http://127.0.0.1:1/",))),
    ('environment = "RECORD_"', Origin("environment", ("RECORD_",))),
]


@pytest.mark.parametrize(("lines", "origin"), ORIGINS)
def test_each_origin_is_written_and_read(tmp_path: Path, lines: str, origin: Origin) -> None:
    written_lines = device_toml(Given(origin=origin)).split("\n")
    assert set(lines.split("\n")) <= set(written_lines)
    path = written(tmp_path, WHOLE.replace('data = "people.csv"', lines))
    assert read_configuration(path).records.origin == origin


def test_a_directory_names_its_members(tmp_path: Path) -> None:
    lines = 'data = "people"\nkind = "directory"'
    bare = WHOLE.replace('key = "id"\n', "").replace('data = "people.csv"', lines)
    found = read_configuration(written(tmp_path, bare)).records
    assert (found.origin, found.naming) == (Origin("directory", ("people",)), None)
    both = WHOLE.replace('data = "people.csv"', lines)
    with pytest.raises(InvalidParameter, match=r"records.key: expected none beside kind"):
        read_configuration(written(tmp_path, both))


def test_the_rule_and_the_field_map(tmp_path: Path) -> None:
    found = read_configuration(written(tmp_path, WHOLE)).records
    assert (found.several, found.columns) == (Several.REFUSE, {})
    more = 'several = "draw"\nfields = { age = "AGE IN YEARS" }\n[run]'
    found = read_configuration(written(tmp_path, WHOLE.replace("[run]", more))).records
    assert (found.several, found.columns) == (Several.DRAW, {"age": "AGE IN YEARS"})


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("sqlite:a:b.db", Origin("sqlite", ("a:b.db",))),
        ("command:list 'a b'", Origin("command", ("list", "a b"))),
        ("http://[::1]:8080/x", Origin("http", ("http://[::1]:8080/x",))),
        ("environment:RECORD_", Origin("environment", ("RECORD_",))),
    ],
)
def test_an_option_names_kind_and_place(text: str, origin: Origin) -> None:
    assert an_origin(text) == origin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("people.csv", "expected KIND:WHERE"),
        ("sqlit:p.db", "did you mean sqlite"),
        ("csv:", "expected KIND:WHERE"),
        ("http://example.org/", "localhost or an address of loopback"),
        ("command:'", "expected a command's words"),
    ],
)
def test_an_option_that_names_no_place(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        an_origin(text)


def test_plain_text_is_spoken_on_loopback_or_when_it_is_said_so(tmp_path: Path) -> None:
    bare = WHOLE.replace('ca = "ca.pem"\n', "")
    for text in (
        bare.replace("aggregator.example", "127.0.0.1"),
        bare.replace("[policy]", "plaintext = true\n[policy]"),
    ):
        assert read_configuration(written(tmp_path, text)).ca is None


ERRORS = {
    'ca = "ca.pem"': ("", "device.toml: ca: expected the authority's certificate, got none"),
    'ca = "ca.pem"\n': ('ca = "ca.pem"\nplaintext = true\n', "device.toml: plaintext: expected"),
    "aggregator.example:7443": ("nowhere", "device.toml: aggregator: expected HOST:PORT"),
    "aggregator.example:7": ("aggregator.example:00000", "device.toml: aggregator: expected"),
    "aggregator =": ("aggregate =", "device.toml: aggregator: expected a value, got none"),
    "[policy]": ("[politics]", "device.toml: policy: expected a table of that name, got none"),
    "[records]": ("[record]", "device.toml: records: expected a table of that name, got none"),
    "[run]": ("[walk]", "device.toml: walk: expected one of"),
    "day_epsilon": ("daily_epsilon", "device.toml: policy.daily_epsilon: expected one of"),
    'life_epsilon = "8"': ("life_epsilon = 0.5", "policy.life_epsilon: .* got 0.5"),
    'life_epsilon = "8"\n': ("", "device.toml: policy.life_epsilon: expected a value, got none"),
    "day_epsilon = 2": (
        "day_epsilon = 0",
        "policy.day_epsilon: expected a positive number of nats, got 0",
    ),
    'study_epsilon = "0.5"': (
        'study_epsilon = "x"',
        'policy.study_epsilon: expected nats as "0.5" or "1/2"',
    ),
    KEY: ("ab", "policy.analysts: expected a public key of 64 hexadecimal digits"),
    f'"{KEY}"': ("", "policy.analysts: expected the public key of one analyst or more"),
    'fields = ["age"]': ("fields = [1]", "policy.fields: expected a text"),
    'schema = "people.toml"': ("schema = 1", "records.schema: expected a text, got 1"),
    'key = "id"': (
        'key = "id"\nrow = 0',
        "records.key: expected one of row .*, got row = 0, key =",
    ),
    'data = "people.csv"': ("", "records.data: expected a value, got none"),
    'data = "people.csv"\n': (
        'data = "people.csv"\nurl = "http://localhost/"\n',
        "records.data: expected one of data, command, url, environment, got data and url",
    ),
    '"people.csv"': ('"people.db"', "records.query: expected a value, got none"),
    'a = "people.csv"': ('a = "people.csv"\nquery = "SELECT 1"', "expected no query of csv"),
    'ta = "people.csv"': ('ta = "people.csv"\nkind = "xls"', "records.kind: expected one of csv"),
    'ata = "people.csv"': ('ata = "people.csv"\nkind = "http"', "records.kind: expected one of"),
    'data = "people.csv"\nkey': (
        'url = "http://localhost/"\nkind = "csv"\nkey',
        "records.kind: expected 'http' or nothing beside url, got 'csv'",
    ),
    'data = "people.csv"\nkey = "id"': (
        'data = "p.db"\nquery = "SELECT 1"\nrow = 1',
        "records.key: expected key or one_person = true, .* got row = 1",
    ),
    'data = "people.csv"\nkey = "id"\n': ("command = []\n", "records.command: expected the words"),
    'key = "id"\n[run]': ('key = "id"\nseveral = "all"\n[run]', "records.several: expected one of"),
    '"id"\n[run]': ('"id"\nfields = ["age"]\n[run]', "records.fields: expected a table"),
    'people.csv"\nkey = "id"': ('x.csv"\nurl = "http://10.0.0.1/"', "records.url: expected http"),
    'key = "id"\n': ("row = -1\n", "records.row: expected a whole number of 0 to"),
    "release_ms = 250": ("release_ms = true", "run.release_ms: expected a whole number of 20 to"),
    "connections = 3": ("connections = 0", "run.connections: expected a whole number of 1 to 256"),
    "longest_wait_s = 5": ("longest_wait_s = 0", "run.longest_wait_s: expected a whole number"),
}


@pytest.mark.parametrize("before", ERRORS)
def test_an_error_says_its_place(tmp_path: Path, before: str) -> None:
    after, message = ERRORS[before]
    assert before in WHOLE
    with pytest.raises(InvalidParameter, match=message) as caught:
        read_configuration(written(tmp_path, WHOLE.replace(before, after, 1)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["=", "\udc80"])
def test_what_is_no_toml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "device.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidParameter, match="expected TOML"):
        read_configuration(path)


def test_a_missing_file_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="got no file \\(init makes one\\)"):
        read_configuration(tmp_path / "device.toml")


def test_what_init_writes_is_what_is_read(tmp_path: Path) -> None:
    given = Given(
        aggregator=Address("::1", 7443),
        ca=tmp_path / 'a "quoted" é\\path.pem',
        analyst=[bytes.fromhex(KEY)],
        life_epsilon=8 * 10**9,
        day_epsilon=1,
        study_epsilon=5 * 10**8,
        schema=Path("people.toml"),
        origin=Origin("csv", ("people.csv",)),
        row=3,
    )
    assert given.complete
    found = read_configuration(written(tmp_path, device_toml(given)))
    assert found.aggregator == given.aggregator
    assert found.ca == given.ca
    assert found.policy == Policy(frozenset(given.analyst), 8 * 10**9, 1, 5 * 10**8)
    assert found.records.naming == OneRow(3)


def test_a_template_with_gaps_says_what_to_fill_in_and_is_refused(tmp_path: Path) -> None:
    text = device_toml(Given())
    for name in ("aggregator", "analysts", "life_epsilon", "schema", "data", "key"):
        assert any(
            line.startswith(f"# {name} =") and "FILL IN" in line for line in text.split("\n")
        )
    with pytest.raises(InvalidParameter, match="aggregator: expected a value, got none"):
        read_configuration(written(tmp_path, text))


@pytest.mark.parametrize(
    ("lines", "refresh", "window", "days"),
    [
        ("", None, None, 30),
        ('refresh = "never"', None, None, 30),
        ('refresh = "30d"\nwindow_epsilon = "4"', 30, 4 * 10**9, 30),
        ('refresh = "1d"\nwindow_epsilon = 2\nwindow_days = 90', 1, 2 * 10**9, 90),
    ],
)
def test_refresh_and_window_are_the_owners(
    tmp_path: Path, lines: str, refresh: int | None, window: int | None, days: int
) -> None:
    text = WHOLE.replace('study_epsilon = "0.5"', lines)
    policy = read_configuration(written(tmp_path, text)).policy
    assert (policy.refresh_days, policy.window_nano_nats, policy.window_days) == (
        refresh,
        window,
        days,
    )


@pytest.mark.parametrize("text", ["30", "d", "0d", "1.5d", "-1d", "10000d", "weekly", "\u0663d"])
def test_a_refresh_that_is_no_number_of_days_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, WHOLE.replace('study_epsilon = "0.5"', f'refresh = "{text}"'))
    with pytest.raises(InvalidParameter, match=r"policy\.refresh: expected"):
        read_configuration(path)
