"""Kinds of arguments: each operation takes its own, in every place, and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import pytest

from askance_client.errors import InvalidQuery
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Kind,
    Op,
    Real,
    Schema,
    constant,
)
from askance_client.queries.expressions import build

S = Schema(
    "s",
    1,
    bit=Bit(),
    number=Integer(0, 2),  # in the range of the categories' indices
    real=Real(0, 2, 3),
    low=Category(["b", "c", "d"]),
    high=Category(["c", "d", "e"]),  # compares above `low`; as many labels
    fewer=Category(["b", "c"]),
    bits=Bits(3),
)
ARGUMENTS: Mapping[str, Callable[[], Expression]] = {
    "bit": lambda: S.bit,
    "number": lambda: S.number,
    "real": lambda: S.real,
    "one": lambda: constant(1),
    "low": lambda: S.low,
    "high": lambda: S.high,
    "fewer": lambda: S.fewer,
    "unlabelled": lambda: build(Op.FIRST, (S.bit, S.bit)),
    "bits": lambda: S.bits,
    "vector": lambda: build(Op.VECTOR, (S.number, S.bit)),
}
BOOLEANS = {"bit", "one"}
NUMBERS = {"bit", "number", "real", "one"}
CATEGORIES = {"low", "high", "fewer", "unlabelled"}


def are_numbers(names: Sequence[str]) -> bool:
    return set(names) <= NUMBERS


def are_booleans(names: Sequence[str]) -> bool:
    return set(names) <= BOOLEANS


def are_alike(names: Sequence[str]) -> bool:
    """Both numbers; or categories with one list of labels, where both have one; or a label."""
    kinds = set(names)
    one_list = kinds <= CATEGORIES and len(kinds - {"unlabelled"}) < 2
    a_label = len(kinds & CATEGORIES) == 1 and kinds - CATEGORIES == {"one"}
    return kinds <= NUMBERS or one_list or a_label


# Of each operation: how many arguments, the constants, the grid, and which arguments it takes.
TAKES: Mapping[Op, tuple[int, tuple[int, ...], int, Callable[[Sequence[str]], bool]]] = {
    Op.COMPONENT: (1, (2,), 0, lambda names: names == ("bits",)),
    Op.ADD: (2, (), 0, are_numbers),
    Op.SUBTRACT: (2, (), 0, are_numbers),
    Op.MULTIPLY: (2, (), 0, are_numbers),
    Op.NEGATE: (1, (), 0, are_numbers),
    Op.LESS: (2, (), 0, are_numbers),
    Op.LESS_EQUAL: (2, (), 0, are_numbers),
    Op.EQUAL: (2, (), 0, are_alike),
    Op.AND: (2, (), 0, are_booleans),
    Op.OR: (2, (), 0, are_booleans),
    Op.NOT: (1, (), 0, are_booleans),
    Op.WHERE: (3, (), 0, lambda names: names[0] in BOOLEANS and are_alike(names[1:])),
    Op.CLIP: (1, (0, 1), 0, are_numbers),
    Op.ROUND: (1, (), 2, lambda names: names == ("real",)),  # the others are on a coarser grid
    Op.SIGMOID: (1, (), 0, are_numbers),
    Op.PARITY: (1, (5,), 0, lambda names: names == ("bits",)),
    Op.DOT: (2, (1, 1), 0, are_numbers),
    Op.BUCKETIZE: (1, (0, 1), 0, are_numbers),
    Op.FIRST: (2, (), 0, are_booleans),
    Op.MINIMUM: (2, (), 0, are_numbers),
    Op.MAXIMUM: (2, (), 0, are_numbers),
    Op.ABSOLUTE: (1, (), 0, are_numbers),
    Op.INDEX: (1, (), 0, lambda names: names[0] in CATEGORIES),
    Op.VECTOR: (2, (), 3, are_numbers),
}


def test_every_operation_with_arguments_is_here() -> None:
    assert set(TAKES) == set(Op) - {Op.FIELD, Op.CONSTANT}


@pytest.mark.parametrize("operation", TAKES)
def test_an_operation_takes_its_kinds_and_no_others(operation: Op) -> None:
    count, constants, grid, takes = TAKES[operation]
    for names in product(ARGUMENTS, repeat=count):
        args = tuple(ARGUMENTS[name]() for name in names)
        if takes(names):
            assert build(operation, args, constants=constants, grid=grid).args == args, names
        else:
            with pytest.raises(InvalidQuery):
                build(operation, args, constants=constants, grid=grid)


def test_a_dot_of_bits_takes_them_alone() -> None:
    assert build(Op.DOT, (S.bits,), constants=(1, 2, 3)).high == 6
    for name in set(ARGUMENTS) - NUMBERS - {"bits"}:
        for count in (1, 2, 3):
            with pytest.raises(InvalidQuery, match="DOT expects BOOLEAN or NUMBER as argument 1"):
                build(Op.DOT, (ARGUMENTS[name](),), constants=(1,) * count)


BOOLEAN, NUMBER, CATEGORY = Kind.BOOLEAN, Kind.NUMBER, Kind.CATEGORY


@pytest.mark.parametrize(
    ("names", "kind", "labels"),
    [
        (("bit", "one"), BOOLEAN, None),
        (("bit", "number"), NUMBER, None),
        (("number", "bit"), NUMBER, None),
        (("number", "number"), NUMBER, None),
        (("low", "low"), CATEGORY, ("b", "c", "d")),
        (("low", "one"), CATEGORY, ("b", "c", "d")),
        (("one", "high"), CATEGORY, ("c", "d", "e")),
        (("low", "unlabelled"), CATEGORY, None),
        (("unlabelled", "low"), CATEGORY, None),
        (("unlabelled", "one"), CATEGORY, None),
    ],
)
def test_a_choice_is_of_the_kind_of_both(
    names: tuple[str, str], kind: Kind, labels: tuple[str, ...] | None
) -> None:
    a, b = (ARGUMENTS[name]() for name in names)
    chosen = build(Op.WHERE, (S.bit, a, b))
    assert (chosen.kind, chosen.labels) == (kind, labels)
    assert (chosen.low, chosen.high) == (min(a.low, b.low), max(a.high, b.high))
