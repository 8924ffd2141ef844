"""Draws that count: a group's reports in columns, and the sums that its tally follows from.

A family may register a kernel (`kernel.register`): one compiled loop from coins to reports and to
sums. It is optional in two ways. A family without one, or a randomizer that it returns None for, is
drawn by `dispatch.draw` and counted by the family's `tally`; and so is every family where numba is
not installed, or where the users are fewer than it takes to import it. Reports and tallies are the
same either way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family_of
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer
from askance_simulation.families.dispatch import Coins, Levels, Reports, TallyCounts, Truths, draw

LEAST_USERS = 10**6
"""Users of a population from which kernels are imported: importing numba takes half a second."""

LEAST_EXPECTED = 10**7
"""Users of many small populations from which kernels are imported: the cells of a sweep may take
several of them."""

_PER_LEVEL = 64  # reports for each level that are tallied together, so that most time is theirs ...
_HELD = 1 << 22  # ... unless they have this many bytes

_MOST = (1 << 32) - 1  # users that 32-bit sums are for, of which each adds at most 1 to a sum

Sums = NDArray[np.int64]
NarrowSums = NDArray[np.uint32]
AnyLevels = NDArray[np.integer[Any]] | Truths
Loaded = tuple[Callable[..., None], tuple[Any, ...]]
"""A compiled function and its last arguments."""

Run = Callable[[AnyLevels, Coins, NarrowSums], Reports]
"""Draws the reports of users, and adds to the sums."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A compiled draw of one randomizer.

    Args:
        load: imports a function of levels, coins, reports, sums and constants that fills the
            reports, shape (n, width), and adds to the sums, at most 1 per user to each; and these
            constants. The coins are contiguous, of shape (n, randomizer.coins or more).
        sums: number of sums; 0 if it counts nothing, so that the reports are tallied.
        counts: the family's tally, from the sums; by default the sums themselves.
    """

    load: Callable[[], Loaded]
    sums: int
    counts: Callable[[Sums], TallyCounts] = np.copy


@singledispatch
def kernel(randomizer: Randomizer) -> Kernel | None:
    """Return the compiled draw of a randomizer; None if its family has none for it."""
    return None


class Counter(Protocol):
    """The reports of a group's users, drawn and counted."""

    def draw(self, levels: AnyLevels, coins: Coins) -> Reports:
        """Draw the reports of users as `dispatch.draw` does, and count them."""
        ...

    def replace(self, reports: Reports, rows: NDArray[np.int64], others: Reports) -> None:
        """Replace some of the reports that were drawn last, in place and in the count."""
        ...

    def sums(self) -> Sums:
        """Return sums over all reports so far, of which `counts_of` is their tally."""
        ...


