"""A malformed row affects its own user only: all others of the file enrol and answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.client.process.conftest import make_folder

LONG = "9" * 140_000
# Rows of a user b; the number of users who answer.
ROWS = {
    "a stray comma": ("b,secret,1", 2),
    "a cell of 140 kB": (f"b,{LONG}", 3),
    "a number of 5,000 digits": ("b," + "9" * 5000, 3),
    "a quote that does not close": ('b,"secret', 2),
}
WAIT_S = 60


@pytest.mark.parametrize("case", ROWS)
def test_one_row_that_does_not_parse_keeps_nobody_else_from_answering(
    tmp_path: Path, aggregator: Any, case: str
) -> None:
    row, people = ROWS[case]
    folder = make_folder(
        tmp_path, aggregator.server.address, people=f"id,smokes\na,1\n{row}\nc,0\n"
    )
    code, enrolled, err = folder.run("enroll", "--token", aggregator.token(3))
    assert (code, enrolled["enrolled"]) == (0, people), err
    if case != "a number of 5,000 digits":  # a text that fits no field, counted as such
        assert err.count("\n") == 1
        assert "people.csv: line 3: expected" in err
    assert "secret" not in err
    assert LONG[:100] not in err
    asked = aggregator.ask(aggregator.round())
    code, summary, _ = folder.run("run", "--once")
    assert (code, summary["answered"]) == (0, people)
    asked.result(WAIT_S)


def test_json_too(tmp_path: Path, aggregator: Any) -> None:
    folder = make_folder(tmp_path, aggregator.server.address)
    number = '[{"id": "a", "smokes": 1}, {"id": "b", "smokes": ' + "9" * 5000 + "}]"
    (tmp_path / "people.json").write_text(number)
    configuration = folder.path / "device.toml"
    configuration.write_text(configuration.read_text().replace("people.csv", "people.json"))
    code, enrolled, err = folder.run("enroll", "--token", aggregator.token(2))
    assert (code, enrolled["enrolled"]) == (0, 2), err
    assert "people.json: item 2: expected numbers of at most 640 digits, got a longer one" in err
