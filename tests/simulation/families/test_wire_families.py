"""Families of the wire: vectors, exact law, audit view, column draw and `verify` of each.

The message `Randomizer` is enumerated, so that a new family fails here until it has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from askance_aggregator.families import registered
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Randomizer
from askance_protos.v1 import randomizer_pb2
from askance_simulation.audit.statements import stated
from askance_simulation.experiments.verification import recount
from askance_simulation.families import draw, verified_kind, verified_makers

VECTORS = Path(__file__).parents[2] / "vectors" / "v1" / "randomizer.json"
FAMILIES = [
    field.name for field in randomizer_pb2.Randomizer.DESCRIPTOR.oneofs_by_name["family"].fields
]
ALL = [
    "golden vectors",
    "facts for the aggregator",
    "exact law",
    "audit view",
    "column draw",
    "verify entry",
]
NANO_NATS = (10**8, 4 * 10**9)


def missing(family: str) -> Iterator[str]:
    """Generate the parts that a family of the wire does not have."""
    kind, randomizers = verified_kind(family), list(made(family))
    if family not in families_of_vectors():
        yield "golden vectors"
    if kind not in registered():
        yield "facts for the aggregator"
    if not any(has_exact_law(randomizer) for randomizer in randomizers):
        yield "exact law"
    if not randomizers or not all(has_audit_view(randomizer) for randomizer in randomizers):
        yield "audit view"
    if kind is None or draw.dispatch(kind) is draw.dispatch(object):
        yield "column draw"
    if not verified_makers(family):
        yield "verify entry"


def made(family: str) -> Iterator[Randomizer]:
    """Generate the randomizers that `verify` checks, at several budgets."""
    for maker in verified_makers(family).values():
        for nano in NANO_NATS:
            try:
                yield maker(nano)
            except InvalidParameter:  # this budget cannot be expressed
                continue


def families_of_vectors() -> set[str]:
    cases = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]
    parse = randomizer_pb2.Randomizer.FromString
    return {str(parse(bytes.fromhex(case["hex"])).WhichOneof("family")) for case in cases}


def has_exact_law(randomizer: Randomizer) -> bool:
    """Compare the certified loss with that of all reports' probabilities, where they are listed.

    A device's loss may be above it by what its integer draws are off, far less than 10^-9.
    """
    loss = Fraction(randomizer.loss.numerator, randomizer.loss.denominator)
    recounted = recount(randomizer)
    return recounted is not None and loss * (1 - Fraction(1, 10**9)) <= recounted <= loss


def has_audit_view(randomizer: Randomizer) -> bool:
    return len(stated(randomizer, {0: Fraction(1)}).shares) > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_the_wire_has_all_its_parts(family: str) -> None:
    assert list(missing(family)) == []


def test_a_family_that_is_only_on_the_wire_lacks_every_part() -> None:
    assert list(missing("a_new_family")) == ALL


def vector_level(randomizer: Randomizer, row: list[int]) -> int:
    """Return the level of a vector; of signs, 1 for +, the pattern of which no coin decides."""
    low, high = (0, 1) if randomizer.vector_coins else (-9, 9)
    return randomizer.vector_level(row, low, high, [0] * randomizer.vector_coins)


@pytest.mark.parametrize("family", FAMILIES)
def test_its_column_draw_is_the_draw_of_devices(family: str) -> None:
    generator = np.random.default_rng(11)
    for randomizer in made(family):
        highest = min(randomizer.levels, 1 << 62)
        levels = [0, highest - 1, *generator.integers(0, highest, 6).tolist()]
        coins = generator.integers(0, COIN_SPACE, (8, randomizer.coins), dtype=np.uint64)
        column = np.array(levels)
        if randomizer.vector_components:
            shape = (8, randomizer.vector_components)
            signs = randomizer.vector_coins > 0
            column = generator.integers(0, 2, shape) if signs else generator.integers(-9, 9, shape)
            levels = [vector_level(randomizer, row) for row in column.tolist()]
        one_by_one = [
            randomizer.randomize(level, row)
            for level, row in zip(levels, coins.tolist(), strict=True)
        ]
        assert [row.tobytes() for row in draw(randomizer, column, coins)] == one_by_one
