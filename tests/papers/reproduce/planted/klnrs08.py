"""Defects for the reproductions of KLNRS08, *What Can We Learn Privately*."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from askance_papers.curator import parity
from askance_papers.curator.gf2 import solve
from tests.papers.reproduce.planted.defect import (
    CURATOR,
    ORACLES,
    QUIET_TALLIES,
    REDUCTIONS,
    REPRODUCE,
    Defect,
    Defects,
    Wrong,
    other_epsilon,
    times,
)


class _Scaled:
    """numpy's generator, whose Gamma variables are multiplied."""

    def __init__(self, honest: np.random.Generator, factor: float) -> None:
        self._honest, self._factor = honest, factor

    def gamma(self, *given: Any, **named: Any) -> Any:
        return self._honest.gamma(*given, **named) * self._factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


def _gamma_times(factor: float) -> Wrong:
    return lambda honest: lambda seed: _Scaled(honest(seed), factor)


def _independent_reports(_: Any) -> Any:
    """Estimate a product of likelihoods by the product of their expectations."""
    products = import_module(f"{REDUCTIONS}.products")
    batch = import_module("askance_aggregator.learners").Batch

    def estimate(asked: Any, relative: Fraction, oracle: Any) -> Fraction:
        found = Fraction(1)
        for factor in asked.factors:
            own = products.product_of((factor,))
            question = own.question(relative)
            (answer,) = oracle.answer(batch([question]))
            found *= own.estimate(answer.value, question)
        return found

    return estimate


def _twenty_times_as_wide(honest: Any) -> Any:
    """Widen a relative error, to a fifth at most: beyond, adversaries leave no law at all."""
    return lambda asked, relative, oracle: honest(asked, min(20 * relative, Fraction(1, 5)), oracle)


def _kept_more_often(honest: Any) -> Any:
    def happens(words: Any, probability: Fraction, count: int) -> Any:
        often = probability if probability == Fraction(1, 2) else probability * Fraction(13, 10)
        return honest(words, often, count)

    return happens


def _first_record_for_all(honest: Any) -> Any:
    def run(algorithm: Any, people: Any, words: Any) -> Any:
        return honest(algorithm, people.take(np.zeros(people.rows, dtype=np.int64)), words)

    return run


def _forty_betas(honest: Any) -> Any:
    return lambda batch, nano, beta: honest(batch, nano, min(40 * beta, 0.5))


def _solved_hastily(honest: Any) -> Any:
    """Solve a system; where one unknown is left, set it to 0."""

    def solved(rows: Any, d: int) -> Any:
        found = honest(rows, d)
        if found is None or found.rank != 1:
            return found
        zero = np.array([[1 << 1 - int(found.pivots[0])]], dtype=np.uint64)
        return honest(np.concatenate([rows, zero]), d)

    return solved


def _law_of_hasty_solutions(honest: Any) -> Any:
    """Enumerate the law by `_solved_hastily`; the learner, in the same module, solves honestly."""

    def law(*given: Any) -> Any:
        with mock.patch.object(parity, "solve", _solved_hastily(solve)):
            return honest(*given)

    return law


def _smallest_domain(honest: Any) -> Any:
    """Find the examples that suffice for the smallest domain of a class."""
    return lambda line, labels, seed: honest(line, line.behaviours(line.sizes[0]), seed)


def _chosen_by_training(honest: Any) -> Any:
    return lambda mechanism, training, test, words: honest(mechanism, training, training, words)


def _chosen_by_sums(honest: Any) -> Any:
    """Divide epsilon by the number of candidates."""
    return lambda epsilon, candidates, *others: honest(epsilon / candidates, candidates, *others)


def _unbent(honest: Any) -> Any:
    """Ask about one parity per query, where the bound allows four to the power of k."""
    return lambda schema, case, mask: honest(schema, replace(case, k=0), mask)


def _tenth_of_the_users(honest: Any) -> Any:
    corollary = import_module(f"{REPRODUCE}.klnrs08.corollary_4_6")
    return lambda world, case: tuple(
        corollary._shrunk(planned, Fraction(1, 10)) for planned in honest(world, case)
    )


_WIDE_TOLERANCE = Defect(
    "a tolerance twenty times as wide",
    f"{REDUCTIONS}.laws:_estimate",
    _twenty_times_as_wide,
)
_CHOICE_AT_TWICE = Defect(
    "a choice at twice epsilon",
    f"{CURATOR}.mechanisms.selection:Exponential.choose",
    other_epsilon(Fraction(2)),
)
_COROLLARY = f"{REPRODUCE}.klnrs08.corollary_4_6"
_VALIDATED = f"{CURATOR}.mechanisms.validated_parity"

