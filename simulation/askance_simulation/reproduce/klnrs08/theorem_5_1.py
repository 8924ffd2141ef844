"""KLNRS08, Theorem 5.1: what two rounds learn exactly, one round cannot learn at all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from askance_aggregator.learners import (
    Answers,
    Batch,
    Learner,
    MaskedParity,
    NonAdaptive,
    Question,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.oracles import (
    FairHalfOracle,
    FairOracle,
    LazyOracle,
    MaskedParityOracle,
    learn,
)
from askance_aggregator.queries import (
    parity,
    predicate,
    real,
    signed,
    where,
)
from askance_client.queries import Expression, Schema
from askance_simulation.plots.style import ACCENT, BAD, INK, plain
from askance_simulation.randomness.seeds import Seed
from askance_simulation.reproduce.counting import generator
from askance_simulation.reproduce.reproduction import Reproduction, Row, Setting

NAME = "theorem-5.1"
LEAK_D, LEAK_TAU = 8, Fraction(1, 25)
MASKS = 16  # that the non-adaptive learner asks of


def reproduce(setting: Setting) -> Reproduction:
    """Run both learners under the lazy oracle, and show the leak of the oracle as printed."""
    rows: list[Row] = []
    for d in (8, 16, 32):
        count = 20 if setting.quick else 128
        rows += separation(d, concepts_of(d, count, setting.seed / "concepts" / d), setting.seed)
        setting.progress(f"d = {d}")
    leaked = concepts_of(LEAK_D, 32 if setting.quick else 256, setting.seed / "leak")
    rows += [leak(leaked, as_printed=FairOracle), leak(leaked, as_printed=FairHalfOracle)]
    return Reproduction(
        name=NAME,
        source="KLNRS08, Theorem 5.1 and Corollary 5.2",
        statement=(
            "A non-adaptive statistical query learner of MASKED-PARITY whose queries have tolerance"
            " 2^(-2d/3) or more needs 2^d - 1 of them; two rounds learn it with d + 1."
        ),
        differs_from_print=(
            "Each query tells at most 1/(4 tau^2) masks from nothing (Parseval), so q non-adaptive"
            " queries leave a mean error of at least (1 - q/(4 tau^2 2^d))/2 on the half with"
            " b = 0; with the printed tau = 2^(-2d/3) that says nothing, with tau = 2^(-d/3) it"
            " does. The printed oracle omits <h_g, f> as a whole or not at all; where the half with"
            " b = 1 alone passes tau it gives the other half away. The one here answers that half"
            " exactly and omits the other. The separation makes LNI a strict subset of LI; the"
            " corollary has it reversed."
        ),
        rows=tuple(rows),
        holds=all(row["holds"] for row in rows),
        notes=(
            "Errors are means over concepts; every mask comes with a = 0 and with a = 1.",
            "The two-round learner asks its first round at 1/(2d), which at d = 8 is finer than"
            " 2^(-d/3), and from d = 16 on coarser.",
            f"'leak' is a fixed set of three questions at d = {LEAK_D}, tau = {float(LEAK_TAU):g},"
            " which recovers every concept from the printed oracle and no bit a from the other.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def concepts_of(d: int, masks: int, seed: Seed) -> list[MaskedParity]:
    """Draw random masks (all, if there are no more), each with both bits."""
    numbers = np.arange(1 << d) if masks >= 1 << d else None
    rng = generator(seed)
    bits = rng.integers(0, 2, (masks, d)) if numbers is None else numbers[:, None] >> np.arange(d)
    return [MaskedParity(tuple((row & 1).tolist()), a) for row in bits for a in (0, 1)]


def separation(d: int, concepts: Sequence[MaskedParity], seed: Seed) -> list[Row]:
    """Return the non-adaptive learner and the one of two rounds, under the same lazy oracle."""
    tau = Fraction(2.0 ** (-d / 3)).limit_denominator(10**9)
    schema = masked_parity_schema(d)
    masks = generator(seed / "masks" / d).integers(0, 2, (MASKS, d))
    one = one_round(schema, [tuple(mask) for mask in masks.tolist()], tau)
    asked = len(one.batch.questions)
    bound = max(0.5 * (1 - asked / (4 * float(tau) ** 2 * 2.0**d)), 0.0)
    rows: list[Row] = []
    for name, learner, queries, least in (
        ("one round", one, asked, bound),
        ("two rounds", masked_parity(schema), 2, 0.0),
    ):
        shown, hidden = mean_errors(learner, concepts, FairHalfOracle)
        exact = name == "two rounds"
        rows.append(
            _row(name, "lazy", d, queries, tau, concepts, (shown, hidden), least)
            | {"holds": shown == hidden == 0 if exact else shown == 0 and hidden >= least}
        )
    return rows


def leak(concepts: Sequence[MaskedParity], as_printed: type[MaskedParityOracle]) -> Row:
    """Return the fixed set of questions, under the oracle that omits all or that omits one half."""
    learner = pushing(masked_parity_schema(LEAK_D), LEAK_TAU)
    shown, hidden = mean_errors(learner, concepts, as_printed)
    printed = as_printed is FairOracle
    oracle = "lazy, as printed" if printed else "lazy"
    return _row("leak", oracle, LEAK_D, 3, LEAK_TAU, concepts, (shown, hidden), 0.0) | {
        "holds": hidden == 0 if printed else hidden == 0.5
    }


def mean_errors(
    learner: Learner[MaskedParity],
    concepts: Sequence[MaskedParity],
    default: type[MaskedParityOracle],
) -> tuple[float, float]:
    """Mean errors on the halves with b = 1 and b = 0, exactly: two parities differ on half."""
    shown = hidden = 0.0
    for concept in concepts:
        found = learn(learner, LazyOracle(MaskedParityOracle(concept), default(concept)))
        wrong = sum(one != other for one, other in zip(found.r, concept.r, strict=True))
        shown += wrong / len(concept.r)
        hidden += 0.5 if wrong else float(found.a != concept.a)
    return shown / len(concepts), hidden / len(concepts)


def one_round(
    schema: Schema, masks: Sequence[tuple[int, ...]], tau: Fraction
) -> NonAdaptive[MaskedParity]:
    """Read the mask, and ask [b = 0, y != (-1)^<s,x>] of some masks s: one may be the right."""
    batch = Batch([_shown(schema, tau), *(_hidden(schema, mask, tau) for mask in masks)])

    def conclude(answers: Answers) -> MaskedParity:
        r = tuple(int(value < 0) for value in answers[0].values)
        guess = 0
        for mask, answer in zip(masks, answers[1:], strict=True):
            if mask == r:
                guess = int(answer.value > 0.25)
        return MaskedParity(r, guess)

    return NonAdaptive(
        name="one-round", version=1, parameters={}, schema=schema, batch=batch, conclude=conclude
    )


def pushing(schema: Schema, tau: Fraction) -> NonAdaptive[MaskedParity]:
    """Make a learner that reads a from the half with b = 0, by an answer pushed past tau.

    With B(x) = x_0 x_1 + x_2 x_3 + ... every <r,x> has correlation 2^(-d/2) (-1)^B(r) with
    (-1)^B(x), too little to be detected; [i = 0] y on the half with b = 1 is added once with each
    sign.
    """
    d = len(schema["x"])
    y = where(schema["y"] == "-1", -1, 1)
    bent = where(_sum_of_pairs(list(schema["x"])), -y, y)
    push = where(schema["i"] == 0, y, 0)
    pushed = [real(where(schema["b"] == 0, bent, sign * push), -1, 1) for sign in (1, -1)]
    batch = Batch([_shown(schema, tau), *(Question(query, tau) for query in pushed)])

    def conclude(answers: Answers) -> MaskedParity:
        r = tuple(int(value < 0) for value in answers[0].values)
        told = max(answers[1:], key=lambda answer: abs(answer.value))
        sign = 1 if told is answers[1] else -1
        left = told.value - sign * (1 - 2 * r[0]) / (2 * d)
        dual = sum(r[j] & r[j + 1] for j in range(0, d, 2)) & 1
        return MaskedParity(r, dual ^ int(left < 0))

    return NonAdaptive(
        name="pushing", version=1, parameters={}, schema=schema, batch=batch, conclude=conclude
    )


def _shown(schema: Schema, tau: Fraction) -> Question:
    d = len(schema["x"])
    pair = 2 * schema["i"] + (schema["y"] == "-1")
    return Question(signed(where(schema["b"] == 1, pair, 2 * d)), tau)


def _hidden(schema: Schema, mask: tuple[int, ...], tau: Fraction) -> Question:
    wrong = (schema["y"] == "-1") != parity(schema["x"], mask)
    return Question(predicate((schema["b"] == 0) & wrong), tau)


def _sum_of_pairs(bits: Sequence[Expression]) -> Expression:
    pairs = [bits[j] & bits[j + 1] for j in range(0, len(bits), 2)]
    return reduce(lambda one, other: one != other, pairs)


def _row(
    learner: str,
    oracle: str,
    d: int,
    queries: int,
    tau: Fraction,
    concepts: Sequence[MaskedParity],
    errors: tuple[float, float],
    least: float,
) -> dict[str, Any]:
    return {
        "learner": learner,
        "oracle": oracle,
        "d": d,
        "questions": queries,
        "tau": float(tau),
        "concepts": len(concepts),
        "error, b = 1": errors[0],
        "error, b = 0": errors[1],
        "at least": least,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    plain(axes, "Error on the half that is masked", "bits d", "mean error on b = 0")
    for name, color, marker in (("one round", BAD, "o"), ("two rounds", ACCENT, "s")):
        shown = [row for row in rows if row["learner"] == name]
        ds, errors = [row["d"] for row in shown], [row["error, b = 0"] for row in shown]
        axes.plot(ds, errors, marker + "-", color=color, label=name)
    bounds = [row for row in rows if row["learner"] == "one round"]
    axes.plot(
        [row["d"] for row in bounds],
        [row["at least"] for row in bounds],
        "--",
        color=INK,
        label="one round, at least",
    )
    axes.set_xticks([row["d"] for row in bounds])
    axes.set_ylim(-0.02, 0.55)
    axes.legend(frameon=False)
