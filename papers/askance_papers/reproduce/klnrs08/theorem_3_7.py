"""KLNRS08 Theorem 3.7: how many examples the generic agnostic learner takes, proved and measured.

The class is the 2^d parities over d bits, in the two distributions that leave the learner least: a
bad hypothesis is worse than the best by hardly more than alpha, whichever it is. Where labels are
exact ("realizable"), nearly all examples are the point 0, which says nothing; where they are noisy,
the best itself errs on nearly half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from itertools import product
from math import exp, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator.mechanisms import (
    Exponential,
    Losses,
    Parities,
    PermuteAndFlip,
    ScoredCandidates,
    sample_size,
)
from askance_papers.reproduce.checks import close, least_within, rate_agrees, rate_exceeded
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.randomness import Seed, SeededWords

NAME = "theorem-3.7"
BETA = Fraction(1, 20)
CHANCE = 1e-6  # how rarely a row may fail by bad luck
FRACTIONS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_FLOATS = 1e-9  # the loss is enumerated to 30 digits and compared as a float
_CHOICES = 1000  # between two candidates, to hold the mechanism to its law
_GAP = Fraction(101, 100)  # of alpha: how much worse every other hypothesis is
_INK, _ACCENT, _QUIET = "#222222", "#0b6e99", "#b0b0b0"
_MECHANISMS: tuple[tuple[str, type[Exponential] | type[PermuteAndFlip]], ...] = (
    ("exponential", Exponential),
    ("permute-and-flip", PermuteAndFlip),
)


@dataclass(frozen=True, slots=True)
class Instance:
    """A class, what is asked of it, and where its examples come from."""

    d: int
    alpha: Fraction
    epsilon: Fraction
    labels: str

    @property
    def family(self) -> Parities:
        """The class."""
        return Parities(self.d)

    @property
    def best_error(self) -> Fraction:
        """The error of the target, the best of the class."""
        return Fraction(0) if self.labels == "realizable" else Fraction(1, 2) - _GAP * self.alpha

    def law(self, target: int) -> NDArray[np.float64]:
        """Compute P[(x, y)]: the 2^d points x with y = 0, then the same with y = 1."""
        points = 1 << self.d
        flipped = float(self.best_error)
        ones = self.family.hypothesis(target)(_cube(self.d)) == 1
        share = np.full(points, 1 / points)
        if self.labels == "realizable":
            awake = float(2 * _GAP * self.alpha)  # half of them distinguish two parities
            share = share * awake
            share[0] += 1 - awake
        one = np.where(ones, 1 - flipped, flipped)
        return np.concatenate([share * (1 - one), share * one])


@dataclass(frozen=True, slots=True)
class ErrorCurve:
    """Run one mechanism on an instance, and count the failed trials at each part of n."""

    instance: Instance
    mechanism: str
    trials: int
    n: int
    failed: tuple[int, ...]
    failed_as_printed: int
    choices_agree: bool = True

    @property
    def sufficient(self) -> float | None:
        """The least part of n from which on at most BETA of the trials failed; None: not even n."""
        found = None
        for fraction, failed in zip(reversed(FRACTIONS), reversed(self.failed), strict=True):
            if failed > BETA * self.trials:
                break
            found = fraction
        return found


def reproduce(setting: Setting) -> Reproduction:
    """Measure; FULL takes more classes, more budgets and more trials."""
    trials = 100 if setting.quick else 1000
    curves = []
    for instance in instances(setting):
        for name, kind in _MECHANISMS:
            curves.append(measured(instance, name, kind, trials, setting.seed / NAME))
        setting.progress(f"2^{instance.d} hypotheses, {instance.labels}")
    rows = [row(curve) for curve in curves]
    return Reproduction(
        name=NAME,
        source="KLNRS08, Theorem 3.7",
        statement=(
            "Any finite class H is learnt agnostically and eps-differentially privately from O((ln"
            " |H| + ln(1/beta)) max{1/(eps alpha), 1/alpha^2}) examples, by the exponential"
            " mechanism on the number of mistakes."
        ),
        differs_from_print=(
            "The printed constants (4 and 2) are proved for a class with a hypothesis that makes no"
            " mistake only: the proof replaces error(h) > alpha + OPT by error(h) > alpha. With 6"
            " and 4.5 it is proved for all. No instance here needs more than the printed ones."
        ),
        rows=tuple(rows),
        notes=(
            "The class is all parities; every hypothesis but the target is worse by 1.01 alpha, so"
            " any other choice is a failure.",
            f"beta = {float(BETA):g}; a row holds if its failures at n are no proof of more than"
            " beta (one in a million), some part of n was enough, so was the printed n, and the"
            " loss, enumerated over all data sets of three examples of one bit and their"
            " neighbours, is at most eps.",
            "n is the least number for which the proof's two parts, the sample and the choice, are"
            " at most beta/2 each: |H| e^(-2 n alpha^2 / 9) and |H| e^(-eps n alpha / 6).",
            "From the other side: a twentieth of n has to be too few, the loss has to be the"
            f" mechanism's own to 1e-6, and of {_CHOICES} choices between two candidates the better"
            " one has to be chosen as often as claimed (1e-6).",
        ),
        draw=lambda figure: _draw(figure, curves),
    )


def instances(setting: Setting) -> list[Instance]:
    """Return cases whose size privacy decides (6 / (eps alpha)), and cases that sampling does."""
    asked = [(4, "0.2", "0.5")]
    if not setting.quick:
        asked = [(4, "0.2", "0.1"), (4, "0.2", "1"), (8, "0.1", "0.1"), (8, "0.1", "1")]
    return [
        Instance(d, Fraction(alpha), Fraction(epsilon), labels)
        for d, alpha, epsilon in asked
        for labels in ("realizable", "noisy")
    ]


def measured(
    instance: Instance,
    name: str,
    kind: type[Exponential] | type[PermuteAndFlip],
    trials: int,
    seed: Seed,
) -> ErrorCurve:
    """Run the learner's own steps on counts of examples, drawn exactly in law."""
    place = seed / name / f"{instance.d} {instance.alpha} {instance.epsilon} {instance.labels}"
    n = sample_size(instance.family.size, alpha=instance.alpha, beta=BETA, epsilon=instance.epsilon)
    mechanism = kind.of(instance.epsilon)

    def failures(examples: int) -> int:
        source = place / examples
        rng = np.random.default_rng(int.from_bytes(source.key, "big"))
        words = SeededWords(source / "choice")
        return sum(_fails(instance, mechanism, examples, rng, words) for _ in range(trials))

    failed = tuple(failures(max(int(fraction * n), 1)) for fraction in FRACTIONS)
    agree = choices_agree(name, mechanism, SeededWords(place / "choices"))
    return ErrorCurve(instance, name, trials, n, failed, failures(printed_size(instance)), agree)