class TallyingCounter:
    """Counter by the family's own tally.

    The tally of a large alphabet takes long however few the reports: they are held until they are
    enough for it.
    """

    def __init__(self, randomizer: Randomizer, run: Run | None = None) -> None:
        self._randomizer = randomizer
        self._run = run
        self._held: list[Reports] = []
        self._reports = 0
        self._enough = min(_PER_LEVEL * randomizer.levels, _HELD // randomizer.width)
        self._counts = _no_reports(randomizer)

    def draw(self, levels: AnyLevels, coins: Coins) -> Reports:
        if self._reports >= self._enough:
            self._tally()
        if self._run is None:
            used = coins[:, : self._randomizer.coins]
            reports = draw(self._randomizer, _wide(levels), used)
        else:
            reports = self._run(levels, coins, np.zeros(0, np.uint32))
        self._held.append(reports)
        self._reports += len(reports)
        return reports

    def replace(self, reports: Reports, rows: NDArray[np.int64], others: Reports) -> None:
        reports[rows] = others  # which are held, and counted later

    def sums(self) -> Sums:
        self._tally()
        return self._counts

    def _tally(self) -> None:
        held, self._held, self._reports = self._held, [], 0
        if held:
            reports = held[0] if len(held) == 1 else np.concatenate(held)
            self._counts = self._counts + family_of(self._randomizer).tally(reports)


class FusedCounter:
    """Counter by a kernel that counts what it draws.

    Its sums are the kernel's, and after them the changes of the tally by reports that were
    replaced. The kernel adds to sums of 32 bits: many of them fit a cache twice as near.
    """

    def __init__(self, randomizer: Randomizer, run: Run, sums: int) -> None:
        self._randomizer = randomizer
        self._run = run
        self._sums = np.zeros(sums, np.int64)
        self._latest = np.zeros(sums, np.uint32)
        self._users = 0  # of the latest sums
        self._changes = _no_reports(randomizer)

    def draw(self, levels: AnyLevels, coins: Coins) -> Reports:
        if self._users + len(levels) > _MOST:
            self._add_latest()
        self._users += len(levels)
        return self._run(levels, coins, self._latest)

    def replace(self, reports: Reports, rows: NDArray[np.int64], others: Reports) -> None:
        family = family_of(self._randomizer)
        self._changes += family.tally(others) - family.tally(reports[rows])
        reports[rows] = others

    def sums(self) -> Sums:
        self._add_latest()
        return np.concatenate((self._sums, self._changes))

    def _add_latest(self) -> None:
        self._sums += self._latest
        self._latest[:] = 0
        self._users = 0


def most_met(users: int, expected: int) -> int:
    """Return a number of users that decides on kernels (see `has_kernels`)."""
    return max(users, expected if expected >= LEAST_EXPECTED else 0)


def has_kernels(users: int) -> bool:
    """Return whether a population of this size is drawn by kernels, where numba is installed."""
    return users >= LEAST_USERS


def import_kernels(users: int) -> None:
    """Import numba, if a population of this size is drawn by kernels and numba is installed."""
    if has_kernels(users):
        with suppress(ImportError):
            from askance_simulation.kernels import compiling

            del compiling


def counter(randomizer: Randomizer, users: int) -> Counter:
    """Make a counter of a group's reports."""
    run = _loaded(randomizer) if has_kernels(users) else None
    found = kernel(randomizer) if run is not None else None
    if run is None or found is None or not found.sums:
        return TallyingCounter(randomizer, run)
    return FusedCounter(randomizer, run, found.sums)


def counts_of(randomizer: Randomizer, sums: Sums) -> TallyCounts:
    """Compute a tally from the sums of counters of either kind, which may be added up before."""
    tallied = _tallied(randomizer)
    if len(sums) == tallied:
        return sums
    found = kernel(randomizer)
    if found is None or len(sums) != found.sums + tallied:
        raise InvalidParameter(
            f"sums of {randomizer.name}: expected {tallied} of them, got {len(sums)}"
        )
    counts: TallyCounts = found.counts(sums[: found.sums]) + sums[found.sums :]
    return counts


@lru_cache(maxsize=64)
def _loaded(randomizer: Randomizer) -> Run | None:
    """Load the compiled draw of a randomizer; None if it has none or numba is not installed."""
    found = kernel(randomizer)
    if found is None:
        return None
    try:
        compiled, constants = found.load()
    except ImportError:
        return None

    def run(levels: AnyLevels, coins: Coins, sums: NarrowSums) -> Reports:
        reports = np.empty((len(levels), randomizer.width), np.uint8)
        compiled(levels, np.ascontiguousarray(coins), reports, sums, *constants)
        return reports

    return run


def _wide(levels: AnyLevels) -> Levels | Truths:
    """Return levels in the types that `dispatch.draw` computes with."""
    if levels.dtype == np.bool_:
        return levels.view(np.bool_)
    return levels.astype(np.int64, copy=False)


def _no_reports(randomizer: Randomizer) -> TallyCounts:
    return np.zeros(_tallied(randomizer), np.int64)


@lru_cache(maxsize=64)
def _tallied(randomizer: Randomizer) -> int:
    """Return the length of a tally."""
    return len(family_of(randomizer).tally(np.zeros((0, randomizer.width), np.uint8)))
