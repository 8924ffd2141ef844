"""Defects that are planted in the reproductions' mechanisms, and the verdicts that they turn.

Run as a program, it prints the table of docs/papers.md: reproduction, defect, verdict.

    python -m tests.simulation.reproduce.planted_defects [NAME ...]

A new reproduction adds two defects or more to `DEFECTS` under its name. A defect names one
attribute of a module or class ("package.module:Class.attribute") and a function that makes the
wrong one of the right one. It is in the mechanism that the reproduction is about, not in a check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np

from askance_simulation.randomness.seeds import Seed
from askance_simulation.reproduce import REPRODUCTIONS, Effort, Setting, find

SEED = 1
_CURATOR = "askance_aggregator.curator"
_ORACLES = "askance_aggregator.oracles"
_REPRODUCE = "askance_simulation.reproduce"
Wrong = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Defect:
    """Wrong version of a mechanism.

    Args:
      summary: what is wrong with it, for the table.
      place: "package.module:attribute" or "package.module:Class.attribute".
      wrong: the planted attribute, made of the honest one.
    """

    summary: str
    place: str
    wrong: Wrong

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the attribute while the context lasts."""
        module, _, path = self.place.partition(":")
        owner: Any = import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        with mock.patch.object(owner, name, self.wrong(getattr(owner, name))):
            yield


def holds(name: str, defect: Defect | None = None) -> bool:
    """Return the verdict of a reproduction at its quick setting, with a defect or without."""
    setting = Setting(Effort.QUICK, Seed.of(SEED))
    if defect is None:
        return find(name).reproduce(setting).holds
    with defect.planted():
        return find(name).reproduce(setting).holds


def _times(factor: float) -> Wrong:
    """Multiply the result of a function."""
    return lambda honest: lambda *given, **named: honest(*given, **named) * factor


def _property_times(factor: Fraction) -> Wrong:
    """Multiply a property."""
    return lambda honest: property(lambda owner: honest.fget(owner) * factor)


def _second_argument_times(factor: Fraction) -> Wrong:
    """Multiply the second argument: the scale or variance of a sampler."""
    return lambda honest: lambda one, two, *others: honest(one, two * factor, *others)


def _quieter(honest: Any) -> Any:
    """Halve the noise of a tally: the mean of four, whose sum is kept where all have the same."""

    def tally(*given: Any) -> Any:
        four = [honest(*given) for _ in range(4)]
        mean = sum(four) // 4
        sums = [each.sum(axis=1) for each in four]
        if all((each == sums[0]).all() for each in sums):
            mean[:, -1] += sums[0] - mean.sum(axis=1)
        return mean

    return tally


def _quarter_of_the_variance(honest: Any) -> Any:
    """Move every mean half way to one half of its range's upper end."""

    def expectations(question: Any, rows: Any, *others: Any) -> Any:
        middle = sum(question.bounds) / 2
        return [middle + (value - middle) / 2 for value in honest(question, rows, *others)]

    return expectations


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


def _one_minus_eta(honest: Any) -> Any:
    """Divide by 1 - eta instead of 1 - 2 eta."""

    def answer(oracle: Any, question: Any) -> Any:
        found, eta = honest(oracle, question), float(oracle._eta)
        factor = (1 - 2 * eta) / (1 - eta)
        return replace(found, values=tuple(value * factor for value in found.values))

    return answer


def _independent_reports(_: Any) -> Any:
    """Estimate a product of likelihoods by the product of their expectations."""
    products = import_module(f"{_ORACLES}.reductions.products")
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


def _other_epsilon(factor: int) -> Wrong:
    """Call a mechanism's method as if epsilon were a multiple of the stated one."""
    return lambda honest: (
        lambda mechanism, *given: honest(
            replace(mechanism, epsilon=mechanism.epsilon * factor), *given
        )
    )


def _noise_epsilon_doubled(honest: Any) -> Any:
    def calibrate(*given: Any) -> Any:
        found = honest(*given)
        return replace(found, noise_epsilon=2 * found.noise_epsilon)

    return calibrate


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


_QUIET_TALLIES = Defect(
    "half of the devices' noise", f"{_REPRODUCE}.counting:sample_tally", _quieter
)
_HALF_SENSITIVITY = Defect(
    "half of the sensitivity",
    f"{_CURATOR}.mechanisms.laplace:Laplace.scale",
    _property_times(Fraction(1, 2)),
)
_LONG_DRAWS = Defect(
    "Laplace draws twice as large",
    f"{_CURATOR}.mechanisms.laplace:discrete_laplace",
    _second_argument_times(Fraction(2)),
)
_WIDE_TOLERANCE = Defect(
    "a tolerance twenty times as wide",
    f"{_ORACLES}.reductions.laws:_estimate",
    _twenty_times_as_wide,
)
_LOGISTIC = (
    Defect(
        "half of the output noise",
        f"{_CURATOR}.logistic.mechanisms:OutputPerturbation.scale",
        _times(0.5),
    ),
    Defect(
        "half of the objective noise",
        f"{_CURATOR}.logistic.mechanisms:calibrate",
        _noise_epsilon_doubled,
    ),
)

