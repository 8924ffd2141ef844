"""`askance aggregator status` in words: dates in UTC, seconds with their unit, counts by name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from askance.cli.aggregator.status import status_line


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("certificate_ends_unix_s", 1_866_635_714, "certificate ends: 2029-02-24T13:55:14Z"),
        ("oldest_round_s", 1_200, "oldest round: 1,200 s"),
        ("store_bytes", 737_176, "store bytes: 737,176"),
        ("audit_digest", "0a" * 32, f"audit digest: {'0a' * 32}"),
        ("studies", {"done": 2, "open": 0}, "studies: 2 done"),
        ("failures_in_a_row", {"disk": 0}, "failures in a row: none"),
    ],
)
def test_an_entry_is_a_line(name: str, value: int | str | Mapping[str, int], line: str) -> None:
    assert status_line(name, value) == line
