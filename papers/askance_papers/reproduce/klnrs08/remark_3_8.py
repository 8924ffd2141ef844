"""KLNRS08, remark after Theorem 3.8: PARITY without the square of log(1/beta), by a test set."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling import Words
from askance_papers.curator.mechanisms import ValidatedParity, choice_examples, mistakes
from askance_papers.curator.parity import ParityExamples, PrivateParity, examples_needed, law
from askance_papers.reproduce.checks import counts_agree, rate_exceeded
from askance_papers.reproduce.klnrs08.theorem_3_7 import choices_agree
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots import style
from askance_simulation.populations.labelled_bits import Parity
from askance_simulation.randomness import Seed, SeededWords

NAME = "remark-3.8"
ALPHA, EPSILON, BETA = Fraction(1, 10), Fraction(1), Fraction(1, 20)
D = 16  # unknowns, of the rows about sizes and failures
POWERS = (12, 25, 50)  # beta = 10^-power: each about the square of the one before
TWO_RUNS = Fraction(9, 10)  # a beta for which two runs are enough
STARVED = 20  # the training part is divided by this, so that a run often errs
_CLOSE = 1e-9  # of a loss in nats: p is rounded down to 64 bits
_ONES = 4  # the bits of x are 1 once in 2^4, so that parities may differ on few x
_RELEASES = 4000  # of one pair of parts, whose frequencies are held against the law
_UNKNOWNS, _KEPT, _TESTED = 2, 3, 3  # of the data sets whose losses are enumerated


def reproduce(setting: Setting) -> Reproduction:
    """Compute sizes as beta falls, enumerate both parts' losses, and count failures."""
    rows: list[Row] = [*sizes((*POWERS,) if setting.quick else (*POWERS, 100))]
    setting.progress("sizes")
    rows += [training_loss(), test_loss(ValidatedParity.of(EPSILON, BETA))]
    rows.append(release_law(setting.seed / NAME / "law"))
    setting.progress("losses")
    trials = 100 if setting.quick else 1000
    for divisor in (1, STARVED):
        rows += failures(divisor, trials, setting.seed / NAME / divisor)
        setting.progress(f"failures, 1/{divisor} of the training part")
    return Reproduction(
        name=NAME,
        source="KLNRS08, remark after Theorem 3.8",
        statement=(
            "The quadratic dependency on log(1/beta) goes away if A is run on somewhat fewer"
            " examples and a part of the data is set aside to test the candidates by sum queries."
        ),
        differs_from_print=(
            "Sum queries for k = O(log(1/beta)) candidates share epsilon, and so need O(k log(k /"
            " beta)/(eps alpha)) test examples: the square again, if without d. One choice of the"
            " candidate with the fewest mistakes (permute-and-flip) needs O(log(k/beta)/(eps"
            " alpha)) with constants that depend on epsilon. Then n = O(log(1/beta) d/(eps alpha))."
        ),
        rows=tuple(rows),
        notes=(
            f"eps = {float(EPSILON):g}, alpha = {float(ALPHA):g}, d = {D}. 'sizes' hold if n grows"
            " as log(1/beta) from row to row, to 10 %, and A*'s n and the test examples for sums"
            " as 0.7 to 1 times its square.",
            "The constants are larger than A*'s: with these numbers the test set pays from about"
            " beta = 10^-28 on. At beta = .05 A* takes a quarter of the examples.",
            "'loss' enumerates the answers of two runs together on all training parts of"
            f" {_KEPT} examples with {_UNKNOWNS} unknowns, and the choice on all test parts of"
            f" {_TESTED}; both are eps to 1e-9 nats, no more and no less.",
            f"'law' compares {_RELEASES:,} releases on one pair of parts with the enumerated law,"
            " output by output and from both sides (1e-6), and choices between two candidates with"
            " theirs; shown is the rate of no answer.",
            f"'failure' counts releases of error above alpha at beta = {float(BETA):g}; x has"
            f" independent bits that are 1 once in {1 << _ONES}. With a {STARVED}th of the training"
            " part for three times as many runs the first answer errs too often; the choice by a"
            " test set does not.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def sizes(powers: Sequence[int]) -> list[Row]:
    """Compute the examples of A*, of a choice and of sums, for falling beta."""
    rows: list[dict[str, Any]] = []
    for power in powers:
        beta = Fraction(1, 10**power)
        mechanism, once = ValidatedParity.of(EPSILON, beta), PrivateParity.amplified(EPSILON, beta)
        found = mechanism.sizes(D, ALPHA, beta)
        runs = mechanism.runs
        rows.append(
            _row(f"sizes, beta = 1e-{power}", runs, found.training, found.test)
            | {
                "n, A*": examples_needed(D, once.keep, ALPHA, beta),
                "test, sums": choice_examples(EPSILON / runs, runs, ALPHA, beta / 2),
                "holds": True,
            }
        )
    for place in range(1, len(rows)):
        before, row = rows[place - 1], rows[place]
        linear = powers[place] / powers[place - 1]
        grown = {name: row[name] / before[name] for name in ("n", "n, A*", "test, sums")}
        row["holds"] = (
            0.9 * linear <= grown["n"] <= 1.1 * linear
            and 0.7 * linear**2 <= grown["n, A*"] <= linear**2
            and 0.7 * linear**2 <= grown["test, sums"] <= linear**2
        )
    return list(rows)


def training_loss() -> Row:
    """Compute the largest log-ratio of the answers of all runs together, on neighbours."""
    mechanism = ValidatedParity.of(EPSILON, TWO_RUNS)
    kinds = list(product((0, 1), repeat=_UNKNOWNS + 1))
    laws = {
        data: law(_examples(data), mechanism.keep, 1)
        for data in combinations_with_replacement(kinds, _KEPT)
    }
    # The runs are independent, so the largest ratio of a tuple is the product of the largest ones.
    worst = max(
        chance / laws[tuple(sorted((*data[:place], other, *data[place + 1 :])))][answer]
        for data, mine in laws.items()
        for place in range(_KEPT)
        for other in kinds
        for answer, chance in mine.items()
    )
    return _loss("loss, training", mechanism.runs, mechanism.runs * log(worst))


def test_loss(mechanism: ValidatedParity) -> Row:
    """Compute the largest log-ratio of the choice among all parities, on neighbouring tests."""
    parities = [Parity(bits) for bits in product((0, 1), repeat=1)]
    kinds = list(product((0, 1), repeat=2))
    laws = {}
    for data in product(kinds, repeat=_TESTED):
        table = np.array(data, dtype=np.uint8)
        examples = ParityExamples.of_bits(table[:, :1], table[:, 1])
        scores = np.array([-mistakes(parity, examples) for parity in parities])
        laws[data] = mechanism.choice.probabilities(scores)
    worst = max(
        float((p / q).ln())
        for data, mine in laws.items()
        for place in range(_TESTED)
        for other in kinds
        for p, q in zip(mine, laws[(*data[:place], other, *data[place + 1 :])], strict=True)
    )
    return _loss("loss, test set", mechanism.runs, worst)


def release_law(seed: Seed) -> Row:
    """Compare releases on one small pair of parts, of two parities, with the enumerated law."""
    mechanism = ValidatedParity.of(EPSILON, TWO_RUNS)
    training, test = (
        _examples([(*x, (x[0] * r[0] + x[1] * r[1]) % 2) for x in ((0, 1), (1, 0), (1, 1))])
        for r in ((1, 0), (0, 1))
    )
    claimed = released(mechanism, training, test)
    words = SeededWords(seed)
    seen = Counter(mechanism.release(training, test, words) for _ in range(_RELEASES))
    drawn = choices_agree("permute-and-flip", mechanism.choice, SeededWords(seed / "choices"))
    possible = drawn and counts_agree(
        [seen[answer] for answer in claimed], (min(chance, 1.0) for chance in claimed.values())
    )
    found = {"expected": claimed[None], "measured": seen[None] / _RELEASES, "trials": _RELEASES}
    return (
        _row("law of a release: none", mechanism.runs, len(training), len(test))
        | found
        | {"holds": possible and set(seen) <= set(claimed)}
    )


def released(
    mechanism: ValidatedParity, training: ParityExamples, test: ParityExamples
) -> dict[Parity | None, float]:
    """Enumerate the law of a release: the runs are independent, and the choice follows them."""
    found: defaultdict[Parity | None, float] = defaultdict(float)
    once = law(training, mechanism.keep, 1)
    for answers in product(once.items(), repeat=mechanism.runs):
        chance = prod(float(part) for _, part in answers)
        given = [answer for answer, _ in answers if answer is not None]
        if not given:
            found[None] += chance
            continue
        scores = np.array([-mistakes(parity, test) for parity in given])
        for answer, share in zip(given, mechanism.choice.probabilities(scores), strict=True):
            found[answer] += chance * float(share)
    return dict(found)


def failures(divisor: int, trials: int, seed: Seed) -> list[Row]:
    """Count releases that err by more than alpha: the first answer's, and the chosen one's."""
    starved = divisor > 1
    planned = BETA**3 if starved else BETA  # more runs, of which one has to be good
    mechanism = ValidatedParity.of(EPSILON, planned)
    full = mechanism.sizes(D, ALPHA, planned)
    training = full.training // divisor
    first = chosen = 0
    for trial in range(trials):
        words = SeededWords(seed / trial)
        target = _target(words)
        data = _labelled(target, training, words)
        test = _labelled(target, full.test, words)
        first += _errs(next(iter(mechanism.candidates(data, words)), None), target)
        chosen += _errs(mechanism.release(data, test, words), target)
    beta = float(BETA)
    shown = {"expected": beta, "trials": trials}
    return [
        _row("failure, first answer", mechanism.runs, training, 0)
        | shown
        | {"measured": first / trials, "holds": rate_exceeded(first, trials, beta) == starved},
        _row("failure, chosen", mechanism.runs, training, full.test)
        | shown
        | {"measured": chosen / trials, "holds": not rate_exceeded(chosen, trials, beta)},
    ]


def _target(words: Words) -> NDArray[np.uint8]:
    return np.asarray(words.take(D) & np.uint64(1), dtype=np.uint8)


def _labelled(target: NDArray[np.uint8], count: int, words: Words) -> ParityExamples:
    """Draw examples whose bits are 1 once in 2^_ONES, with the target's labels."""
    drawn = words.take(count * D).reshape(count, D) & np.uint64((1 << _ONES) - 1)
    x = (drawn == 0).astype(np.uint8)
    return ParityExamples.of_bits(x, (x & target).sum(axis=1) & 1)


def _errs(found: Parity | None, target: NDArray[np.uint8]) -> bool:
    """Return whether a release errs by more than ALPHA: by the law of x, so exactly."""
    if found is None:
        return True
    wrong = int((np.array(found.r) != target).sum())
    return (1 - (1 - Fraction(2, 1 << _ONES)) ** wrong) / 2 > ALPHA


def _examples(data: Sequence[tuple[int, ...]]) -> ParityExamples:
    table = np.array(data, dtype=np.uint8)
    return ParityExamples.of_bits(table[:, :_UNKNOWNS], table[:, _UNKNOWNS])


def _loss(what: str, runs: int, measured: float) -> Row:
    expected = float(EPSILON)
    found = {"expected": expected, "measured": measured}
    return _row(what, runs, None, None) | found | {"holds": abs(measured - expected) < _CLOSE}


def _row(what: str, runs: int, training: int | None, test: int | None) -> dict[str, Any]:
    return {
        "what": what,
        "runs": runs,
        "training": training,
        "test": test,
        "n": None if training is None or test is None else training + test,
        "n, A*": None,
        "test, sums": None,
        "expected": None,
        "measured": None,
        "trials": None,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    style.plain(
        axes, f"Examples of PARITY, d = {D}, ε = 1, α = 0.1", r"$-\log_{10}\,\beta$", "examples"
    )
    shown = [row for row in rows if row["n, A*"] is not None]
    powers = [int(row["what"].rsplit("-", 1)[1]) for row in shown]
    axes.plot(powers, [row["n, A*"] for row in shown], "s-", color=style.BAD, label="A*")
    axes.plot(
        powers, [row["n"] for row in shown], "o-", color=style.ACCENT, label="chosen by a test set"
    )
    sums = [row["training"] + row["test, sums"] for row in shown]
    axes.plot(powers, sums, "^--", color=style.INK, label="test by sum queries")
    axes.set_xscale("log")
    style.across(axes.xaxis, powers)
    axes.set_yscale("log")
    style.logarithmic(axes)
    style.legend_beside(axes)
