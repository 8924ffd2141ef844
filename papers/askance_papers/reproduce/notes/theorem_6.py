"""Notes, Theorem 6: what learns from statistical queries learns from a sample."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, log, sqrt
from typing import Any

import numpy as np

from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles import EmpiricalOracle
from askance_aggregator.queries import EncodedColumns, encode_columns, predicate, real
from askance_client.queries import Integer, Schema
from askance_papers.reproduce.checks import NoiseCheck, normal_noise, rate_agrees, rate_exceeded
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, plain
from askance_simulation.randomness import Seed

NAME = "theorem-6"
DELTA, RANGE = Fraction(1, 20), 10
SCHEMA = Schema("coins", 1, coin=Integer(0, RANGE))
SHARE = Question(predicate(SCHEMA["coin"] > 0), Fraction(1, 20))
NUMBER = Question(real(SCHEMA["coin"]), Fraction(1, 2))


def reproduce(setting: Setting) -> Reproduction:
    """Count how often any of M answers is off, at the size of the theorem."""
    rows: list[Row] = []
    for queries in (1, 10) if setting.quick else (1, 10, 100):
        trials = 200 if setting.quick else 2000 // max(queries // 10, 1)
        for question in (SHARE, NUMBER):
            rows.append(sampled(question, queries, trials, setting.seed / NAME / queries))
        rows.append(printed(queries, trials, setting.seed / NAME / "printed" / queries))
        setting.progress(f"{queries} queries")
    return Reproduction(
        name=NAME,
        source="notes, Theorem 6",
        statement=(
            "M statistical queries of tolerance tau are all answered within tau, except with"
            " probability delta, by the means over M fresh samples of O(log(M/delta)/tau^2)"
            " examples."
        ),
        differs_from_print=(
            "ln(2M/delta)/(2 tau^2) examples a query are enough (Hoeffding) for values in [0, 1],"
            " which the proof assumes; otherwise times the square of their range."
        ),
        rows=tuple(rows),
        notes=(
            "A fair coin shows one of the ends of the range, which is the hardest law; 'exactly' is"
            " the chance by its binomial counts, and 'measured' has to be possible for it from both"
            " sides, as the answers' variance for that of a coin (noise: its root over the claimed"
            " one); the false-alarm rate is 1e-6 each.",
            "'not scaled' is the size for [0, 1] where the range is 10; it holds as a row if it"
            " fails by far.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


class RangeEndCoins:
    """Fair coins that show one of the ends of the range."""

    def __init__(self, seed: Seed) -> None:
        self._rng = generator(seed)

    def __call__(self, rows: int) -> EncodedColumns:
        """Draw `rows` rows."""
        return encode_columns(SCHEMA, {"coin": RANGE * self._rng.integers(0, 2, rows)})


def sampled(question: Question, queries: int, trials: int, seed: Seed) -> Row:
    """Return the oracle's own size."""
    coins = RangeEndCoins(seed / str(question.spread))
    middle, tau = float(question.spread) / 2, float(question.working_tau)
    failed = size = 0
    errors = []
    for _ in range(trials):
        oracle = EmpiricalOracle(coins, DELTA, values=queries)
        told = oracle.answer(Batch([question] * queries))
        found = [answer.value - middle for answer in told]
        failed += any(abs(error) >= tau for error in found)
        errors.append(found)
        size = oracle.drawn // queries
    noise = normal_noise(errors, middle / sqrt(size))
    return _row("x range^2", question, queries, size, failed, trials, noise)


def printed(queries: int, trials: int, seed: Seed) -> Row:
    """Compute the size for [0, 1] on a range of 10: the literal reading of the print."""
    size = examples(queries, float(NUMBER.working_tau))
    heads = generator(seed).binomial(size, 0.5, (trials, queries))
    errors = (heads / size - 0.5) * RANGE
    failed = int((np.abs(errors) >= float(NUMBER.working_tau)).any(axis=1).sum())
    noise = normal_noise(errors, RANGE / 2 / sqrt(size))
    return _row("not scaled", NUMBER, queries, size, failed, trials, noise)


def examples(queries: int, tau: float) -> int:
    """Compute ln(2M/delta) / (2 tau^2)."""
    return ceil(log(2 * queries / DELTA) / (2 * tau * tau))


def failure_chance(size: int, relative: float, queries: int) -> float:
    """Compute the probability that one of M means of fair coins is off by `relative` or more."""
    from scipy.stats import binom

    low, high = ceil(size * (0.5 - relative)), floor(size * (0.5 + relative))
    inside = binom.cdf(high - (high == size * (0.5 + relative)), size, 0.5)
    inside -= binom.cdf(low - (low != size * (0.5 - relative)), size, 0.5)
    return float(1 - inside**queries)


def _row(
    what: str,
    question: Question,
    queries: int,
    size: int,
    failed: int,
    trials: int,
    noise: NoiseCheck,
) -> dict[str, Any]:
    spread = float(question.spread)
    relative = float(question.working_tau) / spread
    chance = failure_chance(size, relative, queries)
    scaled = what == "x range^2"
    right = ceil(log(2 * queries / DELTA) / (2 * relative * relative))
    return {
        "size": what,
        "range": spread,
        "M": queries,
        "tau": float(question.working_tau),
        "examples a query": size,
        "delta": float(DELTA),
        "exactly": chance,
        "measured": failed / trials,
        "trials": trials,
        "noise": noise.ratio,
        "holds": noise.possible
        and rate_agrees(failed, trials, chance)
        and (
            size == right and chance <= DELTA
            if scaled
            else rate_exceeded(failed, trials, float(DELTA))
        ),
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    plain(axes, "How often any of M answers is off", "queries M", "share of trials")
    for what, spread, color in (
        ("x range^2", 1.0, ACCENT),
        ("x range^2", float(RANGE), INK),
        ("not scaled", float(RANGE), BAD),
    ):
        shown = [row for row in rows if row["size"] == what and row["range"] == spread]
        queries = [row["M"] for row in shown]
        axes.plot(queries, [row["exactly"] for row in shown], "-", color=color)
        label = f"range {spread:g}" + (", size not scaled" if what == "not scaled" else "")
        axes.plot(queries, [row["measured"] for row in shown], "o", color=color, label=label)
    axes.axhline(float(DELTA), color=BAD, linestyle="--", lw=1, label=f"δ = {float(DELTA):g}")
    axes.set_xscale("log")
    axes.legend(frameon=False)
