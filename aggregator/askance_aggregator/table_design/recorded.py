"""Optima of designs on a grid of epsilons, shipped with the package.

Each file `recorded/NAME.jsonl` has a line per epsilon of the grid (`tools/table_optima.py` writes
them): the table as the message that a device would be sent, compressed, the decode values in units
of 2^-48, and, where a bound is proved, the dual's prices in units of 2^-64. Nothing of a line is
believed: the table is decoded and its loss computed as a device does it, its figure is computed
from its integers, and the prices prove a bound whatever they are.

Between two epsilons of the grid the optimum's figure is about a power of their figures, so that the
price of the lower one's table is known before anything is designed (`Neighbours.cost`).
"""

from __future__ import annotations

import json
from base64 import b85decode, b85encode
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple
from zlib import compress, decompress

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_randomizer
from askance_aggregator.table_design.programme import Dual
from askance_client.codec import decode_randomizer
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Channel
from askance_protos.v1 import randomizer_pb2 as pb

PLACES = 1 << 48
"""Units of a decode value."""

LITTLE = 0.01
"""Part of a figure that the next lower table may cost: less than a hundredth of the users."""

_PRICE_PLACES = 1 << 64  # units of a price: a likelihood of e^16 magnifies its rounding
_FOLDER = "recorded"
_FAR = 0.7  # of the way: up to it a table from the lower optimum is within .8 % of the power law


@dataclass(frozen=True)
class RecordedOptimum:
    """Optimum of one design.

    Args:
        name: of the design.
        scores: decode values, one list of a value per symbol, or two with "missing".
        dual: prices that prove a bound; None: none is proved.
        message: the table's, compressed.
    """

    name: str
    scores: tuple[tuple[Fraction, ...], ...]
    dual: Dual | None
    message: str

    @cached_property
    def channel(self) -> Channel:
        """Decode the table; its loss is that of its integers."""
        message = pb.Randomizer.FromString(decompress(b85decode(self.message)))
        channel = decode_randomizer(message)
        if not isinstance(channel, Channel):
            raise InvalidParameter(f"{self.name}: expected a table, got {channel.name}")
        return channel


class Neighbours(NamedTuple):
    """Recorded epsilons, in nano-nats, on both sides of one that is not recorded."""

    below: int
    above: int
    nano: int

    @property
    def part(self) -> float:
        """Return the part of the way from the lower to the higher one."""
        return (self.nano - self.below) / (self.above - self.below)

    @property
    def by_promise(self) -> tuple[int, int]:
        """Return both, first the one from which a table is sooner made."""
        # The lower one is first, except near the higher: its widened windows do not always make a
        # table.
        return (self.below, self.above) if self.part <= _FAR else (self.above, self.below)

    def cost(self, below: float, above: float) -> float:
        """Return what the lower one's table costs beside a design, as a part of the figure."""
        return float((below / above) ** self.part) - 1


@lru_cache(maxsize=16)
def recorded_optimum(name: str, nano: int) -> RecordedOptimum | None:
    """Return the optimum of a design at an epsilon; None: none is recorded."""
    line = _lines(name).get(nano)
    if line is None:
        return None
    content = json.loads(line)
    scores = tuple(tuple(Fraction(value, PLACES) for value in each) for each in content["scores"])
    dual = None
    if "prices" in content:
        rows, means, caps = (
            _unfolded(np.array([price / _PRICE_PLACES for price in half]), content["levels"], sign)
            for half, sign in zip(content["prices"], (1, -1, 1), strict=True)
        )
        dual = Dual(rows, means, caps)
    return RecordedOptimum(name, scores, dual, content["table"])


def recorded_epsilons(name: str) -> tuple[int, ...]:
    """Return the epsilons of a design that are recorded, in nano-nats, rising."""
    return tuple(sorted(_lines(name)))


def neighbours(name: str, nano: int) -> Neighbours | None:
    """Return the recorded epsilons next to one that is not; None: it is outside the grid."""
    grid = recorded_epsilons(name)
    low, high = bisect_right(grid, nano) - 1, bisect_left(grid, nano)
    return None if low < 0 or high >= len(grid) else Neighbours(grid[low], grid[high], nano)


def line_of(
    nano: int, channel: Channel, scores: Sequence[Sequence[float]], dual: Dual | None
) -> str:
    """Return the line of an optimum; `scores` are rounded to `PLACES`."""
    # Prices are those of half of the levels, each the mean of a level's and of its image's, but for
    # the sign of the price of the mean: bounds are concave, so that no bound is lost.
    content: dict[str, Any] = {
        "nano_nats": nano,
        "table": b85encode(compress(encode_randomizer(channel).SerializeToString(), 9)).decode(),
        "scores": [[round(value * PLACES) for value in each] for each in scores],
    }
    if dual is not None:
        half = (len(dual.rows) + 1) // 2
        content["levels"] = len(dual.rows)
        content["prices"] = [
            [round(price * _PRICE_PLACES) for price in ((each + sign * each[::-1]) / 2)[:half]]
            for each, sign in ((dual.rows, 1), (dual.means, -1), (dual.caps, 1))
        ]
    return json.dumps(content)


def _unfolded(half: NDArray[np.float64], levels: int, sign: int) -> NDArray[np.float64]:
    return np.concatenate([half, sign * half[: levels // 2][::-1]])


@cache
def _lines(name: str) -> dict[int, str]:
    """Return the lines of a file by epsilon; each is parsed when it is needed."""
    text = files(__package__).joinpath(_FOLDER, f"{name}.jsonl").read_text(encoding="utf-8")
    begin = '{"nano_nats": '
    return {int(line[len(begin) : line.index(",")]): line for line in text.splitlines()}
