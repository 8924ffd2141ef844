"""KLNRS08, remark after Theorem 3.7: the VC dimension does not bound a private learner's examples.

Cuts of a line (VC dimension 1) and intervals (2), over |X| points. A hypothesis other than the
target errs on one point or more of mass 1.01 alpha, next to the target's ends, so only the target
is good. There are |X| or |X|^2 others, and each of their errors is found out by the same examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, comb, exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import least_whole
from askance_papers.curator.mechanisms import Exponential, ScoredCandidates, sample_size
from askance_papers.reproduce.checks import events_agree, rate_exceeded
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.klnrs08.theorem_3_7 import is_proved_size
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, legend_beside, logarithmic, plain
from askance_simulation.randomness import Seed, SeededWords

NAME = "remark-3.7"
ALPHA, BETA, EPSILON = Fraction(1, 10), Fraction(1, 20), Fraction(1, 2)
MASS = float(ALPHA) * 1.01  # of each point on which some hypothesis errs alone
SMALL = 6  # points on which the VC dimension is found by going through all subsets

_REPLICATES = 300  # data sets over which the law of a choice is averaged
_NEAR = 0.25  # how far the measured growth may be from the law's, relatively

Points = NDArray[np.int64]
Labels = NDArray[np.uint8]
"""Shape (N, hypotheses): a row has the labels of one point, so that rows are read together."""


@dataclass(frozen=True, slots=True)
class LineClass:
    """A class of sets on a line of points 0 .. N - 1.

    Args:
        behaviours: N to the different labellings, values {0, 1}.
        target: N and a generator to the number of a target and the points next to its ends.
    """

    name: str
    dimension: int
    behaviours: Callable[[int], Labels]
    target: Callable[[int, np.random.Generator], tuple[int, Points]]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Data sets of a size, and what they lead to.

    Args:
        law: mean probability that the mechanism chooses another hypothesis than the target.
        failed: data sets on which it did, when run.
        agrees: whether `failed` is possible for those probabilities, from both sides.
        by_hand: data sets on which the least number of mistakes is not the target's alone.
    """

    law: float
    failed: int
    agrees: bool
    by_hand: int


def cut_labels(points: int) -> Labels:
    """Return the labellings [x >= t], t = 0 .. N."""
    return (np.arange(points)[:, None] >= np.arange(points + 1)).astype(np.uint8)


def cut_target(points: int, rng: np.random.Generator) -> tuple[int, Points]:
    """Draw a cut with a point on either side."""
    cut = int(rng.integers(1, points))
    return cut, np.array([cut - 1, cut])


def interval_labels(points: int) -> Labels:
    """Return the labelling 0 and those of [a, b), 0 <= a < b <= N."""
    ends = np.array([(0, 0), *combinations(range(points + 1), 2)])
    x = np.arange(points)[:, None]
    return ((x >= ends[:, 0]) & (x < ends[:, 1])).astype(np.uint8)


def interval_target(points: int, rng: np.random.Generator) -> tuple[int, Points]:
    """Draw an interval of one point: of the others nearly N^2 / 2 err on that point."""
    start = int(rng.integers(1, points - 1))
    before = sum(points - a for a in range(start))
    return 1 + before, np.array([start - 1, start, start + 1])


CLASSES = (
    LineClass("cuts", 1, cut_labels, cut_target, (16, 256, 4096)),
    LineClass("intervals", 2, interval_labels, interval_target, (16, 64, 256)),
)


