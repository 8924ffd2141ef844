"""KLNRS08, Theorem 5.1: what two rounds learn exactly, one round cannot learn at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from askance_aggregator.queries import parity, real, signed, where
from askance_client.queries import Expression, Schema
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, plain
from askance_simulation.randomness import Seed

NAME = "theorem-5.1"
LEAK_D, LEAK_TAU = 8, Fraction(1, 25)


@dataclass(frozen=True, slots=True)
class Cosets:
    """Masks that questions of the non-adaptive learner see together, at one d.

    With B(x) = x_0 x_1 + x_2 x_3 + ... over the first m bits, (-1)^(<s,x> + B(x)) has correlation
    2^(-m/2) with each of the 2^m parities <r,x> whose r is s beyond the first m bits. On the half
    with b = 0 an answer moves by half of that.

    Args:
        d: number of bits.
        told: m of questions that pass tau, even.
        untold: m of the question that is below tau and above tau/2, even.
        narrow: whether that question is of i = 0 only, which divides it by d.
    """

    d: int
    told: int
    untold: int
    narrow: bool

    @property
    def tau(self) -> Fraction:
        """The tolerance 2^(-d/3)."""
        return Fraction(2.0 ** (-self.d / 3)).limit_denominator(10**9)


COSETS = (Cosets(8, 2, 4, False), Cosets(16, 8, 10, False), Cosets(32, 4, 10, True))
ASKED = 8  # cosets that the non-adaptive learner is told of
TWO_ROUNDS = (("two rounds", 1), ("two rounds, 16 masks", 16))  # names, and masks of round 1
Mask = tuple[int, ...]


def reproduce(setting: Setting) -> Reproduction:
    """Run both learners under the lazy oracle, and show the leak of the oracle as printed."""
    rows: list[Row] = []
    for cosets in COSETS:
        count = 1 if setting.quick else 8
        rows += separation(cosets, count, setting.seed / NAME / cosets.d)
        setting.progress(f"d = {cosets.d}")
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
        notes=(
            "Errors are means over concepts; every mask comes with a = 0 and with a = 1.",
            f"The one round asks {ASKED} questions, each of which tells a coset of 4, 256 and 16"
            " masks at d = 8, 16 and 32, and one that would tell another coset at tau/2 but is"
            " below tau. The error is measured on masks of the first cosets (told), where it has"
            " to be 0, on those of the last one and on all others (not told), where it has to be"
            " one half; 'error, b = 0' weighs them as a uniform mask does. So an oracle that"
            " tells more than tau allows fails, and one that tells less.",
            "The two-round learner is run with the one mask that its first round reads, and with a"
            " list of 16 of which its second round finds the right one. It asks its first round at"
            " 1/(2d), which at d = 8 is finer than 2^(-d/3), and from d = 16 on coarser.",
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


def separation(cosets: Cosets, count: int, seed: Seed) -> list[Row]:
    """Measure the non-adaptive learner and the one of two rounds, under the same lazy oracle.

    `count` masks are drawn of those that the learner is told, of those below tau, and of all
    others.
    """
    d, tau = cosets.d, cosets.tau
    schema = masked_parity_schema(d)
    asked = asked_masks(cosets, seed / "asked")
    one = one_round(schema, cosets, asked)
    told, below, other = strata(cosets, asked, count, seed / "concepts")
    queries = len(one.batch.questions)
    bound = max(0.5 * (1 - queries / (4 * float(tau) ** 2 * 2.0**d)), 0.0)
    parts = [mean_errors(one, part, FairHalfOracle) for part in (told, below, other)]
    shown = sum(error for error, _ in parts)
    of_told, of_below, of_other = (error for _, error in parts)
    share = ASKED * 2.0 ** (cosets.told - d)
    hidden = share * of_told + (1 - share) * (of_below + of_other) / 2
    concepts = [*told, *below, *other]
    first = _row("one round", "lazy", d, queries, tau, len(concepts), (shown, hidden), bound)
    right = shown == of_told == 0 and of_below == of_other == 0.5
    found: list[Row] = [
        first | {"told": of_told, "not told": of_other, "holds": right and hidden >= bound}
    ]
    for name, candidates in TWO_ROUNDS:
        both = mean_errors(masked_parity(schema, candidates=candidates), concepts, FairHalfOracle)
        second = _row(name, "lazy", d, 2, tau, len(concepts), both, 0.0)
        found.append(second | {"holds": both == (0, 0)})
    return found


def asked_masks(cosets: Cosets, seed: Seed) -> list[Mask]:
    """Draw the masks s of the questions that pass tau: 0 on the first m bits."""
    # None is in the coset of the last question, of the masks that are 0 beyond its own bits.
    rng, found = generator(seed), list[Mask]()
    while len(found) < ASKED:
        mask = (0,) * cosets.told + _bits(rng, cosets.d - cosets.told)
        if mask not in found and any(mask[cosets.untold :]):
            found.append(mask)
    return found


def strata(
    cosets: Cosets, asked: Sequence[Mask], count: int, seed: Seed
) -> tuple[list[MaskedParity], list[MaskedParity], list[MaskedParity]]:
    """Draw masks of the cosets that are told, of the one below tau, and of no question's."""
    rng, d = generator(seed), cosets.d
    told = [
        _bits(rng, cosets.told) + asked[int(place)][cosets.told :]
        for place in rng.integers(0, ASKED, count)
    ]
    below = [_bits(rng, cosets.untold) + (0,) * (d - cosets.untold) for _ in range(count)]
    seen = {mask[cosets.told :] for mask in asked}
    other = list[Mask]()
    while len(other) < count:
        mask = _bits(rng, d)
        if mask[cosets.told :] not in seen and any(mask[cosets.untold :]):
            other.append(mask)
    told_of, below_of, other_of = (
        [MaskedParity(mask, a) for mask in masks for a in (0, 1)] for masks in (told, below, other)
    )
    return told_of, below_of, other_of


