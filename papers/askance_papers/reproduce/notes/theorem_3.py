"""Notes, Theorem 3: the Laplace mechanism's loss, and the tail of its error."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator import mechanisms
from askance_papers.reproduce.checks import laplace_noise, rate_agrees
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, plain
from askance_simulation.randomness import Seed, SeededWords

NAME = "theorem-3"
CASES = (("0.1", 200, 1), ("1", 200, 1), ("1", 5000, 40), ("4", 50, 40))  # alpha, n, b
DELTAS = (0.5, 0.1, 0.01, 0.001)
STEPS = 1024  # of the grid, between 0 and b: a multiple of b / 1024 is rounded nowhere
_CLOSE = 1e-9  # of a loss in nats
_FEW = 3  # records of the data sets whose loss is enumerated
_QUESTIONS = 4  # about the same records, for the composition of section 1.1.2


def reproduce(setting: Setting) -> Reproduction:
    """Return the loss on neighbours, and the share of errors beyond the bound."""
    trials = 50_000 if setting.quick else 400_000
    rows: list[Row] = []
    for alpha in ("0.1", "1", "4"):
        rows += losses(Fraction(alpha), setting.seed / NAME / f"loss {alpha}")
    for alpha, n, b in CASES:
        seed = setting.seed / NAME / f"{alpha} {n} {b}"
        rows += tails(Fraction(alpha), n, b, trials, seed)
        rows.append(released_law(Fraction(alpha), n, b, trials // 400, seed / "law"))
        rows.append(as_printed(Fraction(alpha), n, b, trials, seed / "printed"))
        setting.progress(f"alpha = {alpha}, n = {n}")
    return Reproduction(
        name=NAME,
        source="notes, Definition 2 and Theorem 3",
        statement=(
            "The average of n numbers in [0, b] with Laplace noise added is alpha-differentially"
            " private, and with probability 1 - delta its error is at most (b/(alpha n))"
            " ln(1/delta)."
        ),
        differs_from_print=(
            'Definition 2 calls alpha n/b the "scale parameter"; it is the rate, and the scale is b'
            " /(alpha n). The noise here is on a grid: the bound is exceeded with probability"
            " 2 q^(t+1)/(1 + q), q = e^(-1/scale), t whole steps, and not with delta itself."
        ),
        rows=tuple(rows),
        notes=(
            "'loss' is the largest log-ratio of a release's probabilities on two neighbours, by"
            " enumeration: alpha to 1e-9 nats, no more and no less; of a histogram too, whose"
            f" sensitivity is 2, and {_QUESTIONS} times alpha for {_QUESTIONS} averages of the same"
            " records.",
            "'law' releases averages on a grid of b/n, where a step is a large part of the noise,"
            " and compares each release less its average with the discrete Laplace law of scale"
            " 1/alpha steps: zeros, sizes, signs and repetitions, from both sides (1e-6); measured:"
            " mean size over the expected one.",
            "'beyond' counts errors above the bound, in draws of the mechanism. It has to be as"
            " rare as the law says, by a two-sided test at 1e-6, and the law within one step of"
            " delta from either side.",
            "'as printed' draws with the rate for a scale: nearly all errors are beyond the bound.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def average(b: int) -> mechanisms.CuratorQuery[NDArray[np.float64]]:
    """Return the query of the notes: the average of numbers in [0, b]."""
    return mechanisms.CuratorQuery("average", lambda values: values, 0, b)


def released(
    alpha: Fraction, values: NDArray[np.float64], b: int, seed: Seed
) -> mechanisms.Release:
    """Release the average of these numbers."""
    step = Fraction(b, STEPS)
    (found,) = mechanisms.means(
        [average(b)], values, mechanisms.laplace_at(alpha), SeededWords(seed), step=step
    )
    return found


def losses(alpha: Fraction, seed: Seed) -> list[Row]:
    """Compute the log-ratios of neighbours for one average, several, and a histogram."""
    grid = Fraction(1, STEPS)
    near, far = np.array([0.0, 0.25, 1.0]), np.array([1.0, 0.25, 1.0])
    one = released(alpha, near, 1, seed).mechanism
    apart = [int(near.sum() / grid), int(far.sum() / grid)]
    cells = mechanisms.histogram(
        np.array([0, 1, 1]), 3, mechanisms.laplace_at(alpha), SeededWords(seed)
    ).mechanism
    return [
        _loss("average", alpha, 1, log_ratio(one, [apart])),
        _loss("averages", alpha, _QUESTIONS, log_ratio(one, [apart] * _QUESTIONS)),
        _loss("histogram", alpha, 1, log_ratio(cells, [[1, 0], [2, 3]])),
    ]


def log_ratio(mechanism: object, totals: Sequence[Sequence[int]]) -> float:
    """Compute the largest log-ratio over all outputs of independent draws added to totals.

    Returns:
        Nats: the sum over entries of the largest of each, for every combination can occur.
    """
    if not isinstance(mechanism, mechanisms.Laplace):
        raise TypeError(f"mechanism: expected Laplace, got {type(mechanism).__name__}")
    found = 0.0
    for mine, other in totals:
        reach = max(abs(mine), abs(other)) + 8
        outputs = np.arange(-reach, reach + 1)
        ratios = (np.abs(outputs - other) - np.abs(outputs - mine)) / float(mechanism.scale)
        found += float(np.abs(ratios).max())
    return found


def tails(alpha: Fraction, n: int, b: int, trials: int, seed: Seed) -> list[Row]:
    """Count the errors beyond the bound of each delta."""
    values = (generator(seed).integers(0, STEPS + 1, n) * (b / STEPS)).astype(np.float64)
    found = released(alpha, values, b, seed)
    draws = found.mechanism.draws(SeededWords(seed / "draws"), trials)
    drawn = np.abs(draws)
    unit, scale = float(found.unit), b / (float(alpha) * n)
    noise = laplace_noise(draws, scale / unit)
    rows: list[Row] = []
    for delta in DELTAS:
        bound = scale * log(1 / delta)
        beyond = int((drawn * unit > bound).sum())
        exact = grid_tail(bound, unit, scale)
        possible = rate_agrees(beyond, trials, exact)
        between = (
            grid_tail(bound + unit, unit, scale) <= delta <= grid_tail(bound - unit, unit, scale)
        )
        reach = float(found.half_width(Fraction(str(1 - delta))) - found.rounding)
        rows.append(
            _row("beyond", alpha, n, b, delta, bound, delta, exact, beyond / trials, trials)
            | {
                "holds": possible
                and noise.possible
                and between
                and abs(reach - bound) <= unit * (1 + _CLOSE)
            }
        )
    return rows


def released_law(alpha: Fraction, n: int, b: int, trials: int, seed: Seed) -> Row:
    """Release so many averages of the same numbers, 0 or b, on a grid of b/n."""
    values = b * generator(seed).integers(0, 2, n).astype(np.float64)
    found = mechanisms.means(
        [average(b)] * trials, values, mechanisms.laplace_at(alpha), SeededWords(seed), step=b
    )
    drawn = [int(one.steps[0]) - int(values.sum()) // b for one in found]
    noise = laplace_noise(drawn, 1 / float(alpha))
    row = _row("law", alpha, n, b, None, None, 1.0, 1.0, noise.ratio, trials)
    return row | {"holds": noise.possible}


def grid_tail(bound: float, unit: float, scale: float) -> float:
    """Compute P[|k| unit > bound] for k with probability proportional to e^(-|k| unit / scale)."""
    q, least = exp(-unit / scale), int(bound / unit * (1 + 1e-12))
    return 1.0 if bound < 0 else 2 * q ** (least + 1) / (1 + q)


def as_printed(alpha: Fraction, n: int, b: int, trials: int, seed: Seed) -> Row:
    """Draw with the printed scale parameter alpha n / b, and hold it against the printed bound."""
    delta = 0.1
    bound, scale = b / (float(alpha) * n) * log(1 / delta), float(alpha) * n / b
    beyond = int((np.abs(generator(seed).laplace(0, scale, trials)) > bound).sum())
    exact = exp(-bound / scale)
    possible = rate_agrees(beyond, trials, exact)
    return _row("as printed", alpha, n, b, delta, bound, delta, exact, beyond / trials, trials) | {
        "holds": possible and beyond > trials / 2
    }


def _loss(what: str, alpha: Fraction, questions: int, measured: float) -> Row:
    expected = questions * float(alpha)
    row = _row(f"loss, {what}", alpha, _FEW, 1, None, None, expected, expected, measured, None)
    return row | {"holds": abs(measured - expected) < _CLOSE}


def _row(
    what: str,
    alpha: Fraction,
    n: int,
    b: int,
    delta: float | None,
    bound: float | None,
    expected: float,
    exact: float,
    measured: float,
    trials: int | None,
) -> dict[str, Any]:
    return {
        "what": what,
        "alpha": float(alpha),
        "n": n,
        "b": b,
        "delta": delta,
        "bound": bound,
        "expected": expected,
        "exactly": exact,
        "measured": measured,
        "trials": trials,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    plain(axes, "Errors beyond (b/(αn)) ln(1/δ)", "δ", "share of releases")
    shown = [row for row in rows if row["what"] == "beyond"]
    axes.plot(DELTAS, DELTAS, color=QUIET, lw=1, label="δ")
    for (alpha, n, b), marker, color in zip(CASES, "osD^", (ACCENT, INK, BAD, QUIET), strict=True):
        mine = [row for row in shown if (row["alpha"], row["n"]) == (float(alpha), n)]
        rates = [row["measured"] or np.nan for row in mine]
        label = f"α = {alpha}, n = {n}, b = {b}"
        axes.plot(DELTAS, rates, marker, color=color, fillstyle="none", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=8)
