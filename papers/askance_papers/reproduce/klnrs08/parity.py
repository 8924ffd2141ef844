"""KLNRS08 section 3.2: what the private learner of PARITY costs, and how often it fails.

The loss is enumerated: all data sets of three examples with two unknowns, those that no parity fits
included, all pairs of neighbours, all outputs, in rational numbers. The failures are counted.

Two claims are enumerated on its runs. Claim 2.1: k runs of an eps-private algorithm, and any
function of their answers, are k eps-private. Claim 3.3: one example more at most doubles a
hypothesis's probability.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling import Words
from askance_papers.curator.parity import (
    Keeping,
    ParityExamples,
    PrivateParity,
    even_keeping,
    examples_needed,
    law,
    printed_keeping,
    runs_needed,
    sharper_keeping,
)
from askance_papers.reproduce.checks import counts_agree, least_within, rate_exceeded
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.populations.labelled_bits import Parity
from askance_simulation.randomness import Seed, SeededWords

NAME = "parity"
UNKNOWNS, EXAMPLES = 2, 3  # of the data sets that are gone through
ERROR, BETA, EPSILON = Fraction(1, 10), Fraction(1, 20), Fraction(1)  # of the failures counted
_RELEASES = 3000  # of each law that is compared: a twentieth of a rate of one half is seen
LAWS = ((1, "01 10 11", "110"), (2, "01 10 11", "111"), (2, "01 " * 10, "01" * 5))
"""Runs, and data whose law is compared: of a parity, of none, and so full of contradictions that
two runs succeed together far more often than they may if they keep the same examples."""
_CLOSE = 1e-9  # of a loss in nats: p is rounded down to 64 bits
_INK, _ACCENT, _QUIET, _BAD = "#222222", "#0b6e99", "#b0b0b0", "#c0392b"

RUN_EPSILON = Fraction(1, 2)  # of one run, in Claims 2.1 and 3.3
Example = tuple[int, ...]
Answer = Parity | None
Law = Mapping[Answer, Fraction]
Function = Callable[[tuple[Answer, ...]], Hashable]


@dataclass(frozen=True, slots=True)
class LossCase:
    """A budget whose loss is enumerated, and whether it is to be within epsilon."""

    keeping_name: str
    keeping: Keeping
    epsilon: Fraction
    runs: int
    private: bool = True


LOSSES = (
    LossCase("printed", printed_keeping, Fraction(1, 2), 1),
    LossCase("printed", printed_keeping, Fraction(1), 1),
    LossCase("printed", printed_keeping, Fraction(2), 1),
    LossCase("printed", printed_keeping, Fraction("3.9"), 1, private=False),
    LossCase("tanh", even_keeping, Fraction(1, 2), 1),
    LossCase("tanh", even_keeping, Fraction(1), 1),
    LossCase("tanh", even_keeping, Fraction(2), 1),
    LossCase("tanh", even_keeping, Fraction(4), 1),
    LossCase("printed", printed_keeping, Fraction(1), 6),
    LossCase("even split", even_keeping, Fraction(1), 6),
    LossCase("sharper", sharper_keeping, Fraction(1), 6),
    LossCase("sharper", sharper_keeping, Fraction(2), 6),
    LossCase("sharper", sharper_keeping, Fraction(4), 8),
)


def reproduce(setting: Setting) -> Reproduction:
    """Enumerate the losses, then count the failures of A* on labels of a parity."""
    rows: list[Row] = [*claim_rows()]
    for case in LOSSES:
        rows.append(loss_row(case))
        setting.progress(f"loss of {case.keeping_name} at epsilon {float(case.epsilon):g}")
    for runs, x, y in LAWS:
        rows.append(law_row(runs, x, y, setting.seed / f"law {runs} {y}"))
        setting.progress(f"law of {runs} runs")
    for d in (16, 64) if setting.quick else (16, 64, 256):
        for ones, trials in ((1, 100), (4, 100)) if setting.quick else ((1, 1000), (4, 1000)):
            rows.append(failure_row(d, ones, trials, setting.seed / f"failures {d} {ones}"))
            setting.progress(f"failures at d = {d}")
    return Reproduction(
        name=NAME,
        source="KLNRS08, section 3.2: Lemmas 3.1 and 3.2, Claims 2.1 and 3.3, Theorem 3.8",
        statement=(
            "A, which keeps examples with probability p = eps/4, is eps-differentially private for"
            " eps <= 1/2; A*, which repeats it, learns PARITY and fails with at most beta."
        ),
        differs_from_print=(
            "A's loss is exactly ln(1 + 2p/(1 - p)): p = eps/4 spends about half of eps, is valid"
            " up to eps = 3.83 and not at 3.9; p = tanh(eps/2) spends exactly eps. A* takes beta/3"
            " (the printed beta/2 sums to 3 beta') and may keep e^(eps/k) - 1 wherever giving up"
            " is what costs most, twice what an even split of eps allows. Lemma 3.1's e^(-eps"
            " n/16) is e^(-eps n/32)."
        ),
        rows=tuple(rows),
        notes=(
            "Losses are enumerated over all data sets of 3 examples with 2 unknowns and all pairs"
            " of neighbours; they hold to 1e-9 nats.",
            f"'law' compares {_RELEASES} releases on one data set with the enumerated law, output"
            " by output and from both sides (1e-6); measured and expected: rate of no answer.",
            "n is the least number for which the proof's parts are at most beta/3 each: too few"
            " examples kept, e^(-p n / 8), and a bad parity left, 2^d e^(-alpha p n / 2).",
            "Failures are counted against beta with a false-alarm rate of 1e-6 a row; x is made of"
            " independent bits that are 1 half of the time, or a sixteenth of it.",
            *(("d = 256 is left out when it is to be quick.",) if setting.quick else ()),
            "Claim 2.1: two runs' answers together cost twice a run's loss, no less; the first"
            " answer, and whether they agree, at most that. Claim 3.3: the largest ratio of a"
            " parity's probabilities with an example kept and left out, which is 2 itself.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def loss_row(case: LossCase) -> Row:
    """Compare the enumerated loss with the formula's, and both with their bounds."""
    p = case.keeping(case.epsilon, case.runs)
    measured = log(worst_ratio(p, case.runs))
    # The costliest output of A is an answer, of A* (with this many runs) giving up k times.
    expected = log((1 + p) / (1 - p)) if case.runs == 1 else case.runs * log(1 + p)
    spends_all = case.keeping_name in ("tanh", "sharper")
    private = measured <= float(case.epsilon) + _CLOSE
    return {
        "what": "loss",
        "keeping": case.keeping_name,
        "epsilon": float(case.epsilon),
        "runs": case.runs,
        "p": float(p),
        "d": UNKNOWNS,
        "x": "every",
        "n": EXAMPLES,
        "expected": expected,
        "measured": measured,
        "trials": None,
        "private": private,
        "holds": abs(measured - expected) < _CLOSE
        and private == case.private
        and (not spends_all or abs(measured - float(case.epsilon)) < _CLOSE),
    }


