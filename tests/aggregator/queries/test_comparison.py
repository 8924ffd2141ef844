"""Queries of a replayed learner and those on record, up to one grid step."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from askance_aggregator.queries import (
    as_query,
    bucketize,
    clip,
    dot,
    parity,
    predicate,
    real,
    within_a_step,
)
from askance_client.queries import Bit, Bits, Category, Integer, Real, Schema

S = Schema(
    "s",
    1,
    b=Bit(),
    v=Bits(3),
    c=Category(["red", "green", "blue"]),
    single=Category(["only"]),
    i=Integer(-3, 4),
    n=Integer(0, 6),
    r=Real(-1, 2, 8),
    wide=Integer(0, 1 << 31),
)


STEP = Fraction(1, 1 << 16)


@pytest.mark.parametrize(
    ("recorded", "asked", "close"),
    [
        (S.r > 0.5, S.r > 0.5, True),
        (S.r > 0.5, S.r > 0.5 + STEP, True),
        (S.r > 0.5, S.r > 0.5 - STEP, True),
        (S.r > 0.5, S.r > 0.5 + 2 * STEP, False),
        (S.r > 0.5, S.r >= 0.5, False),
        (S.i > 1, S.i > 2, False),  # an integer was never rounded
        (S.c == "red", S.c == "green", False),
        (S.v[0], S.v[1], False),
        (parity(S.v, "100"), parity(S.v, "010"), False),
        (dot([0.1, 0.2], [S.r, S.i]), dot([0.1 + STEP, 0.2 - STEP], [S.r, S.i]), True),
        (dot([0.1, 0.2], [S.r, S.i]), dot([0.1, 0.2 + 3 * STEP], [S.r, S.i]), False),
        (dot([1, 2], [S.r, S.i]), dot([1, 3], [S.r, S.i]), False),
        (clip(S.r, 0.1, 0.9), clip(S.r, 0.1 + STEP, 0.9), True),
        (clip(S.r, 0.1, 0.9), clip(S.r, 0.1, 0.8), False),
        (bucketize(S.r, [0.1, 0.9]), bucketize(S.r, [0.1 + STEP, 0.9]), True),
        (bucketize(S.r, [0.1, 0.9]), bucketize(S.r, [0.1]), False),
        (real(S.r * 0.5, high=0.5), real(S.r * 0.5, high=0.5 + Fraction(1, 1 << 24)), True),
        (real(S.r * 0.5, high=0.5), real(S.r * 0.5, high=0.75), False),
        (real(S.i, high=2), real(S.i, high=3), False),
        (real(S.r, default=0), real(S.r, default=1), False),
        (real(S.b), predicate(S.b), False),
        (predicate(S.b, 0), predicate(S.b, 1), False),
    ],
)
def test_within_a_step(recorded: Any, asked: Any, close: bool) -> None:
    assert within_a_step(as_query(recorded), as_query(asked)) is close
    assert within_a_step(as_query(asked), as_query(recorded)) is close
