"""`askance aggregator status` in words: dates in UTC, seconds with their unit, counts by name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from askance.cli.aggregator.status import status_line, webhook_line
from askance_aggregator.store import WebhookFigures


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


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        (
            WebhookFigures("warehouse", 0, 0, 1_234, 0, ""),
            "webhook warehouse: 0 pending, 0 failed, 1,234 delivered",
        ),
        (
            WebhookFigures("warehouse", 2, 1, 3, 1_800, "expected status 2xx, got 500"),
            "webhook warehouse: 2 pending, the oldest for 1,800 s, 1 failed, 3 delivered;"
            " last error: expected status 2xx, got 500",
        ),
    ],
)
def test_a_webhook_is_a_line(figures: WebhookFigures, line: str) -> None:
    assert webhook_line(figures) == line
