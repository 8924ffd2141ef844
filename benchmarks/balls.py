"""Codebooks for vectors in the unit ball: variance beside PrivUnit's, a device's time and bytes.

`exact` is n E||error||^2 per component of a vector of length 1, by the law of the codebook; beside
it PrivUnit's on the sphere of the same dimension with its best cap, integrated exactly, and what is
measured: the trace of the covariance of reports of one vector, drawn as columns, over n, and the
length of their mean's error in its standard errors' root mean square.

    python benchmarks/balls.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, lgamma, pi, sqrt

import numpy as np

from askance_aggregator.families import CodebookFamily, random_codebook
from askance_aggregator.families.random_codebook import LENGTH
from askance_client.randomizers import COIN_SPACE
from askance_simulation.families import draw

NAT = 10**9
RADIUS = 1 << 20
_CAPS = 20_000
_TIMES = 15


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one dimension and epsilon, variances per component."""

    d: int
    eps: float
    codes: int
    near: int
    report_bytes: int
    exact: float
    privunit: float
    measured: float
    error: float
    device_ms: float
    column_us: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one dimension and few users")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    dimensions = (16,) if given.quick else (16, 64, 1000)
    users = 1_000 if given.quick else 20_000
    rows = [row_of(d, eps, users) for d in dimensions for eps in (0.5, 1.0, 2.0, 4.0, 8.0)]
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        print(table(rows))
    return 0


def row_of(d: int, eps: float, users: int) -> Row:
    """Measure one dimension and epsilon."""
    book = random_codebook(d, RADIUS, int(eps * NAT))
    family = CodebookFamily(book)
    generator = np.random.default_rng([d, int(8 * eps)])
    direction = generator.standard_normal(d)
    truth = (direction * (RADIUS / np.linalg.norm(direction))).astype(np.int64)
    coins = generator.integers(0, COIN_SPACE, (users, book.coins), dtype=np.uint64)
    began = time.process_time()
    reports = draw(book, np.broadcast_to(truth, (users, d)), coins)
    column_us = 1e6 * (time.process_time() - began) / users
    estimates = family.vectors(reports) / LENGTH / family.agreement
    errors = estimates.mean(axis=0) - truth / RADIUS
    variances = estimates.var(axis=0)
    return Row(
        d=d,
        eps=eps,
        codes=book.codes,
        near=book.near,
        report_bytes=book.width,
        exact=family.component_variance - 1 / d,
        privunit=privunit(d, eps),
        measured=float(variances.mean()),
        error=float(np.sqrt(np.mean(errors**2 / (variances / users)))),
        device_ms=device_ms(d, eps),
        column_us=column_us,
    )


def privunit(d: int, eps: float) -> float:
    """Compute PrivUnit's variance per component, with the cap that is best for it.

    Source: Bhowmick et al. 2018; Asi, Feldman and Talwar, arXiv:2205.02466. A point of the cap of
        inner products above g, of measure s, has the density e^eps / (1 + s (e^eps - 1)).
    """
    from scipy.special import betainc

    heights = np.linspace(0, 0.999, _CAPS)
    scale = exp(lgamma(d / 2) - lgamma((d - 1) / 2)) / sqrt(pi)
    means = scale * (1 - heights**2) ** ((d - 1) / 2) / (d - 1)
    shares = betainc((d - 1) / 2, 0.5, 1 - heights**2) / 2
    gain = exp(eps) - 1
    best = float((means * gain / (1 + shares * gain)).max())
    return (1 / best**2 - 1) / d


def device_ms(d: int, eps: float) -> float:
    """Time one device's draw, from the vector to the report: the median of several."""
    book = random_codebook(d, RADIUS, int(eps * NAT))
    values = [RADIUS // (2 * d)] * d
    times = []
    for word in range(_TIMES):
        began = time.process_time()
        level = book.vector_level(values, -RADIUS, RADIUS, ())
        book.randomize(level, [word << 40, word << 58, word << 59])
        times.append(1000 * (time.process_time() - began))
    return sorted(times)[_TIMES // 2]


def table(rows: Sequence[Row]) -> str:
    """Return the figures as a Markdown table."""
    head = (
        "| d | eps | near of codes | bytes | exact | PrivUnit | ratio | measured | error"
        " | device ms | column us |"
    )
    body = [
        f"| {r.d:,} | {r.eps:g} | {r.near} of {r.codes} | {r.report_bytes} | {r.exact:.4g}"
        f" | {r.privunit:.4g} | {r.exact / r.privunit:.3f} | {r.measured:.4g} | {r.error:.2f}"
        f" | {r.device_ms:.1f} | {r.column_us:.0f} |"
        for r in rows
    ]
    return "\n".join([head, "|" + "---|" * 11, *body])


if __name__ == "__main__":
    raise SystemExit(main())
