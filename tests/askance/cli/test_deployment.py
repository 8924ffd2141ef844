"""`askance plan --deployment`: rates of few devices have digits too."""

from __future__ import annotations

import pytest

from askance.cli import main


@pytest.mark.parametrize(
    ("load", "parts"),
    [
        (
            "devices=100,checkins_per_day=4,reports=1",
            ("16.7 per hour, 50 per hour in the busiest hour", "less than 0.1 cores", "988 kB"),
        ),
        (
            "devices=1e8,checkins_per_day=4,reports=1",
            ("4,630 per second, 13,889 per second in the busiest hour", "6.2 cores", "988 GB"),
        ),
    ],
)
def test_rates_and_sizes_have_the_unit_that_shows_them(
    load: str, parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--deployment", load]) == 0
    screen = capsys.readouterr().out
    assert all(part in screen for part in parts), screen
    assert " 0 per" not in screen
    assert " 0.0" not in screen.partition("busiest hour  ")[0]


def test_the_largest_number_of_devices_waits_no_negative_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "--deployment", "devices=1e11"]) == 0
    screen = capsys.readouterr().out
    assert "replicas          10,369 " in screen
    assert "-0" not in screen


def test_more_devices_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--deployment", "devices=1e12"]) == 2
    problem = capsys.readouterr().err
    assert problem == "askance: --deployment devices: expected at most 1e+11, got 1e+12\n"
