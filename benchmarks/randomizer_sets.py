"""Cost of reports that are sets: bitmaps always, and as they travel.

A set of few members travels as sorted indices where these are shorter than its bitmap
(`SetRandomizer`). Each randomizer is measured beside a twin whose reports are bitmaps always: the
draw of a device, the count of a report by an aggregator, and the draw of a user in columns. Times
are microseconds of the processor, the least of some runs; bytes are exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from askance_aggregator.families import signed_subset_selection, subset_selection
from askance_aggregator.families.sets import count_items
from askance_client.randomizers import COIN_SPACE, SignedSubsetSelection, SubsetSelection
from askance_simulation.families import draw

NAT = 10**9
RUNS = 5
_SEED = 7
_COINS = 1 << 22  # of a run in columns, at most: bounds memory
_REPORTS = 2000  # of a run, at most
_DRAWS = 50  # of a device in a run


class SubsetBitmaps(SubsetSelection):
    """Subset selection whose reports are bitmaps always."""

    __slots__ = ()

    @property
    def index_bytes(self) -> int:
        """No index."""
        return 0


class SignedBitmaps(SignedSubsetSelection):
    """Signed subset selection whose reports are bitmaps always."""

    __slots__ = ()

    @property
    def index_bytes(self) -> int:
        """No index."""
        return 0


SetKind = SubsetSelection | SignedSubsetSelection


@dataclass(frozen=True, slots=True)
class SetCost:
    """Cost of one form of a report.

    Args:
        report_bytes: of a report.
        device_us: a device's draw.
        counted_us: a report counted.
        columns_us: a user drawn in columns.
    """

    report_bytes: int
    device_us: float
    counted_us: float
    columns_us: float


@dataclass(frozen=True, slots=True)
class SetRow:
    """Costs of a set: as a bitmap, and as it travels."""

    name: str
    bitmap: SetCost
    travels: SetCost


@dataclass(frozen=True, slots=True)
class SetCase:
    """A set, and its twin whose reports are bitmaps.

    Args:
        name: for the table.
        chosen: as it travels.
        twin: the same set as a bitmap.
        signs: see `count_items`.
    """

    name: str
    chosen: SetKind
    twin: SetKind
    signs: int


def cases() -> Iterator[SetCase]:
    """Generate sets of few members, and two whose bitmaps are shorter."""
    few = SubsetSelection(40_000, 5, COIN_SPACE // 2)
    yield _of_cells("5 of 40,000 cells", few)
    for cells, epsilon in ((65_535, 8), (1024, 5), (256, 4), (64, 1), (256, 1)):
        chosen = subset_selection(cells, epsilon * NAT)
        yield _of_cells(f"{chosen.size} of {cells:,} cells (eps {epsilon})", chosen)
    for values, epsilon in ((1000, 6), (32_767, 9)):
        signs = signed_subset_selection(values, epsilon * NAT)
        twin = SignedBitmaps(signs.values, signs.size, signs.threshold)
        name = f"{signs.size} of {values:,} signed values (eps {epsilon})"
        yield SetCase(name, signs, twin, signs=2)


def _of_cells(name: str, chosen: SubsetSelection) -> SetCase:
    twin = SubsetBitmaps(chosen.cells, chosen.size, chosen.threshold)
    return SetCase(name, chosen, twin, signs=1)


def set_rows(runs: int = RUNS) -> Iterator[SetRow]:
    """Measure each set in both forms, in turn."""
    for case in cases():
        bitmap, travels = (_cost(kind, case.signs, runs) for kind in (case.twin, case.chosen))
        yield SetRow(case.name, bitmap, travels)


def _cost(randomizer: SetKind, signs: int, runs: int) -> SetCost:
    rng = np.random.default_rng(_SEED)
    users = max(min(_REPORTS, _COINS // max(randomizer.coins, 8 * randomizer.width)), 1)
    coins = rng.integers(0, 1 << 64, (users, randomizer.coins), dtype=np.uint64)
    levels = rng.integers(0, randomizer.levels, users)
    reports = draw(randomizer, levels, coins)
    tosses = [row.tolist() for row in coins[:_DRAWS]]

    def device() -> None:
        for level, row in zip(levels, tosses, strict=False):
            randomizer.randomize(int(level), row)

    return SetCost(
        report_bytes=randomizer.width,
        device_us=_least_us(device, runs) / len(tosses),
        counted_us=_least_us(lambda: count_items(randomizer, reports, signs), runs) / users,
        columns_us=_least_us(lambda: draw(randomizer, levels, coins), runs) / users,
    )


def _least_us(work: Callable[[], Any], runs: int) -> float:
    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return 1e6 * min(once() for _ in range(runs))
