"""Default schemas of learners, for planning and simulation without data."""

from __future__ import annotations

from typing import Annotated

from askance_aggregator.numbers import whole_within
from askance_client.queries import Bit, Bits, Category, Integer, Label, Real, Schema

MAX_PLANE = 32
MAX_WIDTH = 256
MAX_VECTOR = 1024
MAX_EPOCHS = 256  # eight operations each: a query has 4,096


def traits_schema() -> Schema:
    """People of two groups, y, with traits of every kind that a schema knows."""
    return Schema(
        "traits",
        1,
        age=Integer(0, 99),
        height=Real(0, 1),
        colour=Category(["red", "green", "blue"]),
        member=Bit(),
        answers=Bits(3),
        y=Label(["no", "yes"]),
    )


def plane_schema(d: int) -> Schema:
    """Numbers x0 .. x(d-1) and an outcome y, all in [-1, 1]; d is in 1..32."""
    whole_within(d, 1, MAX_PLANE, "d")
    features = {f"x{j}": Real(-1, 1) for j in range(d)}
    return Schema.of("plane", 1, {**features, "y": Real(-1, 1)})


def words_schema(width: int) -> Schema:
    """A word of `width` bits, 1..256."""
    whole_within(width, 1, MAX_WIDTH, "width")
    return Schema("words", 1, word=Bits(width))


def vectors_schema(
    d: Annotated[int, "how many numbers, to plan without data (8)"] = 8,
) -> Schema:
    """Numbers x0 .. x(d-1) in [-1, 1]; d is in 1..1024."""
    whole_within(d, 1, MAX_VECTOR, "d")
    return Schema.of("vectors", 1, {f"x{j}": Real(-1, 1) for j in range(d)})


def paths_schema(
    horizon: Annotated[int, "how many epochs, to plan without data (16)"] = 16,
) -> Schema:
    """A bit per epoch, oldest first: epoch_1 .. epoch_T, T in 2..256."""
    whole_within(horizon, 2, MAX_EPOCHS, "horizon")
    return Schema.of("paths", 1, {f"epoch_{place}": Bit() for place in range(1, horizon + 1)})
