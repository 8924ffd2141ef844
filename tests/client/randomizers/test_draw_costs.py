"""Public cost of a draw, per family: the heaviest parameters, and small ones, computed by hand."""

from __future__ import annotations

import pytest

from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

HALF = COIN_SPACE // 2
EVEN = Channel(((HALF, HALF), (HALF, HALF)))
WIDE = Channel(((*[1] * 719, COIN_SPACE - 719),) * 2)

COSTS: list[tuple[Randomizer, int]] = [
    (EVEN, 16),
    (WIDE, 16 + 180),  # 720 symbols
    (KaryResponse(2, 1), 16),
    (KaryResponse(1 << 20, 1), 16),
    (LinearHashing(3, 2, HALF), 16 + 8),  # two binary digits
    (LinearHashing(1 << 20, 2, HALF), 16 + 80),  # twenty
    (HadamardSign(1, HALF), 16),
    (HadamardSign(32767, HALF), 16),
    (SubsetSelection(10, 3, HALF), 16 + 6),
    (SubsetSelection(1 << 20, 2730, HALF), 16 + 5_460 + 16_384),
    (SubsetSelection(65_535, 8_192, HALF), 16 + 16_384 + 1_023),
    (SignedSubsetSelection(20, 2, HALF), 16 + 4 + 2),
    (SignedSubsetSelection(32_767, 32_767, HALF), 16 + 65_534 + 4_095),
    (HypercubeResponse(1, 0, HALF), 16 + 6),
    (HypercubeResponse(1_024, 511, HALF), 16 + 6_144),
    # Of 4 components a code has 18 coordinates, of 1,024 it has 1,026; each takes 32 steps.
    (RandomCodebook(4, 100, 1, 10, HALF), 16 + 18 * 32),
    (RandomCodebook(1_024, 100, 1, 10, HALF), 16 + 1_026 * 32),
    (RandomCodebook(1_024, 100, 31, 10, HALF), 16 + 31 * 1_026 * 32),
    (RandomCodebook(4, 100, 1_820, 10, HALF), 16 + 1_820 * 18 * 32),
]


def test_every_family_has_a_cost_here() -> None:
    families = {randomizer.name for randomizer, _ in COSTS}
    assert families == {
        "channel",
        "codebook",
        "hadamard-sign",
        "hypercube",
        "k-ary",
        "linear-hashing",
        "signed-subset-selection",
        "subset-selection",
    }


@pytest.mark.parametrize(("randomizer", "cost"), COSTS, ids=lambda part: str(part)[:24])
def test_the_cost_of_a_draw_is_a_function_of_the_parameters(
    randomizer: Randomizer, cost: int
) -> None:
    assert randomizer.draw_cost == cost
