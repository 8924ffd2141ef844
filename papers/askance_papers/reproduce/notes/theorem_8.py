"""Notes, Theorem 8: statistical queries see through labels that were flipped at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import (
    Answers,
    Batch,
    Conjunction,
    conjunctions,
    conjunctions_schema,
)
from askance_aggregator.oracles import (
    ClassificationNoiseOracle,
    EmpiricalOracle,
    Oracle,
    learn,
    learn_under_noise,
)
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_papers.reproduce.checks import (
    ALPHA,
    NoiseCheck,
    normal_noise,
    rate_agrees,
    rate_exceeded,
)
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, plain
from askance_simulation.randomness import Seed

NAME = "theorem-8"
D, TARGET = 3, Conjunction(3, (0,))
ACCURACY, DELTA, MOST, EXTRA = Fraction(3, 10), Fraction(1, 20), Fraction(2, 5), Fraction(1, 10)
SCHEMA = conjunctions_schema(D)
TAU = ACCURACY / (2 * D)
TRUTH = (Fraction(0), *[Fraction(1, 4)] * (D - 1))
"""P[x_i = 0, true label 1] of each query: every positive example has x_0 = 1."""
_CLOSE = 1e-9
ETAS = tuple(Fraction(k, 10) for k in range(5))


def reproduce(setting: Setting) -> Reproduction:
    """Count failures by rate: corrected, not corrected, and with the rate unknown."""
    trials, searches = (40, 2) if setting.quick else (500, 30)
    rows: list[Row] = []
    for eta in ETAS:
        seed = setting.seed / NAME / str(eta)
        rows.append(known(eta, trials, seed / "known"))
        rows.append(uncorrected(eta, trials, seed / "uncorrected"))
        rows.append(unknown(eta, searches, seed / "unknown"))
        setting.progress(f"eta = {float(eta):g}")
    return Reproduction(
        name=NAME,
        source="notes, Theorem 8",
        statement=(
            "M statistical queries of tolerance tau are answered, except with probability delta,"
            " from O(M log(M/delta) / (tau^2 (1 - 2 eta)^2)) examples whose labels are flipped with"
            " probability eta < 1/2, and so is all learned that statistical queries learn."
        ),
        differs_from_print=(
            "The two halves of the decomposition need no samples of their own at tau/2: their sum"
            " is a mean of one number an example, with range 1/(1 - 2 eta), so"
            " ln(2M/delta)/(2 tau^2 (1 - 2 eta)^2) examples a query are enough."
        ),
        rows=tuple(rows),
        notes=(
            f"Conjunctions of {D} fair bits, the target one of them, error {float(ACCURACY):g},"
            f" delta = {float(DELTA):g}; failures have to be within delta with a false-alarm rate"
            " of 1e-6 a row.",
            "noise: root mean square of the answers' errors over that of the theorem's mean and"
            " variance (of what is seen, where it is not corrected), claimed from both sides.",
            "'unknown' tries a grid of rates up to 0.4 and chooses on held-out rows; its error may"
            f" be {float(EXTRA):g} more.",
            "'not corrected' takes the noisy labels for true ones: within delta at eta = 0, and"
            " far from it at 0.2 and more.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


class Recorded:
    """Another oracle, whose answers are kept."""

    def __init__(self, oracle: Oracle, kept: list[float]) -> None:
        self._oracle, self._kept = oracle, kept

    def answer(self, batch: Batch) -> Answers:
        """Return the oracle's answers."""
        answers = self._oracle.answer(batch)
        self._kept.extend(answer.value for answer in answers)
        return answers


class Flipped:
    """Draw examples of the target whose label is flipped at a rate."""

    def __init__(self, eta: Fraction, seed: Seed) -> None:
        self._eta, self._rng = float(eta), generator(seed)
        self.drawn = 0

    def __call__(self, rows: int) -> EncodedColumns:
        """Draw `rows` rows."""
        self.drawn += rows
        x = self._rng.integers(0, 2, (rows, D))
        y = TARGET.predict({"x": x}) ^ (self._rng.random(rows) < self._eta)
        return encode_columns(SCHEMA, {"x": x, "y": y.astype(np.int64)})