def worst_ratio(keep: Fraction, runs: int) -> Fraction:
    """Compute the largest ratio of an output's probabilities on two neighbours, exactly."""
    kinds = list(product((0, 1), repeat=UNKNOWNS + 1))
    # The order of the examples is of no matter: their coins are independent and alike.
    laws = {
        data: law(_examples(data), keep, runs)
        for data in combinations_with_replacement(kinds, EXAMPLES)
    }
    return max(_largest_ratio(laws, data, kinds) for data in laws)


def _examples(data: Sequence[Example]) -> ParityExamples:
    table = np.array(data, dtype=np.uint8)
    return ParityExamples.of_bits(table[:, :UNKNOWNS], table[:, UNKNOWNS])


def law_row(runs: int, x: str, y: str, seed: Seed) -> Row:
    """Compare the frequencies of what is released with the enumerated law."""
    keep = sharper_keeping(EPSILON, runs)
    mechanism, words = PrivateParity(EPSILON, runs, keep), SeededWords(seed)
    table = np.array([list(map(int, row)) for row in x.split()], dtype=np.uint8)
    examples = ParityExamples.of_bits(table, np.array(list(map(int, y)), dtype=np.uint8))
    claimed = law(examples, keep, runs)
    seen = Counter(mechanism.release(examples, words) for _ in range(_RELEASES))
    agrees = counts_agree([seen[said] for said in claimed], map(float, claimed.values()))
    return {
        "what": "law",
        "keeping": "sharper",
        "epsilon": float(EPSILON),
        "runs": runs,
        "p": float(keep),
        "d": UNKNOWNS,
        "x": x,
        "n": len(examples),
        "expected": float(claimed[None]),
        "measured": seen[None] / _RELEASES,
        "trials": _RELEASES,
        "private": True,
        "holds": agrees and set(seen) <= set(claimed),
    }