DEFECTS: Mapping[str, Sequence[Defect]] = MappingProxyType(
    {
        "theorem-5": (
            _QUIET_TALLIES,
            Defect(
                "a plan for beta = .95",
                f"{_REPRODUCE}.notes.theorem_5:plan",
                lambda honest: lambda learner, nano, _: honest(learner, nano, 0.95),
            ),
        ),
        "theorem-5.1": (
            Defect(
                "an oracle that omits less than tau/2 only",
                f"{_ORACLES}.adversarial:_within",
                lambda honest: lambda said, true, tau: honest(said, true, tau / 2),
            ),
            Defect(
                "an oracle that omits everything",
                f"{_ORACLES}.adversarial:_within",
                lambda honest: lambda said, true, tau: honest(said, true, tau * 1000),
            ),
        ),
        "theorem-6": (
            Defect(
                "a quarter of the sample's variance",
                f"{_ORACLES}.empirical:expectations",
                _quarter_of_the_variance,
            ),
            Defect("half as many examples", f"{_ORACLES}.empirical:log", _times(0.5)),
        ),
        "theorem-7": (_HALF_SENSITIVITY, _LONG_DRAWS),
        "theorem-8": (
            Defect(
                "1 - eta for 1 - 2 eta",
                f"{_ORACLES}.noise:ClassificationNoiseOracle._answer",
                _one_minus_eta,
            ),
            Defect("half as many examples", f"{_ORACLES}.noise:log", _times(0.5)),
        ),
        "masked-parity": (
            _QUIET_TALLIES,
            Defect(
                "a plan for forty times beta",
                f"{_REPRODUCE}.klnrs08.masked_parity:plan_batch",
                _forty_betas,
            ),
        ),
        "lemma-4.2": (
            Defect(
                "Laplace variables a fifth larger",
                f"{_REPRODUCE}.klnrs08.lemma_4_2:generator",
                _gamma_times(1.2),
            ),
            Defect(
                "the printed t for the best one",
                f"{_REPRODUCE}.klnrs08.lemma_4_2:best_t",
                lambda honest: lambda tau: tau,
            ),
        ),
        "lemma-4.3": (
            _QUIET_TALLIES,
            Defect(
                "half of the Laplace noise",
                f"{_REPRODUCE}.klnrs08.lemma_4_3:generator",
                _gamma_times(0.5),
            ),
        ),
        "lemma-4.4": (
            Defect(
                "half as many candidates",
                f"{_ORACLES}.reductions.laws:candidates",
                lambda honest: lambda call, each: honest(call, each) // 2,
            ),
            _WIDE_TOLERANCE,
        ),
        "lemma-4.5": (
            Defect(
                "a user's reports taken for independent",
                f"{_ORACLES}.reductions.laws:_estimate",
                _independent_reports,
            ),
            _WIDE_TOLERANCE,
        ),
        "theorem-4.8": (
            Defect(
                "every candidate accepted",
                f"{_ORACLES}.reductions.back:acceptance",
                lambda honest: lambda estimate, asked: Fraction(1),
            ),
            Defect(
                "every device answers from one record",
                f"{_REPRODUCE}.klnrs08.theorem_4_8:run_locally",
                _first_record_for_all,
            ),
        ),
        "local-vs-central": (_HALF_SENSITIVITY, _QUIET_TALLIES),
        "theorem-3.7": (
            Defect(
                "a choice at twice epsilon",
                f"{_CURATOR}.mechanisms.selection:Exponential.choose",
                _other_epsilon(2),
            ),
            Defect(
                "a law at half of epsilon",
                f"{_CURATOR}.mechanisms.selection:Exponential.probabilities",
                lambda honest: (
                    lambda mechanism, scores: honest(
                        replace(mechanism, epsilon=mechanism.epsilon / 2), scores
                    )
                ),
            ),
        ),
        "composition": (
            Defect(
                "an optimum lower by one in ten thousand",
                "askance_aggregator.composition:Optimal.epsilon",
                _times(1 - 1e-4),
            ),
            Defect(
                "zCDP a tenth too high",
                "askance_aggregator.composition:ZeroConcentrated.epsilon",
                _times(1.1),
            ),
        ),
        "parity": (
            Defect(
                "examples kept three tenths more often",
                f"{_CURATOR}.parity.learner:happens",
                _kept_more_often,
            ),
            Defect(
                "sixty examples whatever d",
                f"{_REPRODUCE}.klnrs08.parity:examples_needed",
                lambda honest: lambda *given: 60,
            ),
        ),
        "boosting": (
            Defect(
                "a sixteenth of the Gaussian variance in boosting",
                f"{_CURATOR}.synopsis.answering:discrete_gaussian",
                _second_argument_times(Fraction(1, 16)),
            ),
            Defect(
                "half of the noise of Laplace answers",
                f"{_CURATOR}.synopsis.independent:discrete_laplace",
                _second_argument_times(Fraction(1, 2)),
            ),
            Defect(
                "half of MWEM's noise",
                f"{_CURATOR}.synopsis.mwem:discrete_laplace",
                _second_argument_times(Fraction(1, 2)),
            ),
        ),
        "logistic-figure-1": _LOGISTIC,
        "logistic-figure-2": _LOGISTIC,
        "logistic-figure-3": _LOGISTIC,
        "logistic-figure-4": _LOGISTIC,
    }
)

NOT_COVERED: tuple[str, ...] = ()
"""Reproductions that have no planted defects yet; none may be added to it without a reason."""


def main(names: Sequence[str]) -> None:
    """Print the table, all rows or those of some reproductions."""
    print("| reproduction | defect planted | verdict |\n|---|---|---|")
    for name in names or REPRODUCTIONS:
        for defect in (None, *DEFECTS[name]):
            summary = "none" if defect is None else defect.summary
            verdict = "yes" if holds(name, defect) else "no"
            print(f"| `{name}` | {summary} | {verdict} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