def _bits(rng: np.random.Generator, count: int) -> Mask:
    return tuple(rng.integers(0, 2, count).tolist())


def leak(concepts: Sequence[MaskedParity], as_printed: type[MaskedParityOracle]) -> Row:
    """Return the fixed set of questions, under the oracle that omits all or that omits one half."""
    learner = pushing(masked_parity_schema(LEAK_D), LEAK_TAU)
    shown, hidden = mean_errors(learner, concepts, as_printed)
    printed = as_printed is FairOracle
    oracle = "lazy, as printed" if printed else "lazy"
    return _row("leak", oracle, LEAK_D, 3, LEAK_TAU, len(concepts), (shown, hidden), 0.0) | {
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


def one_round(schema: Schema, cosets: Cosets, asked: Sequence[Mask]) -> NonAdaptive[MaskedParity]:
    """Read the mask, and ask of cosets of masks s: the mask's own answer has the sign of a."""
    d, y = cosets.d, where(schema["y"] == "-1", -1, 1)
    hidden = schema["b"] == 0
    narrow = hidden & (schema["i"] == 0) if cosets.narrow else hidden

    def question(mask: Mask, m: int, half: Expression) -> Question:
        bent = _sum_of_pairs([schema["x"][place] for place in range(m)])
        sign = (parity(schema["x"], mask) != bent) if any(mask) else bent
        return Question(real(where(half, where(sign, -y, y), 0), -1, 1), cosets.tau)

    batch = Batch(
        [
            _shown(schema, cosets.tau),
            *(question(mask, cosets.told, hidden) for mask in asked),
            question((0,) * d, cosets.untold, narrow),
        ]
    )

    def conclude(answers: Answers) -> MaskedParity:
        r = tuple(int(value < 0) for value in answers[0].values)
        sizes = [*[cosets.told] * len(asked), cosets.untold]
        guess = 0
        for mask, m, answer in zip([*asked, (0,) * d], sizes, answers[1:], strict=True):
            if r[m:] == mask[m:] and answer.value:
                guess = _dual(r[:m]) ^ int(answer.value < 0)
        return MaskedParity(r, guess)

    return NonAdaptive(
        name="one-round", version=2, parameters={}, schema=schema, batch=batch, conclude=conclude
    )


def _dual(bits: Mask) -> int:
    """Compute B of the bits, which is its own dual."""
    return sum(bits[j] & bits[j + 1] for j in range(0, len(bits), 2)) & 1


def pushing(schema: Schema, tau: Fraction) -> NonAdaptive[MaskedParity]:
    """Make a learner that reads a from the half with b = 0, by an answer pushed past tau."""
    # With B(x) = x_0 x_1 + x_2 x_3 + ... every <r,x> has correlation 2^(-d/2) (-1)^B(r) with
    # (-1)^B(x), too little to be detected; [i = 0] y on the half with b = 1 is added once with each
    # sign.
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
        return MaskedParity(r, _dual(r) ^ int(left < 0))

    return NonAdaptive(
        name="pushing", version=1, parameters={}, schema=schema, batch=batch, conclude=conclude
    )


def _shown(schema: Schema, tau: Fraction) -> Question:
    d = len(schema["x"])
    pair = 2 * schema["i"] + (schema["y"] == "-1")
    return Question(signed(where(schema["b"] == 1, pair, 2 * d)), tau)


def _sum_of_pairs(bits: Sequence[Expression]) -> Expression:
    pairs = [bits[j] & bits[j + 1] for j in range(0, len(bits), 2)]
    return reduce(lambda one, other: one != other, pairs)


def _row(
    learner: str,
    oracle: str,
    d: int,
    queries: int,
    tau: Fraction,
    concepts: int,
    errors: tuple[float, float],
    least: float,
) -> dict[str, Any]:
    return {
        "learner": learner,
        "oracle": oracle,
        "d": d,
        "questions": queries,
        "tau": float(tau),
        "concepts": concepts,
        "error, b = 1": errors[0],
        "error, b = 0": errors[1],
        "told": None,
        "not told": None,
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