def failure_row(d: int, ones: int, trials: int, seed: Seed) -> Row:
    """Measure how often A* returns nothing, or a parity that errs by more than ERROR.

    The bits of x are 1 with probability 2^-ones.
    """
    mechanism = PrivateParity.amplified(EPSILON, BETA)
    n = examples_needed(d, mechanism.keep, ERROR, BETA)
    failed = sum(_errs(mechanism, d, n, ones, SeededWords(seed / trial)) for trial in range(trials))
    return {
        "what": "failure of A*",
        "keeping": "sharper",
        "epsilon": float(EPSILON),
        "runs": runs_needed(BETA),
        "p": float(mechanism.keep),
        "d": d,
        "x": f"ones: 1 in {1 << ones}",
        "n": n,
        "expected": float(BETA),
        "measured": failed / trials,
        "trials": trials,
        "private": True,
        "holds": not rate_exceeded(failed, trials, float(BETA))
        and is_proved_size(n, d, mechanism.keep),
    }


def is_proved_size(n: int, d: int, keep: Fraction) -> bool:
    """Return whether n is the least for which the proof leaves two of its three parts beta/3."""
    # A run keeps fewer than p n / 2 examples with e^(-p n / 8) at most, and that many leave a
    # parity of error above alpha with 2^d e^(-alpha p n / 2) at most; the third part is that of the
    # coins.
    kept = float(keep)

    def failure(count: int) -> float:
        misled = exp(d * log(2) - float(ERROR) * kept * count / 2)
        return max(exp(-kept * count / 8), misled)

    return least_within(n, failure, float(BETA) / 3)


