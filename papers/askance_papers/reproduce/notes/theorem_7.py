"""Notes, Theorem 7: what learns from statistical queries learns privately, with a curator."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, log, sqrt
from typing import Any

import numpy as np

from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles.central import CentralOracle, central_rows, laplace_of, totals
from askance_aggregator.queries import encode_columns, predicate
from askance_client.queries import Integer, Schema
from askance_papers.reproduce.checks import NoiseCheck, close, laplace_noise, rate_exceeded
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, plain
from askance_simulation.randomness import Seed, SeededWords

NAME = "theorem-7"
DELTA = Fraction(1, 20)
SCHEMA = Schema("coins", 1, coin=Integer(0, 1))
COIN = Question(predicate(SCHEMA["coin"] == 1), Fraction(1, 20))
_CLOSE = 1e-9  # of a loss in nats
_FEW = 0.02  # relative: the proof's draw is continuous, the oracle's is not
_REACH = 400  # outputs that are enumerated on either side


def reproduce(setting: Setting) -> Reproduction:
    """Return the loss by enumeration, the rows and failures by trials, and the printed values."""
    rows: list[Row] = [loss(Fraction(alpha)) for alpha in ("0.1", "0.5", "2")]
    for alpha in ("0.1", "1"):
        for queries in (1, 16):
            trials = 100 if setting.quick else 1000
            seed = setting.seed / NAME / f"{alpha} {queries}"
            rows.append(answered(alpha, queries, trials, seed))
            rows.append(printed(alpha, queries, trials, seed / "printed"))
            setting.progress(f"alpha = {alpha}, {queries} queries")
    return Reproduction(
        name=NAME,
        source="notes, Theorem 7",
        statement=(
            "M statistical queries of tolerance tau are answered with alpha-differential privacy"
            " and, except with probability delta, within tau, by O((M/(alpha tau) + M/tau^2)"
            " log(M/delta)) examples in M disjoint parts S_i with Laplace noise added."
        ),
        differs_from_print=(
            "The printed scale alpha |S_i| / M is a rate, read as a scale it drowns every answer;"
            " and alpha/M a query would contradict the error bound that follows it. The parts are"
            " disjoint, so every query has all of alpha (parallel composition): the scale is 1 /"
            " (alpha |S_i|), and |S_i| = O((1/(alpha tau) + 1/tau^2) log(M/delta))."
        ),
        rows=tuple(rows),
        notes=(
            "'loss' enumerates the law of one part's released sum on two neighbours; it is alpha to"
            " 1e-9 nats and attained.",
            "noise: mean size of the draws, released sums less true ones, over that of a discrete"
            " Laplace law of scale 1/alpha, which the draws have to follow from both sides (1e-6);"
            " rows a query are the proof's to 2 %.",
            "'off' is the share of trials in which any of the M answers was off by tau or more; it"
            " has to be within delta with a false-alarm rate of 1e-6 a row, and for the printed"
            " scale far above it. 'alpha/M a query' is what sequential composition would take.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def loss(alpha: Fraction) -> Row:
    """Return the largest log-ratio of an output's probabilities when one row is replaced."""
    mechanism = laplace_of(COIN, alpha)
    outputs = np.arange(-_REACH, _REACH + 1)
    logs = []
    for coins in ([0, 1, 1], [1, 1, 1]):  # the same part but for one row
        (total,) = totals(COIN, encode_columns(SCHEMA, {"coin": coins}))
        logs.append(-np.abs(outputs - total) / float(mechanism.scale))
    measured = float(np.abs(logs[0] - logs[1]).max())
    return _row("loss", alpha, 1, None, None, measured, None) | {
        "holds": abs(measured - float(alpha)) < _CLOSE
    }


def answered(alpha: str, queries: int, trials: int, seed: Seed) -> Row:
    """Return the oracle's own rows, and how often any of its answers is off."""
    size = central_rows(COIN, Fraction(alpha), float(DELTA) / queries)
    words, rng = SeededWords(seed / "words"), generator(seed)
    tau, off, draws = float(COIN.working_tau), 0, []
    for _ in range(trials):
        coins = rng.integers(0, 2, (queries, size))
        columns = encode_columns(SCHEMA, {"coin": coins.ravel()})
        oracle = CentralOracle(columns, alpha, words, DELTA, values=queries)
        values = np.array([answer.value for answer in oracle.answer(Batch([COIN] * queries))])
        off += bool((np.abs(values - 0.5) >= tau).any())
        draws.append(values * size - coins.sum(axis=1))
    noise = laplace_noise(draws, 1 / float(alpha))
    needed = proved_rows(float(alpha), float(DELTA) / queries, tau)
    row = _row(
        "parallel", Fraction(alpha), queries, size, split_rows(alpha, queries), off, trials, noise
    )
    return row | {"holds": row["holds"] and noise.possible and close(size, needed, _FEW)}


