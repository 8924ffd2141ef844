"""Terminal output of `randomizers.py`: one table per section, and the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import masked_parity_users as parity
from peers_accuracy import Accuracy, best
from peers_environments import Skipped
from randomizer_cells import FrequencyRow, SignedRow
from randomizer_claims import Claim
from randomizer_devices import DeviceRow
from randomizer_limits import CellLimit, MeanLimit
from randomizer_means import MeanRow
from randomizer_sets import SetRow
from rich.console import Console
from rich.table import Table
from simulators import Row as SpeedRow

_WIDTH = 160


class Measured(Protocol):
    """Results to be printed (`randomizers.Found`)."""

    means: list[MeanRow]
    frequencies: list[FrequencyRow]
    signed: list[SignedRow]
    mean_limits: list[MeanLimit]
    cell_limits: list[CellLimit]
    peers: list[Accuracy]
    users: list[parity.Row]
    speed: list[SpeedRow]
    devices: list[DeviceRow]
    sets: list[SetRow]
    skipped: list[Skipped]

    @property
    def claims(self) -> list[Claim]:
        """All of them."""


def show(found: Measured) -> None:
    """Print every section that is not empty."""
    console = Console(width=_WIDTH)
    if found.means:
        console.print(_of_means(found.means, found.peers))
    if found.frequencies:
        console.print(_of_frequencies(found.frequencies, found.peers))
        console.print(_of_biases(found.frequencies, found.peers))
    if found.signed:
        console.print(_of_signed(found.signed))
    if found.mean_limits:
        console.print(_of_mean_limits(found.mean_limits))
    if found.cell_limits:
        console.print(_of_cell_limits(found.cell_limits))
    if found.users:
        parity.show(found.users)
    if found.speed:
        console.print(_of_speed(found.speed))
    if found.devices:
        console.print(_of_devices(found.devices))
    if found.sets:
        console.print(_of_sets(found.sets))
    console.print(_of_claims(found.claims))
    for one in found.skipped:
        console.print(f"{one.peer} was left out: {one.reason}", highlight=False)


def _of_means(rows: Sequence[MeanRow], peers: Sequence[Accuracy]) -> Table:
    table = _table("Means of numbers in [-1, 1]: n x MSE", ["people", "objective"])
    names = ("eps", "symbols", "figure", "limit", "C^2", "theory", "measured", "by report")
    for name in (*names, "best peer"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        peer = best(peers, "mean", row.eps, None) if row.people == "skewed" else None
        table.add_row(
            row.people,
            row.objective,
            f"{row.eps:g}",
            str(row.symbols),
            f"{row.figure:.5g}",
            f"{row.limit:.5g}",
            f"{row.duchi:.5g}",
            f"{row.theory:.4g}",
            f"{row.n_mse:.4g} ± {row.n_mse_se:.2g}",
            f"{row.report_mse:.5g} ± {row.report_mse_se:.1g}",
            _peer(peer),
        )
    return table


def _of_frequencies(rows: Sequence[FrequencyRow], peers: Sequence[Accuracy]) -> Table:
    table = _table("Shares of k cells: n x MSE, averaged over cells, raw estimates", ["design"])
    for name in ("k", "eps", "bytes", "exact", "optimum", "over", "measured", "best peer, raw"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.design,
            f"{row.k:,}",
            f"{row.eps:g}",
            str(row.report_bytes),
            f"{row.exact:.4g}",
            f"{row.optimum:.4g}",
            f"{row.exact / row.optimum - 1:.2%}",
            f"{row.n_mse:.4g} ± {row.n_mse_se:.2g}",
            _peer(best(peers, "frequency", row.eps, row.k)),
        )
    return table


def _of_biases(rows: Sequence[FrequencyRow], peers: Sequence[Accuracy]) -> Table:
    """Return a table of ours, and of each peer's most biased protocol per kind of estimate."""
    table = _table("The mean error of an empty cell", ["whose", "protocol", "estimate"])
    for name in ("k", "eps", "n", "n x MSE", "bias", "in SE"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        worst: dict[tuple[str, str], Accuracy] = {}
        for one in peers:
            if (one.question, one.eps, one.k) == ("frequency", row.eps, row.k):
                kind = (one.peer, one.estimate)
                worst[kind] = max(one, worst.get(kind, one), key=_biased)
        told = f"{row.k:,}", f"{row.eps:g}", f"{row.n:,}", f"{row.n_mse:.3g}"
        table.add_row("askance", row.design, "raw", *told, *_bias(row.bias, row.bias_se))
        told = (*told[:3], f"{row.projected_n_mse:.3g}")
        nearest = _bias(row.projected_bias, row.projected_bias_se)
        table.add_row("askance", row.design, "nearest distribution", *told, *nearest)
        for (peer, estimate), one in worst.items():
            told = f"{row.k:,}", f"{row.eps:g}", f"{one.n:,}", f"{one.n_mse:.3g}"
            table.add_row(peer, one.protocol, estimate, *told, *_bias(one.bias, one.bias_se))
    return table


def _of_signed(rows: Sequence[SignedRow]) -> Table:
    table = _table("Signed values, all users at one: n x MSE, averaged over values", ["randomizer"])
    for name in ("d", "eps", "exact", "C^2 - 1/d", "8/(e-1)", "measured", "plan", "with a promise"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.randomizer,
            str(row.d),
            f"{row.eps:g}",
            f"{row.exact:.4g}",
            f"{row.duchi:.4g}",
            f"{row.large:.4g}",
            f"{row.n_mse:.4g} ± {row.n_mse_se:.2g}",
            "takes it" if row.planned else "",
            "takes it" if row.promised else "",
        )
    return table


def _of_mean_limits(rows: Sequence[MeanLimit]) -> Table:
    table = _table("Means of a sample: n x variance of the plan", ["randomizer"])
    for name in ("eps", "plan", "limit", "plan / limit"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        limit = ("", "") if row.limit is None else (f"{row.limit:.5g}", f"{row.ratio:.4f}")
        table.add_row(row.randomizer, f"{row.eps:.4g}", f"{row.figure:.5g}", *limit)
    return table


def _of_cell_limits(rows: Sequence[CellLimit]) -> Table:
    table = _table("Shares of k cells: n x variance over the optimum, worst eps", ["randomizer"])
    for name in ("k", "eps", "over"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.randomizer, f"{row.k:,}", f"{row.eps:.3g}", f"{row.ratio - 1:.2%}")
    return table


def _of_speed(rows: Sequence[SpeedRow]) -> Table:
    table = _table("Users a second, simulated", ["question", "whose", "how"])
    for name in ("users", "users/s", "n x MSE"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: (row.question != "cells-2", -row.per_s)):
        table.add_row(
            row.question,
            f"{row.whose} {row.version}",
            row.protocol,
            f"{row.users:,}",
            f"{row.per_s:,.0f}",
            f"{row.n_mse:.4g}",
        )
    return table


def _of_devices(rows: Sequence[DeviceRow]) -> Table:
    table = _table(
        "A device's answer: bytes, and milliseconds of the processor", ["question", "family"]
    )
    for name in ("request", "report", "first", "new", "again"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.question,
            row.family + (" (unplanned)" if row.unplanned else ""),
            f"{row.request_bytes:,}",
            f"{row.report_bytes:,}",
            f"{row.first_ms:.2f}",
            f"{row.new_ms:.2f}",
            f"{row.again_ms:.2f}",
        )
    return table


def _of_sets(rows: Sequence[SetRow]) -> Table:
    table = _table(
        "Reports of sets, as bitmaps -> as they travel: bytes, microseconds of the processor",
        ["set"],
    )
    for name in ("bytes", "a device's draw", "a report counted", "a user drawn in columns"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        one, other = row.bitmap, row.travels
        table.add_row(
            row.name,
            f"{one.report_bytes:,} -> {other.report_bytes:,}",
            f"{one.device_us:.3g} -> {other.device_us:.3g}",
            f"{one.counted_us:.2g} -> {other.counted_us:.2g}",
            f"{one.columns_us:.2g} -> {other.columns_us:.2g}",
        )
    return table


def _of_claims(claims: Sequence[Claim]) -> Table:
    table = _table("What is claimed", ["of"])
    for name in ("worst", "bound", "holds"):
        table.add_column(name, justify="right", no_wrap=True)
    for claim in claims:
        sign = ">=" if claim.least else "<="
        table.add_row(
            claim.of,
            f"{claim.worst:.4g}",
            f"{sign} {claim.bound:.4g}",
            "yes" if claim.holds else "NO",
        )
    return table


def _table(title: str, names: Sequence[str]) -> Table:
    table = Table(title=title)
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def _peer(row: Accuracy | None) -> str:
    return "" if row is None else f"{row.n_mse:.4g} ± {row.n_mse_se:.2g} {row.peer}"


def _bias(bias: float, error: float) -> tuple[str, str]:
    """Format the bias with its standard error, and in units of that."""
    return f"{bias:+.1e} ± {error:.0e}", f"{abs(bias) / error:.1f}"


def _biased(row: Accuracy) -> float:
    return abs(row.bias) / row.bias_se
