"""The operating system's coins, and losses as ratios."""

from __future__ import annotations

import ast
import os
import random
import re
from pathlib import Path

import pytest

import askance_client
from askance_client.errors import InvalidParameter
from askance_client.randomizers import (
    COIN_SPACE,
    Coins,
    PrivacyLoss,
    Randomizer,
    SystemCoins,
)


def test_system_coins_use_all_64_bits_and_never_repeat() -> None:
    """In 256 words each bit is both 0 and 1 but for a chance of 2^-249; two draws differ too."""
    coins: Coins = SystemCoins()
    words = coins.words(bytes(32), 256)
    union, intersection = 0, COIN_SPACE - 1
    for word in words:
        union |= word
        intersection &= word
    assert len(words) == 256
    assert (union, intersection) == (COIN_SPACE - 1, 0)
    assert not set(words) & set(coins.words(bytes(32), 256))


def test_system_coins_are_the_bytes_of_os_urandom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly those bytes, eight per coin and each once: no other source can feed them."""
    asked: list[int] = []

    def source(count: int) -> bytes:
        asked.append(count)
        return bytes(range(count))

    monkeypatch.setattr(os, "urandom", source)
    assert SystemCoins().words(bytes(32), 2) == (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    assert asked == [16]


def test_no_seed_repeats_system_coins() -> None:
    drawn = []
    for _ in range(2):
        random.seed(7)
        drawn.append(SystemCoins().words(bytes(32), 4))
    assert drawn[0] != drawn[1]


SOURCES = {"random", "secrets", "numpy", "uuid"}  # of randomness, beside `os`
CLIENT = Path(askance_client.__file__).parent
# Files that use one, and for what: none of these numbers comes near a report's content.
OTHER_USES = {
    "service/observable.py": "waits and the order of reports",
    "console/command.py": "the token of a session of the owner's page",
}


def test_no_other_source_of_randomness_is_imported_by_the_client() -> None:
    found = {
        path.relative_to(CLIENT).as_posix()
        for path in CLIENT.rglob("*.py")
        if SOURCES & imported(ast.parse(path.read_text("utf-8")))
    }
    assert found == set(OTHER_USES)


def imported(tree: ast.Module) -> set[str]:
    """Return the packages that a module imports, by a statement or by a call."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            names.update(str(one.value) for one in node.args if isinstance(one, ast.Constant))
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("path", ["cli/running.py", "embedding.py"])
def test_devices_at_work_draw_system_coins(path: str) -> None:
    """The two ways in which devices are started give them all one `SystemCoins()`."""
    source = (CLIENT / path).read_text("utf-8")
    given = [
        ast.unparse(node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.keyword) and node.arg == "coins_for"
    ]
    assert given == ["lambda _: coins"]
    assert len(re.findall(r"\bcoins = (.*, )?SystemCoins\(\)\n", source)) == 1


def test_no_coins_are_none_and_fewer_are_refused() -> None:
    assert SystemCoins().words(b"", 0) == ()
    with pytest.raises(InvalidParameter, match="found -1"):
        SystemCoins().words(b"", -1)


def test_a_loss_is_in_lowest_terms() -> None:
    assert PrivacyLoss(6, 4) == PrivacyLoss(3, 2)
    assert hash(PrivacyLoss(6, 4)) == hash(PrivacyLoss(3, 2))


def test_a_loss_is_charged_and_compared() -> None:
    loss = PrivacyLoss(2, 1)
    assert loss.nano_nats == 693_147_181
    assert loss.fits(693_147_181)
    assert not loss.fits(693_147_180)
    assert loss.exceeds(PrivacyLoss(3, 2))
    assert not loss.exceeds(loss)
    assert not PrivacyLoss(3, 2).exceeds(loss)


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 2), (1, 0), (0, 0), (-1, -1)])
def test_what_is_no_loss_is_refused(numerator: int, denominator: int) -> None:
    with pytest.raises(InvalidParameter):
        PrivacyLoss(numerator, denominator)


PARTS = ("levels", "coins", "draw_cost", "width", "loss", "parameters", "randomize")


@pytest.mark.parametrize("missing", PARTS)
def test_a_randomizer_without_one_of_its_parts_cannot_be_made(missing: str) -> None:
    """Most of all without a loss: it would be None, and a device would charge nothing for it."""
    parts = {name: property(lambda _: 1) for name in PARTS if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (Randomizer,), parts)()
    type("Complete", (Randomizer,), {**parts, missing: property(lambda _: 1)})()
