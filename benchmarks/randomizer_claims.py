"""Claims about the randomizers, compared with measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import masked_parity_users as parity
from peers_accuracy import Accuracy
from randomizer_cells import FrequencyRow, SignedRow
from randomizer_devices import MOST_BYTES, MOST_MS, DeviceRow
from randomizer_limits import CellLimit, MeanLimit
from randomizer_means import MeanRow
from simulators import Row as SpeedRow

FAR = 5.0  # standard errors at which what was measured is not what is stated
SPEEDS = {"cells-2": 10e6, "cells-1024": 3e6}  # users a second, at least
ENOUGH = 500_000  # users
NEAR_OPTIMUM = {64: 1.01, 1024: 1.03}  # by cells; at epsilon .5 to 4
CLOSE_TO_DUCHI, CLOSE_TO_LIMIT, CLOSE_TO_PRIOR = 1e-6, 0.01, 0.001

WITHIN, FEW_NATS = 1.01, 12.5  # a mean's plan over its limit, up to this epsilon
CELLS_WITHIN = 1.035


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure and what bounds it.

    Args:
        of: what it is about.
        worst: the figure, where it is nearest to its bound or farthest beyond.
        bound: the most it may be; where `least`, the least.
    """

    of: str
    worst: float
    bound: float
    least: bool = False

    @property
    def holds(self) -> bool:
        """True if the figure is within the bound."""
        return self.worst >= self.bound if self.least else self.worst <= self.bound


def of_means(rows: Sequence[MeanRow]) -> Iterator[Claim]:
    """Compare means: minimax with C^2, others with the dual's bound, measured with stated."""
    by = {name: [row for row in rows if row.objective == name] for name in _objectives(rows)}
    yield from _most(
        "means: |minimax - C^2|",
        (abs(row.figure - row.duchi) for row in by.get("minimax", ())),
        CLOSE_TO_DUCHI,
    )
    yield from _most(
        "means: conditional / limit - 1",
        (row.figure / row.limit - 1 for row in by.get("conditional", ())),
        CLOSE_TO_LIMIT,
    )
    yield from _most(
        "means: prior / limit - 1",
        (row.figure / row.limit - 1 for row in by.get("prior", ())),
        CLOSE_TO_PRIOR,
    )
    yield from _most(
        "means: prior / C^2", (row.figure / row.duchi for row in by.get("prior", ())), 1.0
    )
    yield from _most(
        "means: |measured - theory|, standard errors",
        (abs(row.n_mse - row.theory) / row.n_mse_se for row in rows),
        FAR,
    )
    yield from _most(
        "means: |measured by report - theory|, standard errors",
        (abs(row.report_mse - row.theory) / row.report_mse_se for row in rows),
        FAR,
    )
    yield from _most(
        "means: |bias|, standard errors", (abs(row.bias) / row.bias_se for row in rows), FAR
    )


def of_frequencies(rows: Sequence[FrequencyRow], peers: Sequence[Accuracy]) -> Iterator[Claim]:
    """Compare frequencies with subset selection's optimum, and check that they are unbiased.

    Peers' renormalised frequencies are biased.
    """
    for k, bound in NEAR_OPTIMUM.items():
        mine = [row for row in rows if row.k == k and 0.5 <= row.eps <= 4]
        yield from _most(
            f"frequencies: n x variance over the optimum, k = {k}",
            (row.exact / row.optimum for row in mine),
            bound,
        )
    yield from _most(
        "frequencies: |measured - exact|, standard errors",
        (abs(row.n_mse - row.exact) / row.n_mse_se for row in rows),
        FAR,
    )
    yield from _most(
        "frequencies: |bias| of an empty cell, standard errors",
        (abs(row.bias) / row.bias_se for row in rows),
        FAR,
    )
    biased = [row for row in peers if row.estimate == "clipped, renormalised"]
    if biased and rows:
        yield Claim(
            "frequencies: peers' bias of an empty cell when renormalised, standard errors",
            min(abs(row.bias) / row.bias_se for row in biased),
            FAR,
            least=True,
        )


def of_signed(rows: Sequence[SignedRow]) -> Iterator[Claim]:
    """Compare the measured with the stated errors of signed values."""
    yield from _most(
        "signed: |measured - exact|, standard errors",
        (abs(row.n_mse - row.exact) / row.n_mse_se for row in rows),
        FAR,
    )


def of_limits(means: Sequence[MeanLimit], cells: Sequence[CellLimit]) -> Iterator[Claim]:
    """Compare plans with what is possible."""
    yield from _most(
        f"limits: plan of a mean over its limit, epsilon <= {FEW_NATS}",
        (row.ratio for row in means if row.ratio is not None and row.eps <= FEW_NATS),
        WITHIN,
    )
    yield from _least(
        "limits: plan of a mean over its limit",
        (row.ratio for row in means if row.ratio is not None),
        1.0,
    )
    yield from _most(
        "limits: shares of cells over subset selection's optimum",
        (row.ratio for row in cells),
        CELLS_WITHIN,
    )


def of_users(rows: Sequence[parity.Row]) -> Iterator[Claim]:
    """Compare users with the printed scheme's, and plans with the users that are needed."""
    for epsilon, part in parity.CLAIMS.items():
        mine = [row for row in rows if row.epsilon == epsilon]
        yield from _least(
            f"users: printed / (ours d), epsilon = {epsilon}",
            (row.measured_ratio / row.d for row in mine),
            part,
        )
    yield from _most("users: planned / measured", (row.excess for row in rows), parity.PLANNED)


def of_speed(rows: Sequence[SpeedRow]) -> Iterator[Claim]:
    """Generate the users per second of our columns, at sizes beyond a study's fixed costs."""
    ours = [row for row in rows if row.whose == "askance" and row.users >= ENOUGH]
    for question, bound in SPEEDS.items():
        mine = [row for row in ours if row.question == question]
        yield from _least(f"speed: users a second, {question}", (row.per_s for row in mine), bound)


def of_devices(rows: Sequence[DeviceRow]) -> Iterator[Claim]:
    """Make claims about a warm process's milliseconds for planned requests, and all bytes."""
    mine = [row for row in rows if not row.unplanned]
    yield from _most("devices: ms, a new request", (row.new_ms for row in mine), MOST_MS)
    yield from _most("devices: ms, a known request", (row.again_ms for row in mine), MOST_MS)
    yield from _most("devices: bytes a request", (row.request_bytes for row in rows), MOST_BYTES)


def _objectives(rows: Sequence[MeanRow]) -> list[str]:
    return list(dict.fromkeys(row.objective for row in rows))


def _most(of: str, figures: Iterable[float], bound: float) -> Iterator[Claim]:
    """Make one claim about the greatest figure; none without figures."""
    every = list(figures)
    if every:
        yield Claim(of, max(every), bound)


def _least(of: str, figures: Iterable[float], bound: float) -> Iterator[Claim]:
    every = list(figures)
    if every:
        yield Claim(of, min(every), bound, least=True)
