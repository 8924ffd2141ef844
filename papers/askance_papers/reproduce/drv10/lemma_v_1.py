"""DRV10, Lemma V.1: a synopsis that fits sampled queries fits most queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log, log2

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator.synopsis import Universe, queries_for, random_queries
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_papers.curator.synopsis.small_databases import every_database
from askance_papers.reproduce.checks import counts_agree, rate_exceeded
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting, dot_plot
from askance_simulation.randomness import SeededWords

NAME = "lemma-v.1"
BETA, FEWER = 0.1, 0.7
ADVANTAGES = (1 / 3, 0.0, 0.45)
LEAST = 0.4
"""Share of beta that the worst synopses fail with, at least: chances add up but for overlaps."""
_QUERIES = 1200
_RATE = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class FittedQueries:
    """Synopses and the queries that each of them fits.

    Args:
      fits: shape (synopses, queries).
      scores: queries are drawn with probability proportional to e^(score/2); shape (queries,).
      worst: whether as many synopses as possible are just below 1/2 + eta.
    """

    name: str
    fits: NDArray[np.bool_]
    scores: NDArray[np.int64]
    advantage: float
    worst: bool

    def distribution(self) -> NDArray[np.float64]:
        """Compute the law of a drawn query, shape (queries,)."""
        weights = np.exp(float(_RATE) * self.scores)
        return np.asarray(weights / weights.sum())


def reproduce(setting: Setting) -> Reproduction:
    """Draw queries, and count how often a synopsis fits all of them but too few others."""
    rows: list[Row] = []
    for advantage in ADVANTAGES[:1] if setting.quick else ADVANTAGES:
        for case in cases(advantage, setting):
            rows += measured(case, setting)
            setting.progress(f"{case.name}, eta = {advantage:.3g}")
    return Reproduction(
        name=NAME,
        source="DRV10, Lemma V.1",
        statement=(
            "Of 2 (ln(1/beta) + m)/(1 - 2 eta) queries drawn from any distribution: except with"
            " probability beta, every synopsis of m bits that is within lambda on all of them is"
            " within lambda on queries of probability 1/2 + eta or more."
        ),
        differs_from_print=(
            "True for synopses of exactly m bits, with natural logarithms. (Of at most m bits there"
            " are 2^(m+1) - 1, which is too many for m = 1 and eta near 1/2 only.) Fewer suffice:"
            " (ln(1/beta) + m ln 2)/ln(1/(1/2 + eta))."
        ),
        rows=tuple(rows),
        also=all(row["drawn"] for row in rows),
        notes=(
            f"beta = {BETA:g}. 'worst' are synopses that each fit random queries of probability"
            " just below 1/2 + eta; 'databases' are all small databases, by whether they are within"
            " lambda of the true answers.",
            f"A row holds if failures are possible for a rate of beta; of the worst synopses at"
            f" least {LEAST:g} beta must fail at the lesser number, and more than beta at"
            f" {FEWER:g} of it. 'drawn': as many queries of each weight as the distribution has"
            " (1e-6).",
        ),
        draw=lambda figure: dot_plot(
            figure,
            rows,
            lambda row: f"{row['synopses']}, eta = {row['eta']:.2g}, k = {row['k']}",
            {"beta": "beta", "failed": "failed"},
            "share of trials",
        ),
    )


def cases(advantage: float, setting: Setting) -> tuple[FittedQueries, ...]:
    """Make the worst synopses, and all databases of 6 records in 4 cells."""
    rng = generator(setting.seed / NAME / f"{advantage:.3f}")
    scores = rng.integers(0, 4, _QUERIES)
    worst = FittedQueries(
        "worst", np.zeros((256, _QUERIES), np.bool_), scores, advantage, worst=True
    )
    law = worst.distribution()
    for fitted in worst.fits:
        order = rng.permutation(_QUERIES)
        below = np.cumsum(law[order]) < 0.5 + advantage
        fitted[order[below]] = True
    universe = Universe((4,))
    family = random_queries(universe, _QUERIES, 1)
    matrix = family.rows(np.arange(_QUERIES)).astype(np.float64)
    shares = every_database(4, 6) / 6
    answers, truth = shares @ matrix.T, matrix @ np.array([0.4, 0.3, 0.2, 0.1])
    databases = FittedQueries(
        "databases", np.abs(answers - truth) <= 0.15, scores, advantage, worst=False
    )
    return worst, databases


def measured(case: FittedQueries, setting: Setting) -> Iterator[Row]:
    """Generate rows: as printed, at the least number that is proved, and at fewer."""
    bits = log2(len(case.fits))
    printed = ceil(2 * (log(1 / BETA) + bits) / (1 - 2 * case.advantage))
    proved = queries_for(len(case.fits), BETA, case.advantage)
    bad = case.fits[case.fits @ case.distribution() < 0.5 + case.advantage]
    trials = 400 if setting.quick else 4000
    for name, count in (
        ("printed", printed),
        ("proved", proved),
        ("fewer", round(FEWER * proved)),
    ):
        words = SeededWords(setting.seed / NAME / f"{case.name} {case.advantage:.3f} {name}")
        drawn = exponential_draws(words, case.scores, _RATE, count * trials)
        failed = sum(
            bool(bad[:, np.unique(sample)].all(axis=1).any())
            for sample in drawn.reshape(trials, count)
        )
        yield {
            "synopses": case.name,
            "number": len(case.fits),
            "m": bits,
            "eta": case.advantage,
            "size": name,
            "k": count,
            "failed": failed / trials,
            "trials": trials,
            "beta": BETA,
            "drawn": drawn_agree(case, drawn),
            "holds": _holds(case, name, failed, trials),
        }


def drawn_agree(case: FittedQueries, drawn: NDArray[np.int64]) -> bool:
    """Return whether queries were drawn by their weights: as many of each score as expected."""
    law = np.bincount(case.scores, case.distribution())
    return counts_agree(np.bincount(case.scores[drawn], minlength=len(law)), law)


def _holds(case: FittedQueries, name: str, failed: int, trials: int) -> bool | None:
    if name == "fewer":
        return rate_exceeded(failed, trials, BETA) if case.worst else None
    if name == "proved" and case.worst and failed < LEAST * BETA * trials:
        return False
    return not rate_exceeded(failed, trials, BETA)