DEFECTS: Defects = {
    "corollary-4.6": (
        Defect(
            "an oracle that always answers the truth",
            f"{_COROLLARY}:LazyOracle",
            lambda honest: lambda truth, default: truth,
        ),
        Defect(
            "an oracle that never answers the truth",
            f"{_COROLLARY}:LazyOracle",
            lambda honest: lambda truth, default: default,
        ),
        Defect("queries that are not bent", f"{_COROLLARY}:bent_query", _unbent),
        Defect("a tenth of the users", f"{_COROLLARY}:planned_rounds", _tenth_of_the_users),
        Defect(
            "a curator that keeps a tenth less often",
            f"{REPRODUCE}.klnrs08.corollary_4_6:sharper_keeping",
            times(Fraction(9, 10)),
        ),
    ),
    "remark-3.7": (
        _CHOICE_AT_TWICE,
        Defect(
            "a choice at half of epsilon",
            f"{CURATOR}.mechanisms.selection:Exponential.choose",
            other_epsilon(Fraction(1, 2)),
        ),
        Defect(
            "as many examples for every domain",
            f"{REPRODUCE}.klnrs08.remark_3_7:least_examples",
            _smallest_domain,
        ),
    ),
    "remark-3.8": (
        Defect(
            "a choice by the training part",
            f"{_VALIDATED}:ValidatedParity.release",
            _chosen_by_training,
        ),
        Defect(
            "a choice that reads no test set",
            f"{_VALIDATED}:mistakes",
            lambda honest: lambda parity, examples: 0,
        ),
        Defect("a test set for sums", f"{_VALIDATED}:choice_examples", _chosen_by_sums),
    ),
    "theorem-5.1": (
        Defect(
            "an oracle that omits less than tau/2 only",
            f"{ORACLES}.adversarial:_within",
            lambda honest: lambda said, true, tau: honest(said, true, tau / 2),
        ),
        Defect(
            "an oracle that omits everything",
            f"{ORACLES}.adversarial:_within",
            lambda honest: lambda said, true, tau: honest(said, true, tau * 1000),
        ),
    ),
    "masked-parity": (
        QUIET_TALLIES,
        Defect(
            "a plan for forty times beta",
            f"{REPRODUCE}.klnrs08.masked_parity:plan_batch",
            _forty_betas,
        ),
    ),
    "lemma-4.2": (
        Defect(
            "Laplace variables a fifth larger",
            f"{REPRODUCE}.klnrs08.lemma_4_2:generator",
            _gamma_times(1.2),
        ),
        Defect(
            "the printed t for the best one",
            f"{REPRODUCE}.klnrs08.lemma_4_2:best_t",
            lambda honest: lambda tau: tau,
        ),
    ),
    "lemma-4.3": (
        QUIET_TALLIES,
        Defect(
            "half of the Laplace noise",
            f"{REPRODUCE}.klnrs08.lemma_4_3:generator",
            _gamma_times(0.5),
        ),
    ),
    "lemma-4.4": (
        Defect(
            "half as many candidates",
            f"{REDUCTIONS}.laws:candidates",
            lambda honest: lambda call, each: honest(call, each) // 2,
        ),
        _WIDE_TOLERANCE,
    ),
    "lemma-4.5": (
        Defect(
            "a user's reports taken for independent",
            f"{REDUCTIONS}.laws:_estimate",
            _independent_reports,
        ),
        _WIDE_TOLERANCE,
    ),
    "theorem-4.8": (
        Defect(
            "every candidate accepted",
            f"{REDUCTIONS}.back:acceptance",
            lambda honest: lambda estimate, asked: Fraction(1),
        ),
        Defect(
            "every device answers from one record",
            f"{REPRODUCE}.klnrs08.theorem_4_8:run_locally",
            _first_record_for_all,
        ),
    ),
    "theorem-3.7": (
        _CHOICE_AT_TWICE,
        Defect(
            "a law at half of epsilon",
            f"{CURATOR}.mechanisms.selection:Exponential.probabilities",
            lambda honest: (
                lambda mechanism, scores: honest(
                    replace(mechanism, epsilon=mechanism.epsilon / 2), scores
                )
            ),
        ),
    ),
    "parity": (
        Defect(
            "examples kept three tenths more often",
            f"{CURATOR}.parity:happens",
            _kept_more_often,
        ),
        Defect(
            "sixty examples whatever d",
            f"{REPRODUCE}.klnrs08.parity:examples_needed",
            lambda honest: lambda *given: 60,
        ),
        Defect(
            "claims on runs that keep a hundredth more often",
            f"{REPRODUCE}.klnrs08.parity:even_keeping",
            times(Fraction(101, 100)),
        ),
        Defect(
            "claims on an example that fixes two unknowns",
            f"{REPRODUCE}.klnrs08.parity:law",
            _law_of_hasty_solutions,
        ),
    ),
}
