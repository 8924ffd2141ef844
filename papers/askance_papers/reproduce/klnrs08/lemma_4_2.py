"""KLNRS08, Lemma 4.2: the mean of Laplace variables is close to zero."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p, sqrt
from typing import Any

import numpy as np

from askance_papers.reproduce.checks import rate_agrees
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, plain
from askance_simulation.randomness import Seed

NAME = "lemma-4.2"
TAUS, SIZES = (0.1, 0.3, 1.0), (1, 3, 10, 30, 100, 300, 1000)


def reproduce(setting: Setting) -> Reproduction:
    """Return the exact tail beside the bounds, and a simulation beside the exact tail."""
    trials = 20_000 if setting.quick else 1_000_000
    rows: list[Row] = []
    for tau in TAUS:
        for n in SIZES:
            rows.append(tail(n, tau, trials, setting.seed / NAME / f"{tau} {n}"))
        setting.progress(f"tau' = {tau:g}")
    return Reproduction(
        name=NAME,
        source="KLNRS08, Lemma 4.2",
        statement=(
            "For X_1 .. X_n independent Laplace variables of scale 1, P[|mean| >= tau'] is"
            " exp(-Omega(tau'^2 n)) as tau' tends to 0."
        ),
        differs_from_print=(
            "The proof bounds one side by (e^(t tau') (1 - t^2))^-n and sets t = tau', which is"
            " 1 or more and says nothing: e^x (1 - x) <= 1. t = tau'/2 gives exp(-n (tau'^2/2 +"
            " ln(1 - tau'^2/4))), which is exp(-n tau'^2/4) for small tau'; the best t is"
            " (sqrt(1 + tau'^2) - 1)/tau'. Lap(lambda) has standard deviation sqrt(2) lambda (the"
            " footnote's sqrt(2)/lambda is wrong)."
        ),
        rows=tuple(rows),
        notes=(
            "'exactly' sums the law: the sum of n is the difference of two Gamma(n) variables. A"
            " row holds if it is at most the two bounds, the printed t gives 1 or more (or an"
            " infinite moment, -), and the simulation's count is possible for it (a two-sided test"
            " at 1e-6).",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def tail(n: int, tau: float, trials: int, seed: Seed) -> Row:
    """Measure one number of variables."""
    chance = exact_tail(n, tau)
    rng = generator(seed)
    sums = rng.gamma(n, size=trials) - rng.gamma(n, size=trials)
    seen = int((np.abs(sums) >= n * tau).sum())
    printed, half, best = (bound(n, tau, t) for t in (tau, tau / 2, best_t(tau)))
    ordered = (
        half is not None and best is not None and chance <= best * (1 + 1e-9) <= half * (1 + 2e-9)
    )
    possible = rate_agrees(seen, trials, min(chance, 1.0))
    return {
        "tau'": tau,
        "n": n,
        "t = tau' (printed)": printed,
        "t = tau'/2": half,
        "best t": best,
        "exactly": chance,
        "measured": seen / trials,
        "trials": trials,
        "holds": ordered and possible and (printed is None or printed >= 1),
    }


def best_t(tau: float) -> float:
    """Find the t where e^(-t tau) / (1 - t^2) is least."""
    return (sqrt(1 + tau * tau) - 1) / tau


def bound(n: int, tau: float, t: float) -> float | None:
    """Compute 2 (e^(t tau) (1 - t^2))^-n, both sides; None for t >= 1: infinite moment."""
    if t >= 1:
        return None
    exponent = -n * (t * tau + log1p(-t * t))
    return 2 * exp(min(exponent, 600.0))


def exact_tail(n: int, tau: float) -> float:
    """Compute P[|X_1 + .. + X_n| >= n tau]."""
    # The sum is G - H, both Gamma(n). G > s + H: of a Poisson process k < n points come before s,
    # and then n - k more of them before n of another one's: 2n - k - 1 fair coins, n of one side.
    from scipy.stats import binom, poisson

    k = np.arange(n)
    return float(2 * (poisson.pmf(k, n * tau) * binom.sf(n - 1, 2 * n - k - 1, 0.5)).sum())


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(10, 3.6)
    for axes, tau in zip(figure.subplots(1, len(TAUS)), TAUS, strict=True):
        shown = [row for row in rows if row["tau'"] == tau]
        sizes = [row["n"] for row in shown]
        plain(axes, f"τ' = {tau:g}", "n", "P[|mean| ≥ τ']")
        axes.plot(sizes, [min(row["t = tau' (printed)"] or 2, 2) for row in shown], color=BAD)
        axes.plot(sizes, [row["t = tau'/2"] for row in shown], color=INK)
        axes.plot(sizes, [row["best t"] for row in shown], "--", color=QUIET)
        axes.plot(sizes, [max(row["exactly"], 1e-30) for row in shown], color=ACCENT)
        axes.plot(sizes, [row["measured"] or np.nan for row in shown], "o", color=ACCENT, ms=4)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1e-12, 3)
    names = ["t = τ' (printed)", "t = τ'/2", "best t", "exactly", "measured"]
    figure.axes[0].legend(names, frameon=False, fontsize=8)
    figure.tight_layout()
