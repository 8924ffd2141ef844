"""The operating system's coins, and losses as ratios."""

from __future__ import annotations

import pytest

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


PARTS = ("levels", "coins", "width", "loss", "parameters", "randomize", "valid", "probability")


@pytest.mark.parametrize("missing", PARTS)
def test_a_randomizer_without_one_of_its_parts_cannot_be_made(missing: str) -> None:
    """Most of all without a loss: it would be None, and a device would charge nothing for it."""
    parts = {name: property(lambda _: 1) for name in PARTS if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (Randomizer,), parts)()
    type("Complete", (Randomizer,), {**parts, missing: property(lambda _: 1)})()