def reproduce(setting: Setting) -> Reproduction:
    """Find the least number of examples for each domain, and hold both learners against it."""
    trials = 200 if setting.quick else 1000
    rows: list[Row] = []
    for line in CLASSES:
        sizes = line.sizes[::2] if setting.quick else line.sizes
        rows += grown(line, sizes, trials, setting.seed / NAME / line.name)
        setting.progress(line.name)
    return Reproduction(
        name=NAME,
        source="KLNRS08, remark after Theorem 3.7",
        statement=(
            "Without privacy the examples that suffice are bounded by the VC dimension; Theorem 3.7"
            " has no private analogue of that bound. Blum, Ligett and Roth's result gives one."
        ),
        differs_from_print=(
            "The analogue needs the size of the domain: by Sauer's lemma a class of VC dimension D"
            " has at most (e |X| / D)^D behaviours on X, so Theorem 3.7 takes (D ln(e |X| / D) +"
            " ln(2/beta)) max{6/(eps alpha), 4.5/alpha^2} examples. The factor ln |X| is not an"
            " artefact of this proof: no pure private learner of cuts does without it (Feldman and"
            " Xiao 2014)."
        ),
        rows=tuple(rows),
        notes=(
            f"alpha = {float(ALPHA):g}, beta = {float(BETA):g}, eps = {float(EPSILON):g}. 'VC' is"
            f" found by going through all subsets of {SMALL} points; both classes have exactly as"
            " many behaviours as Sauer's lemma allows.",
            "'least n' is where the exponential mechanism fails with beta, by its law over data"
            " sets; 'failed' runs it there, and has to be possible for its law, from both"
            " sides (1e-6). From the smallest domain to the largest 'least n' grows by ln|H| /"
            f" (1.01 alpha (1 - e^(-eps/2))), to {_NEAR:.0%}.",
            "'first n' is the least n of the smallest domain. There the learner that counts"
            " mistakes without privacy fails with at most beta on every domain, and the private"
            " one fails with more than beta on larger ones.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def grown(line: LineClass, sizes: Sequence[int], trials: int, seed: Seed) -> list[Row]:
    """Measure a class on growing domains."""
    rows: list[dict[str, Any]] = []
    first = 0
    for points in sizes:
        labels = line.behaviours(points)
        place = seed / points
        least = least_examples(line, labels, place / "least")
        first = first or least
        at_least = sampled(line, labels, least, trials, place / "run")
        at_first = sampled(line, labels, first, trials, place / "first")
        rows.append(_row(line, labels, least, first, at_least, at_first, trials))
    for row in rows[1:]:
        growth = row["least n"] - rows[0]["least n"]
        expected = (log(row["|H|"]) - log(rows[0]["|H|"])) / rate()
        row["holds"] = row["holds"] and abs(growth - expected) <= _NEAR * expected
    return list(rows)


def rate() -> float:
    """Compute by how much an example lowers the logarithm of a bad hypothesis's weight."""
    return MASS * (1 - exp(-float(EPSILON) / 2))


def vc_dimension(labels: Labels) -> int:
    """Find the size of the largest set of points that is shattered, by going through all."""
    found = 0
    for size in range(1, len(labels) + 1):
        if not any(
            different(labels[list(chosen)]) == 1 << size
            for chosen in combinations(range(len(labels)), size)
        ):
            break
        found = size
    return found


def different(labels: Labels) -> int:
    """Count the different labellings."""
    return len({column.tobytes() for column in np.packbits(labels, axis=0).T})


def least_examples(line: LineClass, labels: Labels, seed: Seed) -> int:
    """Find about the least number of examples at which the law's failure is beta."""
    low, high = 1, 1
    while law_at(line, labels, high, seed) > BETA:
        low, high = high, 2 * high
    return least_whole(lambda n: law_at(line, labels, n, seed) <= BETA, low, high, part=100)


def law_at(line: LineClass, labels: Labels, examples: int, seed: Seed) -> float:
    """Average the mechanism's probability of failure over data sets."""
    rng = generator(seed)
    return float(np.mean([counted(line, labels, examples, rng).law for _ in range(_REPLICATES)]))


def sampled(line: LineClass, labels: Labels, examples: int, trials: int, seed: Seed) -> Sampled:
    """Run the mechanism on data sets of a size."""
    rng, words = generator(seed), SeededWords(seed / "choices")
    mechanism = Exponential.of(EPSILON)
    failed = by_hand = 0
    chances = []
    for _ in range(trials):
        data = counted(line, labels, examples, rng)
        mistakes = data.mistakes[data.patterns]
        chances.append(data.law)
        failed += mechanism.choose(ScoredCandidates(-mistakes), words) != data.target
        by_hand += int((mistakes == mistakes.min()).sum()) != 1 or mistakes[data.target] != 0
    return Sampled(float(np.mean(chances)), failed, events_agree(failed, chances), by_hand)


@dataclass(frozen=True, slots=True)
class Counted:
    """A data set, by the mistakes that it counts against hypotheses.

    Args:
        target: number of the hypothesis that labels it.
        patterns: shape (hypotheses,): the points with mass on which each errs, as bits.
        mistakes: shape (patterns,): examples on those points.
    """

    target: int
    patterns: NDArray[np.uint8]
    mistakes: NDArray[np.int64]

    @property
    def law(self) -> float:
        """Probability that the exponential mechanism chooses another hypothesis."""
        weights = np.exp(-float(EPSILON) / 2 * (self.mistakes - self.mistakes.min()))
        total = weights @ np.bincount(self.patterns, minlength=len(weights))
        return float(1 - weights[self.patterns[self.target]] / total)


def counted(line: LineClass, labels: Labels, examples: int, rng: np.random.Generator) -> Counted:
    """Draw a target and its examples."""
    target, points = line.target(len(labels), rng)
    counts = rng.multinomial(examples, [*[MASS] * len(points), 1 - MASS * len(points)])[:-1]
    patterns = np.zeros(labels.shape[1], np.uint8)
    for place, point in enumerate(points.tolist()):
        patterns |= (labels[point] ^ labels[point, target]) << place
    subsets = np.arange(1 << len(points))[:, None] >> np.arange(len(points)) & 1
    return Counted(target, patterns, subsets @ counts)


def sauer(points: int, dimension: int) -> int:
    """Compute the most behaviours of a class of this VC dimension."""
    return sum(comb(points, size) for size in range(dimension + 1))


def size_by_dimension(points: int, dimension: int) -> int:
    """Compute the examples that suffice, by the VC dimension and the size of the domain."""
    rate = max(6 / (EPSILON * ALPHA), Fraction(9, 2) / ALPHA**2)
    logarithm = dimension * log(exp(1) * points / dimension) + log(2 / BETA)
    return ceil(logarithm * float(rate))


def _row(
    line: LineClass,
    labels: Labels,
    least: int,
    first: int,
    at_least: Sampled,
    at_first: Sampled,
    trials: int,
) -> dict[str, Any]:
    points, hypotheses = labels.shape
    small = vc_dimension(line.behaviours(SMALL))
    proved = sample_size(hypotheses, alpha=ALPHA, beta=BETA, epsilon=EPSILON)
    by_dimension = size_by_dimension(points, line.dimension)
    beta = float(BETA)
    larger = least > first
    return {
        "class": line.name,
        "VC": small,
        "|X|": points,
        "|H|": hypotheses,
        "n by VC and |X|": by_dimension,
        "n by |H|": proved,
        "least n": least,
        "failed": at_least.failed / trials,
        "law": at_least.law,
        "first n": first,
        "failed there": at_first.failed / trials,
        "without privacy": at_first.by_hand / trials,
        "trials": trials,
        "holds": small == line.dimension
        and different(labels) == hypotheses == sauer(points, line.dimension)
        and least <= proved <= by_dimension
        and is_proved_size(proved, hypotheses, ALPHA, EPSILON)
        and at_least.agrees
        and at_first.agrees
        and not rate_exceeded(at_first.by_hand, trials, beta)
        and rate_exceeded(at_first.failed, trials, beta) == larger,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    title = f"Examples for failures of {float(BETA):.0%}, α = {float(ALPHA)}, ε = {float(EPSILON)}"
    plain(axes, title, "points |X| of the domain", "examples")
    for line, color in zip(CLASSES, (ACCENT, INK), strict=True):
        shown = [row for row in rows if row["class"] == line.name]
        points = [row["|X|"] for row in shown]
        axes.plot(
            points,
            [row["least n"] for row in shown],
            "o-",
            color=color,
            label=f"{line.name}, measured",
        )
        proved = [row["n by |H|"] for row in shown]
        axes.plot(points, proved, "s--", color=color, label=f"{line.name}, proved")
    enough = log(2 / float(BETA)) / MASS
    axes.axhline(enough, color=BAD, lw=1.2, label="cuts, enough without privacy")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    logarithmic(axes)
    legend_beside(axes)