def proved_rows(alpha: float, share: float, tau: float) -> int:
    """Compute the least rows of a share of ones for which the proof's two halves are below tau."""
    # Half of the failure is left to the draw, ln(2/share)/alpha rows wide, the other half to the
    # sample by Hoeffding's inequality: rows >= w + ln(4/share)/(2 tau'^2) with tau' = tau - w/rows.
    #
    # `share` is the chance of failure of one answer; it and `tau` are in (0, 1).
    width, needed = log(2 / share) / alpha, log(4 / share) / 2
    # sqrt(rows) (tau - w/rows) = sqrt(needed), which is quadratic in sqrt(rows)
    root = (sqrt(needed) + sqrt(needed + 4 * tau * width)) / (2 * tau)
    return ceil(root * root)


def split_rows(alpha: str, queries: int) -> int:
    """Return the rows of a query at budget alpha/M."""
    return central_rows(COIN, Fraction(alpha) / queries, float(DELTA) / queries)


def printed(alpha: str, queries: int, trials: int, seed: Seed) -> Row:
    """Run the same rows with Laplace noise whose *scale* is alpha |S_i| / M, as printed."""
    size = central_rows(COIN, Fraction(alpha), float(DELTA) / queries)
    rng = generator(seed)
    means = rng.binomial(size, 0.5, (trials, queries)) / size
    drawn = rng.laplace(0, float(alpha) * size / queries, (trials, queries))
    off = int((np.abs(means + drawn - 0.5) >= float(COIN.working_tau)).any(axis=1).sum())
    return _row("as printed", Fraction(alpha), queries, size, None, off, trials)


def printed_bound(alpha: Fraction, queries: int) -> float:
    """Compute (1/(alpha tau) + 1/tau^2) ln(2M/delta), the constant left out."""
    tau = float(COIN.working_tau)
    return (1 / (float(alpha) * tau) + 1 / tau**2) * log(2 * queries / DELTA)


def _row(
    what: str,
    alpha: Fraction,
    queries: int,
    size: int | None,
    split: int | None,
    measured: float,
    trials: int | None,
    noise: NoiseCheck | None = None,
) -> dict[str, Any]:
    rate = measured if trials is None else measured / trials
    bound = printed_bound(alpha, queries)
    held = {
        "parallel": trials is not None
        and not rate_exceeded(int(measured), trials, float(DELTA))
        and size is not None
        and size <= 3 * bound,
        "as printed": trials is not None and rate_exceeded(int(measured), trials, 0.5),
    }
    return {
        "what": what,
        "alpha": float(alpha),
        "M": queries,
        "rows a query": size,
        "bound / its constant": None if size is None else ceil(bound),
        "rows at alpha/M": split,
        "expected": float(alpha) if what == "loss" else float(DELTA),
        "measured": rate,
        "trials": trials,
        "noise": None if noise is None else noise.ratio,
        "holds": held.get(what, False),
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(10, 4)
    left, right = figure.subplots(1, 2)
    plain(left, "Examples a query, M = 16", "α", "examples")
    number = [Fraction(k, 100) for k in (5, 10, 20, 50, 100, 200, 400)]
    share = float(DELTA) / 16
    alphas = [float(alpha) for alpha in number]
    left.plot(alphas, [central_rows(COIN, a, share) for a in number], "o-", color=ACCENT)
    left.plot(alphas, [central_rows(COIN, a / 16, share) for a in number], "s-", color=BAD)
    left.axhline(log(2 / share) / (2 * float(COIN.working_tau) ** 2), color=QUIET, ls="--")
    left.set_xscale("log")
    left.set_yscale("log")
    left.legend(["parallel: all of α", "α/M a query", "not private"], frameon=False)
    shown = [row for row in rows if row["what"] != "loss"]
    title = f"How often any answer is off, and δ = {float(DELTA):g} (dashed)"
    plain(right, title, "", "share of trials")
    colors = [ACCENT if row["what"] == "parallel" else BAD for row in shown]
    right.bar(range(len(shown)), [max(row["measured"], 0.004) for row in shown], color=colors)
    names = [f"{row['what']}\nα {row['alpha']:g}, M {row['M']}" for row in shown]
    right.set_xticks(range(len(shown)), names, fontsize=7, rotation=60)
    right.axhline(float(DELTA), color=INK, lw=1, ls="--")
    figure.tight_layout()