def is_proved_size(n: int, size: int, alpha: Fraction, epsilon: Fraction) -> bool:
    """Return whether n is the least for which the proof leaves each of its two parts beta/2."""
    # |H| hypotheses have a training error within alpha/3 of their own but with |H|
    # e^(-2 n alpha^2 / 9), and a bad one, which then gets n alpha/3 examples more wrong, is chosen
    # with |H| e^(-eps n alpha / 6) at most.
    rate = min(2 * alpha**2 / 9, epsilon * alpha / 6)
    return least_within(n, lambda count: size * exp(-float(rate) * count), float(BETA) / 2)


def printed_size(instance: Instance) -> int:
    """Return the sample size as printed: (ln |H| + ln(2/beta)) max{4/(eps alpha), 2/alpha^2}."""
    rate = max(4 / (instance.epsilon * instance.alpha), 2 / instance.alpha**2)
    logarithm = (Decimal(instance.family.size) * 2 * BETA.denominator / BETA.numerator).ln()
    found = logarithm * rate.numerator / rate.denominator
    return int(found.to_integral_value(rounding=ROUND_CEILING))


def _fails(
    instance: Instance,
    mechanism: Exponential | PermuteAndFlip,
    examples: int,
    rng: np.random.Generator,
    words: SeededWords,
) -> bool:
    target = int(rng.integers(1, instance.family.size))
    counts = rng.multinomial(examples, instance.law(target)).astype(np.int64)
    cube = _cube(instance.d)
    labels = np.repeat([0, 1], len(cube))
    wrong = instance.family.weighted_mistakes(np.concatenate([cube, cube]), labels, counts)
    return mechanism.choose(Losses(instance.family.size, wrong), words) != target


def enumerated_loss(kind: type[Exponential] | type[PermuteAndFlip], epsilon: Fraction) -> float:
    """Compute the greatest log-ratio over all data sets of three labelled bits and neighbours."""
    mechanism, family = kind.of(epsilon), Parities(1)
    records = list(product((0, 1), repeat=2))
    law = {}
    for data in product(records, repeat=3):
        table = np.array(data)
        scores = -family.mistakes(table[:, :1], table[:, 1])(np.arange(family.size))
        law[data] = mechanism.probabilities(scores)
    return max(
        float((p / q).ln())
        for data, of_data in law.items()
        for place in range(3)
        for record in records
        for p, q in zip(of_data, law[(*data[:place], record, *data[place + 1 :])], strict=True)
    )


