"""A device's configuration: read whole, or refused with the place of the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from askance_client.addresses import Address
from askance_client.cli.configuration import read_configuration
from askance_client.cli.naming import ByColumn, ByNumber, Naming, OneRow
from askance_client.cli.template import Given, device_toml
from askance_client.device import Policy
from askance_client.errors import InvalidParameter

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
    assert (found.records.schema, found.records.data) == (
        tmp_path / "people.toml",
        tmp_path / "people.csv",
    )
    assert found.records.naming == ByColumn("id")
    assert (found.release_ms, found.connections, found.longest_wait_s) == (250, 3, 5)


NAMINGS: list[tuple[str, dict[str, Any], Naming]] = [
    ("row = 3", {"row": 3}, OneRow(3)),
    ('key = "a \\"b\\""', {"key": 'a "b"'}, ByColumn('a "b"')),
    ("rows_may_only_be_appended = true", {"by_number": True}, ByNumber()),
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
    "day_epsilon = 2": ("day_epsilon = 0", "policy.day_epsilon: epsilon must be positive"),
    'study_epsilon = "0.5"': ('study_epsilon = "x"', "policy.study_epsilon: epsilon must be"),
    KEY: ("ab", "policy.analysts: expected a public key of 64 hexadecimal digits"),
    f'"{KEY}"': ("", "policy.analysts: expected the public key of one analyst or more"),
    'fields = ["age"]': ("fields = [1]", "policy.fields: expected a text"),
    'schema = "people.toml"': ("schema = 1", "records.schema: expected a text, got 1"),
    'key = "id"': (
        'key = "id"\nrow = 0',
        "records.key: expected one of row .*, got row = 0, key =",
    ),
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
        analysts=[bytes.fromhex(KEY)],
        life=8 * 10**9,
        day=1,
        study=5 * 10**8,
        schema=Path("people.toml"),
        data=Path("people.csv"),
        row=3,
    )
    assert given.complete
    found = read_configuration(written(tmp_path, device_toml(given)))
    assert found.aggregator == given.aggregator
    assert found.ca == given.ca
    assert found.policy == Policy(frozenset(given.analysts), 8 * 10**9, 1, 5 * 10**8)
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
