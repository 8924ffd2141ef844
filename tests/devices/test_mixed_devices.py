"""A share of `many_kinds.py --same` of `tests/endurance`: four kinds beside Python devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from askance_client.device import record_work
from askance_client.queries import Schema
from tests.devices.programs import WHY, program
from tests.devices.same_transcripts import KeptStudy, Reference, differences
from tests.devices.seeded_coins import SeededCoins

SEED = 3


@pytest.mark.slow
@pytest.mark.skipif(WHY is not None, reason=WHY or "")
def test_devices_of_four_kinds_leave_the_bytes_of_python_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python devices that differ from them in one thing leave others."""
    script = program("many_kinds")
    scale = script.Scale(pages=2, node=3, processes=1, members=100, singles=1)
    build = script.SeededBuild.of(tmp_path / "tree", SEED, release_ms=5_000, least_wait_ms=500)
    campaign = script.Campaign(scale, SEED, tmp_path, build)

    def studies(schema: Schema) -> dict[str, Any]:
        return {"mean": script.studies_of(schema, same=True)["mean"]}

    mixed = campaign.run(studies)
    reference = campaign.reference(build)
    assert [sorted(study.reports[0]) for study in mixed] == [list(range(scale.users))]
    assert compared(mixed, reference) == []

    for coins in (OneMore, Swapped):
        assert compared(mixed, replace(reference, coins=coins)) != []
    monkeypatch.setattr(record_work, "round_to_levels", nearest)
    assert compared(mixed, reference) != []


def compared(mixed: list[KeptStudy], reference: Reference) -> list[str]:
    """Return the differences from Python devices."""
    return differences(mixed, reference.ask(mixed), reference)


class OneMore(SeededCoins):
    """Coins of a device that takes one more than it needs."""

    def __init__(self, device_id: bytes) -> None:
        super().__init__(SEED, device_id)

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return super().words(request, count + 1)[1:]


class Swapped(OneMore):
    """Coins of a device that takes those that round before those that draw, one of each."""

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return SeededCoins.words(self, request, count)[::-1]


def nearest(value: int, low: int, high: int, levels: int, coin: int) -> int:
    """Round to the nearest level, without a coin."""
    below, rest = divmod((value - low) * (levels - 1), high - low)
    return below + (2 * rest >= high - low)
