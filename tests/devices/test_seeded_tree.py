"""Test builds of the TypeScript device: each change is of a text that the package still has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.devices.scripted import PACKAGE
from tests.devices.seeded_coins import SeededCoins
from tests.devices.seeded_tree import PLANTS, seeded_tree


@pytest.mark.parametrize("plant", [None, *PLANTS])
def test_a_test_build_is_the_source_with_seeded_coins(plant: str | None, tmp_path: Path) -> None:
    tree = seeded_tree(tmp_path / "tree", 7, [] if plant is None else [plant])
    source = PACKAGE / "src"
    changed = {
        str(file.relative_to(source))
        for file in source.rglob("*.ts")
        if file.read_bytes() != (tree.package / "src" / file.relative_to(source)).read_bytes()
    }
    planted = set() if plant is None else {PLANTS[plant].file.removeprefix("src/")}
    assert changed == {"embedding.ts"} | planted
    embedding = (tree.package / "src" / "embedding.ts").read_text()
    assert "new SeededCoins(7n, deviceId)" in embedding
    assert "SystemCoins" not in embedding


def test_the_shipped_source_has_one_kind_of_coins() -> None:
    """The operating system's coins: their class is made once and takes nothing."""
    source = PACKAGE / "src"
    texts = {str(file.relative_to(source)): file.read_text() for file in source.rglob("*.ts")}
    coins = {name: text.count("implements Coins") for name, text in texts.items()}
    made = {name: text.count("new SystemCoins()") for name, text in texts.items()}
    assert {name for name, count in coins.items() if count} == {"randomizers/coins.ts"}
    assert {name: count for name, count in made.items() if count} == {"embedding.ts": 1}
    assert coins["randomizers/coins.ts"] == 1
    assert not [name for name, text in texts.items() if "process.env" in text]


def test_coins_follow_from_seed_device_request_and_number() -> None:
    def words(seed: int, device: bytes, request: bytes, count: int) -> tuple[int, ...]:
        return SeededCoins(seed, device).words(request, count)

    given = words(1, b"a", bytes(32), 2)
    assert given == words(1, b"a", bytes(32), 2)
    others = [
        words(2, b"a", bytes(32), 2),
        words(1, b"b", bytes(32), 2),
        words(1, b"a", b"\1" * 32, 2),
        words(1, b"a", bytes(32), 3)[:2],
    ]
    assert len({given, *others}) == 5