def known(eta: Fraction, trials: int, seed: Seed) -> Row:
    """Measure the correction at the true rate."""
    # The number of examples is the theorem's, and the answers have its mean and variance: of
    # ((1 - eta) a - eta b) / (1 - 2 eta), with a of a row as it is seen and b of the other label.
    rows, values = Flipped(eta, seed), list[float]()
    failed = _failures(
        lambda: ClassificationNoiseOracle(rows, SCHEMA, "y", eta, DELTA, values=D), trials, values
    )
    size = rows.drawn // (trials * D)
    own, other = 1 - eta, -eta
    second = [(one * own**2 + zero * other**2) / (1 - 2 * eta) ** 2 for one, zero in _seen(eta)]
    noise = _noise(
        values, TRUTH, [float(m - t * t) for m, t in zip(second, TRUTH, strict=True)], size
    )
    row = _row("corrected", eta, size, failed, trials, ACCURACY, noise)
    return row | {"holds": row["holds"] and size == proved_rows(eta)}


def uncorrected(eta: Fraction, trials: int, seed: Seed) -> Row:
    """Measure labels as they are seen, from a sample of Theorem 6: means of what is seen."""
    rows, values = Flipped(eta, seed), list[float]()
    failed = _failures(lambda: EmpiricalOracle(rows, DELTA, values=D), trials, values)
    size = rows.drawn // (trials * D)
    seen = [one for one, _ in _seen(eta)]
    noise = _noise(values, seen, [float(share * (1 - share)) for share in seen], size)
    row = _row("not corrected", eta, size, failed, trials, ACCURACY, noise)
    return row | {"holds": row["holds"] and size == proved_rows(Fraction(0))}