def row(curve: ErrorCurve) -> Row:
    """Return a line of the table."""
    from scipy import stats

    instance = curve.instance
    kind = dict(_MECHANISMS)[curve.mechanism]
    loss = enumerated_loss(kind, instance.epsilon)
    claimed = claimed_loss(curve.mechanism, float(instance.epsilon))
    lucky = float(stats.binom.sf(curve.failed[-1] - 1, curve.trials, float(BETA)))
    return {
        "|H|": instance.family.size,
        "alpha": float(instance.alpha),
        "eps": float(instance.epsilon),
        "labels": instance.labels,
        "OPT": float(instance.best_error),
        "mechanism": curve.mechanism,
        "n": curve.n,
        "failed at n": curve.failed[-1] / curve.trials,
        "enough, of n": curve.sufficient,
        "printed n": printed_size(instance),
        "failed there": curve.failed_as_printed / curve.trials,
        "loss / eps": loss / float(instance.epsilon),
        "holds": lucky > CHANCE
        and is_proved_size(curve.n, instance.family.size, instance.alpha, instance.epsilon)
        and curve.sufficient is not None
        and curve.failed_as_printed <= BETA * curve.trials
        and loss <= instance.epsilon * (1 + _FLOATS)
        and close(loss, claimed, 1e-6)
        and curve.choices_agree
        and rate_exceeded(curve.failed[0], curve.trials, float(BETA)),
    }


def claimed_loss(mechanism: str, epsilon: float) -> float:
    """Compute the loss on three examples of one bit: eps with permute-and-flip."""
    # With the exponential mechanism the two parities' scores differ by -3 .. 3, one example moves
    # that by 2, and the better of them is chosen with 1 / (1 + e^(-eps difference / 2)); the ratio
    # is greatest from -3 to -1.
    if mechanism == "permute-and-flip":
        return epsilon
    return log1p(exp(1.5 * epsilon)) - log1p(exp(0.5 * epsilon))


def choices_agree(name: str, mechanism: Exponential | PermuteAndFlip, words: SeededWords) -> bool:
    """Return whether the better of two candidates is chosen as often as the mechanism claims."""
    # The scores differ by g = 2/eps, so that the worse one's coin has c = 1/e: the better one has
    # 1 / (1 + c) by the exponential mechanism, 1 - c/2 by permute-and-flip.
    gap = max(round(2 / mechanism.epsilon), 1)
    coin = exp(-float(mechanism.epsilon) * gap / 2)
    rate = 1 / (1 + coin) if name == "exponential" else 1 - coin / 2
    scores = ScoredCandidates(np.array([0, -gap]))
    better = sum(mechanism.choose(scores, words) == 0 for _ in range(_CHOICES))
    return rate_agrees(better, _CHOICES, rate)


def _cube(d: int) -> NDArray[np.int64]:
    """Return the 2^d points, in the order of their numbers; shape (2^d, d)."""
    return np.arange(1 << d)[:, None] >> np.arange(d)[::-1] & 1


def _draw(figure: Any, curves: Sequence[ErrorCurve]) -> None:
    """Draw failures over the part of n, one panel per kind of labels."""
    figure.set_size_inches(9.5, 3.9)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, labels in zip(panels, ("realizable", "noisy"), strict=True):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        shown = [curve for curve in curves if curve.instance.labels == labels]
        for place, curve in enumerate(shown):
            instance, style = curve.instance, "-" if curve.mechanism == "exponential" else "--"
            axes.plot(
                FRACTIONS,
                [failed / curve.trials for failed in curve.failed],
                style,
                marker="o",
                markersize=3,
                linewidth=1.2,
                color=(_ACCENT, "#c77d0a", _INK, "#7a3e9d")[place // 2],
                label=f"|H| = {instance.family.size}, α = {float(instance.alpha):g},"
                f" ε = {float(instance.epsilon):g}"
                if style == "-"
                else None,
            )
        axes.axhline(float(BETA), color=_QUIET, linewidth=1)
        axes.set_title(f"{labels} labels", loc="left", fontsize=11, color=_INK)
        axes.set_xlabel("part of the proved n")
        axes.grid(axis="y", color=_QUIET, alpha=0.3)
        axes.legend(
            frameon=False,
            fontsize=8,
            title="solid: exponential, dashed: permute-and-flip; grey: β",
            title_fontsize=8,
        )
    panels[0].set_ylabel("share of failures")
    figure.tight_layout()