def _errs(mechanism: PrivateParity, d: int, n: int, ones: int, words: Words) -> bool:
    """Run one fresh target and data set; a parity's error is exact, so no test set is needed."""
    x = _bits(words, n, d)
    for _ in range(ones - 1):
        x = x & _bits(words, n, d)
    target = _bits(words, 1, d)[0]
    y = np.bitwise_count(x & target).sum(axis=1) & 1
    found = mechanism.release(ParityExamples.of_words(x, y.astype(np.uint8), d), words)
    if found is None:
        return True
    wrong = sum(r != int(target[c // 64]) >> c % 64 & 1 for c, r in enumerate(found.r))
    # The parity of this many independent bits is odd with probability (1 - (1 - 2q)^wrong) / 2.
    error = (1 - (1 - Fraction(2, 1 << ones)) ** wrong) / 2
    return error > ERROR


def _bits(words: Words, count: int, d: int) -> NDArray[np.uint64]:
    """Draw uniform bits, packed, shape (count, ceil(d / 64)), 0 beyond d."""
    wide = -(-d // 64)
    drawn = words.take(count * wide).reshape(count, wide)
    if d % 64:
        drawn = drawn & np.array([(1 << 64) - 1] * (wide - 1) + [(1 << d % 64) - 1], np.uint64)
    return drawn


def claim_rows() -> list[Row]:
    """Return rows with the columns of the reproduction `parity`."""
    return [
        composed(2, "all answers", lambda answers: answers),
        composed(2, "first answer", first_answer),
        composed(2, "answers that agree", lambda answers: answers[0] == answers[1]),
        doubled(),
    ]


def composed(runs: int, name: str, function: Function) -> Row:
    """Enumerate the loss of a function of k runs' answers."""
    # The tuple itself costs k times as much as a run, no less; a function of it at most as much,
    # and its law is the one that `law` has for that number of runs.
    keep = even_keeping(RUN_EPSILON, 1)
    kinds = list(product((0, 1), repeat=UNKNOWNS + 1))
    once = {
        data: law(_examples(data), keep, 1)
        for data in combinations_with_replacement(kinds, EXAMPLES)
    }
    laws = {data: pushed(mine, runs, function) for data, mine in once.items()}
    measured = log(max(_largest_ratio(laws, data, kinds) for data in laws))
    whole = name == "all answers"
    most = runs * float(RUN_EPSILON)
    same = name != "first answer" or all(
        laws[data] == law(_examples(data), keep, runs) for data in laws
    )
    complete = all(sum(mine.values()) == 1 for mine in laws.values())
    return _claim_row(f"Claim 2.1, {name}", runs, keep, most, measured) | {
        "private": measured <= most + _CLOSE,
        "holds": complete
        and same
        and measured <= most + _CLOSE
        and (not whole or measured > most - _CLOSE),
    }


def pushed(once: Law, runs: int, function: Function) -> dict[Hashable, Fraction]:
    """Compute the law of a function of independent runs."""
    found: defaultdict[Hashable, Fraction] = defaultdict(Fraction)
    for answers in product(once.items(), repeat=runs):
        chance = Fraction(1)
        for _, part in answers:
            chance *= part
        found[function(tuple(answer for answer, _ in answers))] += chance
    return dict(found)


def first_answer(answers: tuple[Answer, ...]) -> Answer:
    """Return the first that is not None, as A* does."""
    return next((answer for answer in answers if answer is not None), None)


def doubled() -> Row:
    """Find the largest ratio of a hypothesis's probability with an example kept and left out."""
    # Both are the law of the other examples' coins; the example's own coin is fixed by its place:
    # it is in the system once (kept), or in none.
    keep = even_keeping(RUN_EPSILON, 1)
    kinds = list(product((0, 1), repeat=UNKNOWNS + 1))
    largest = Fraction(0)
    gained = False
    for data in combinations_with_replacement(kinds, EXAMPLES - 1):
        without = law(_examples(data), keep, 1)
        for other in kinds:
            kept = law_with(data, other, keep)
            for answer, chance in kept.items():
                if answer is None:
                    continue
                gained = gained or answer not in without
                largest = max(largest, chance / without.get(answer, chance))
    return _claim_row("Claim 3.3, ratio", 1, keep, 2.0, float(largest)) | {
        "private": True,
        "holds": largest == 2 and not gained,
    }


def law_with(data: Sequence[Example], other: Example, keep: Fraction) -> Law:
    """Compute the law of a run that surely keeps one example more."""
    # The law with its coin, P = keep P_in + (1 - keep) P_out, is solved for P_in.
    both = law(_examples((*data, other)), keep, 1)
    without = law(_examples(data), keep, 1)
    return {
        answer: (both.get(answer, Fraction(0)) - (1 - keep) * without.get(answer, Fraction(0)))
        / keep
        for answer in {*both, *without}
    }


def _largest_ratio(
    laws: Mapping[tuple[Example, ...], Mapping[Any, Fraction]],
    data: tuple[Example, ...],
    kinds: Sequence[Example],
) -> Fraction:
    """Find the largest ratio of an answer's probabilities on a data set and its neighbours."""
    others = {
        tuple(sorted((*data[:place], other, *data[place + 1 :])))
        for place in range(len(data))
        for other in kinds
    }
    return max(
        chance / laws[other][answer] for other in others for answer, chance in laws[data].items()
    )


def _claim_row(
    what: str, runs: int, keep: Fraction, expected: float, measured: float
) -> dict[str, object]:
    return {
        "what": what,
        "keeping": "tanh",
        "epsilon": float(RUN_EPSILON) * runs,
        "runs": runs,
        "p": float(keep),
        "d": UNKNOWNS,
        "x": "every",
        "n": EXAMPLES,
        "expected": expected,
        "measured": measured,
        "trials": None,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(10, 4)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.grid(axis="y", color=_QUIET, alpha=0.3)
    _draw_losses(left, [row for row in rows if row["what"] == "loss"])
    _draw_failures(right, [row for row in rows if row["what"] == "failure of A*"])
    figure.tight_layout()


def _draw_losses(axes: Any, rows: Sequence[Row]) -> None:
    """Draw the formulas for one run as lines, and the enumerated values as points."""
    epsilons = np.linspace(0.02, 3.97, 200)
    axes.plot(epsilons, epsilons, color=_QUIET, linewidth=1, label="allowed: the loss is ε")
    printed = np.log((1 + epsilons / 4) / (1 - epsilons / 4))
    axes.plot(epsilons, printed, color=_BAD, linewidth=1.2, label="A, printed p = ε/4")
    marks = {
        "printed": (_BAD, "o"),
        "tanh": (_ACCENT, "o"),
        "even split": (_ACCENT, "s"),
        "sharper": (_INK, "^"),
    }
    for keeping, (color, marker) in marks.items():
        for many in (False, True):
            shown = [r for r in rows if r["keeping"] == keeping and (r["runs"] > 1) == many]
            if shown:
                axes.plot(
                    [row["epsilon"] for row in shown],
                    [row["measured"] for row in shown],
                    marker,
                    color=color,
                    fillstyle="none" if many else "full",
                    markersize=8 if many else 5,
                    label=f"{'A*' if many else 'A'}, {keeping}, enumerated",
                )
    axes.set_ylim(0, 5)
    axes.set_xlabel("ε")
    axes.set_ylabel("loss, nats")
    axes.set_title("What a release costs", loc="left", fontsize=11, color=_INK)
    axes.legend(frameon=False, fontsize=8)


def _draw_failures(axes: Any, rows: Sequence[Row]) -> None:
    """Draw the rate of failure with two standard errors, and the allowed rate."""
    places = range(len(rows))
    rates = [row["measured"] for row in rows]
    errors = [2 * (r * (1 - r) / row["trials"]) ** 0.5 for r, row in zip(rates, rows, strict=True)]
    lower = [min(error, rate) for error, rate in zip(errors, rates, strict=True)]
    axes.errorbar(places, rates, yerr=[lower, errors], fmt="o", color=_ACCENT, capsize=3)
    axes.axhline(float(BETA), color=_BAD, linewidth=1.2, label=f"β = {float(BETA):g}")
    coins = 2.0 ** -runs_needed(BETA)
    axes.axhline(coins, color=_QUIET, linestyle="--", label="all runs give up by their coin")
    axes.set_xticks(places, [f"d = {row['d']}\n{row['x']}\nn = {row['n']:,}" for row in rows])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_ylim(0, 1.4 * float(BETA))
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylabel("failures (bars: two standard errors)")
    axes.set_title(
        f"A* at ε = {float(EPSILON):g}, error {float(ERROR):g}", loc="left", fontsize=11, color=_INK
    )
    axes.legend(frameon=False, fontsize=8)