def unknown(eta: Fraction, trials: int, seed: Seed) -> Row:
    """Measure learning with an unknown noise rate of at most 0.4."""
    # On held-out rows the chosen hypothesis, of error e, disagrees with eta + (1 - 2 eta) e of the
    # labels. It is one of G that do not depend on these rows, so each is held to that at a G-th of
    # the false alarms.
    learner = conjunctions(SCHEMA, ACCURACY)
    rows, failed, agreed = Flipped(eta, seed), 0, True
    for _ in range(trials):
        found = learn_under_noise(
            learner,
            rows,
            SCHEMA,
            "y",
            disagrees,
            most=MOST,
            tau=TAU,
            extra=EXTRA,
            beta=float(DELTA),
        )
        error = error_of(found.hypothesis)
        failed += error > float(ACCURACY + EXTRA)
        room = float(EXTRA * (1 - 2 * MOST)) / 2
        held_out = ceil(log(4 * found.tried / float(DELTA)) / (2 * room * room))
        wrong = round(found.disagreement * held_out)
        rate = float(eta) + float(1 - 2 * eta) * error
        agreed &= rate_agrees(wrong, held_out, rate, ALPHA / found.tried)
    row = _row("unknown", eta, rows.drawn // (trials * D), failed, trials, ACCURACY + EXTRA, None)
    return row | {"holds": row["holds"] and agreed}


def proved_rows(eta: Fraction) -> int:
    """Compute ln(2M/delta) / (2 tau^2 (1 - 2 eta)^2), the examples of a query."""
    return ceil(log(2 * D / float(DELTA)) / 2 / float(TAU * (1 - 2 * eta)) ** 2)


def _seen(eta: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Compute P[x_i = 0, label 1] and P[x_i = 0, label 0] of each query, as labels are seen."""
    # The target is x_0: where that is 0 the true label is 0, and 1 is seen with probability eta.
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    return [(half * eta, half * (1 - eta)), *[(quarter, quarter)] * (D - 1)]


def _noise(
    values: Sequence[float],
    expected: Sequence[Fraction],
    variances: Sequence[float],
    size: int,
) -> NoiseCheck:
    """Compare answers with means of `size` rows; those of a constant have to be it."""
    errors = np.reshape(values, (-1, D)) - np.array([float(mean) for mean in expected])
    varies = np.array(variances) > 0
    constant = bool((np.abs(errors[:, ~varies]) < _CLOSE).all())
    found = normal_noise(errors[:, varies], np.sqrt(np.array(variances)[varies] / size))
    return NoiseCheck(found.ratio, found.possible and constant)


def disagrees(hypothesis: Conjunction, rows: EncodedColumns) -> NDArray[np.bool_]:
    """Return rows whose label is another than the hypothesis'."""
    word = np.asarray(rows.values["x"][0])
    said = np.ones(rows.rows, dtype=np.int64)
    for variable in hypothesis.variables:
        said &= word >> variable & 1
    return np.asarray(said != np.asarray(rows.values["y"]), dtype=np.bool_)


def error_of(hypothesis: Conjunction) -> float:
    """Compute the error under the true labels, exactly: variables are fair bits."""
    one, other = set(hypothesis.variables), set(TARGET.variables)
    return float(0.5 ** len(one) + 0.5 ** len(other) - 2 * 0.5 ** len(one | other))


def printed_rows(eta: Fraction) -> int:
    """Compute a query's examples as in the proof: two samples at tau/2, Hoeffding's constants."""
    half, left = float(TAU) / 2, float(1 - 2 * eta)
    scale = log(4 * D / float(DELTA)) / (2 * half * half)
    return ceil(scale) + ceil(scale / left**2)


def _failures(oracle: Callable[[], Oracle], trials: int, values: list[float]) -> int:
    learner = conjunctions(SCHEMA, ACCURACY)
    return sum(
        error_of(learn(learner, Recorded(oracle(), values))) > float(ACCURACY)
        for _ in range(trials)
    )


def _row(
    what: str,
    eta: Fraction,
    size: int,
    failed: int,
    trials: int,
    allowed: Fraction,
    noise: NoiseCheck | None,
) -> dict[str, Any]:
    if what == "not corrected" and eta >= Fraction(1, 5):
        holds = rate_exceeded(failed, trials, 0.5)  # it has to be the correction that helps
    else:
        claim = what != "not corrected" or eta == 0
        holds = not claim or not rate_exceeded(failed, trials, float(DELTA))
    if noise is not None:
        holds = holds and noise.possible
    return {
        "rate": what,
        "eta": float(eta),
        "tau": float(TAU),
        "examples a query": size,
        "as printed": printed_rows(eta),
        "error allowed": float(allowed),
        "delta": float(DELTA),
        "failed": failed / trials,
        "trials": trials,
        "noise": None if noise is None else noise.ratio,
        "holds": holds,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(10, 4)
    left, right = figure.subplots(1, 2)
    etas = [float(eta) for eta in ETAS]
    plain(left, "Examples a query", "rate of flipped labels η", "examples")
    for what, color in (("corrected", ACCENT), ("unknown", INK)):
        shown = [row["examples a query"] for row in rows if row["rate"] == what]
        left.plot(etas, shown, "o-", color=color, label=what)
    left.plot(etas, [printed_rows(eta) for eta in ETAS], "--", color=QUIET, label="two samples")
    left.set_yscale("log")
    left.legend(frameon=False)
    title = "How often the hypothesis errs too much"
    plain(right, title, "rate of flipped labels η", "share of trials")
    marks = (("corrected", ACCENT, 9), ("unknown", INK, 4), ("not corrected", BAD, 6))
    for what, color, size in marks:  # of two that never fail, both are to be seen
        shown = [row["failed"] for row in rows if row["rate"] == what]
        right.plot(etas, shown, "o-", color=color, label=what, ms=size)
    right.axhline(float(DELTA), color=BAD, lw=1, ls="--", label=f"δ = {float(DELTA):g}")
    right.legend(frameon=False)
    figure.tight_layout()
