"""A defect per reproduction and one more, listed by the kind of promise that each breaks.

The list was written before any of them was planted; docs/papers.md says which were found at first.
Each is what a careful programmer could have written: it keeps the size of a noise and changes its
direction, keeps a law and draws it twice, keeps every bound and doubles the users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from itertools import count
from math import ceil
from typing import Any

import numpy as np

from askance_aggregator.composition import EventCounts
from askance_aggregator.sampling import integers_below
from askance_simulation.populations.labelled_bits import Parity
from tests.papers.reproduce.planted.defect import (
    CURATOR,
    ORACLES,
    REDUCTIONS,
    REPRODUCE,
    Defect,
    Wrong,
    argument_times,
)


class Promise(StrEnum):
    """Kind of promise that a defect breaks."""

    LAW = "a noise has its law: steps, signs and directions too"
    FRESH = "every draw, every group and every sample is a fresh one"
    CHARGED = "what is drawn is what is charged"
    SIZED = "sizes are those of the proof, no fewer and no more"
    CONCEPTS = "a learner is right for every concept"
    HIDDEN = "an oracle tells no more than its tolerance"
    SIMULATED = "a simulation has the law of what it simulates"
    WEIGHED = "what is answered badly weighs more in the next round"


def _every_second_moved(honest: Any) -> Any:
    place = count()

    def draw(words: Any, scale: Any, size: int) -> Any:
        return honest(words, scale, size) + np.array([next(place) % 2 for _ in range(size)])

    return draw


def _nowhere_negative(honest: Any) -> Any:
    return lambda *given: np.abs(honest(*given))


def _along_axes(honest: Any) -> Any:
    """Turn a vector to the axis that it is nearest to."""

    def noise(*given: Any) -> Any:
        drawn = honest(*given)
        place = np.argmax(np.abs(drawn))
        return np.copysign(np.linalg.norm(drawn), drawn[place]) * np.eye(len(drawn))[place]

    return noise


def _in_a_plane(honest: Any) -> Any:
    """Turn a vector into the plane of the first two columns."""

    def noise(*given: Any) -> Any:
        drawn = honest(*given)
        flat = np.where(np.arange(len(drawn)) < 2, drawn, 0.0)
        return flat * (np.linalg.norm(drawn) / np.linalg.norm(flat))

    return noise


def _one_direction(honest: Any) -> Any:
    """Keep the first direction of each dimension for all vectors."""
    first: dict[int, Any] = {}

    def noise(words: Any, dimension: int, scale: float) -> Any:
        drawn = honest(words, dimension, scale)
        length = np.linalg.norm(drawn)
        return length * first.setdefault(dimension, drawn / length)

    return noise


def _drawn_twice(honest: Any) -> Any:
    """Use every vector for two releases, in units of their scales."""
    last: dict[int, Any] = {}

    def noise(words: Any, dimension: int, scale: float) -> Any:
        drawn = honest(words, dimension, scale) / scale
        if dimension in last:
            return scale * last.pop(dimension)
        last[dimension] = drawn
        return scale * drawn

    return noise


def _away_from_zero(honest: Any) -> Any:
    """Turn the noise that shortens a minimiser round."""

    def release(mechanism: Any, examples: Any, words: Any) -> Any:
        minimise = import_module(f"{CURATOR}.logistic.mechanisms").minimise
        least = minimise(examples, float(mechanism.regularisation), loss=mechanism.loss)
        noise = honest(mechanism, examples, words) - least
        return least + (noise if noise @ least >= 0 else -noise)

    return release


class _Normal:
    """numpy's generator, whose Gamma variables are normal ones of the same mean and variance."""

    def __init__(self, honest: np.random.Generator) -> None:
        self._honest = honest

    def gamma(self, shape: float, size: Any = None) -> Any:
        return self._honest.normal(shape, shape**0.5, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


def _in_pairs(honest: Any) -> Any:
    """Return every draw a second time, whatever the calls."""
    last: list[int] = []

    def draw(words: Any, scale: Any, size: int) -> Any:
        found = honest(words, scale, size)
        for place in range(size):
            if last:
                found[place] = last.pop()
            else:
                last.append(int(found[place]))
        return found

    return draw


def _pairs_of_a_call(honest: Any) -> Any:
    def draw(*given: Any) -> Any:
        found = honest(*given)
        found[1::2] = found[: len(found) - 1 : 2]
        return found

    return draw


def _one_group_for_all(honest: Any) -> Any:
    return lambda *given: [(answers[0],) * len(answers) for answers in honest(*given)]


def _one_sample_for_all(honest: Any) -> Any:
    def answer(oracle: Any, batch: Any) -> Any:
        answers = honest(oracle, batch)
        return (answers[0],) * len(answers)

    return answer


def _shared_coins(_: Any) -> Any:
    """Keep the same examples in all runs of a release."""
    learner = import_module(f"{CURATOR}.parity")

    def release(mechanism: Any, examples: Any, words: Any) -> Any:
        kept = learner.happens(words, mechanism.keep, len(examples))
        for _ in range(mechanism.runs):
            if not learner.happens(words, Fraction(1, 2), 1)[0]:
                solutions = learner.solve(examples.rows[kept], examples.d)
                if solutions is not None:
                    return Parity(tuple(solutions.draw(words).tolist()))
        return None

    return release


def _one_release_fewer(honest: Any) -> Any:
    def epsilon(accountant: Any, totals: Any, delta: Any) -> Any:
        return honest(accountant, EventCounts({e: max(n - 1, 1) for e, n in totals}), delta)

    return epsilon


def _counted_once(honest: Any) -> Any:
    return lambda totals: honest(EventCounts({event: 1 for event, _ in totals}))


def _last_round_free(honest: Any) -> Any:
    return lambda plan, reweightings: honest(plan, max(reweightings - 1, 0))


def _fewest_mistakes(_: Any) -> Any:
    """Choose the best candidate, without a coin."""

    def choose(mechanism: Any, candidates: Any, words: Any) -> int:
        return int(np.argmax(candidates.scores(np.arange(candidates.size))))

    return choose


def _rounded(factor: float) -> Wrong:
    return lambda honest: lambda *given, **named: round(honest(*given, **named) * factor)


def _twice_the_users(honest: Any) -> Any:
    scaled = import_module(f"{REPRODUCE}.klnrs08.masked_parity").scaled
    return lambda *given: scaled(honest(*given), 2)


def _uniform_draws(_: Any) -> Any:
    return lambda words, scores, rate, size: integers_below(words, len(scores), size)


def _bit_of(wrong: Callable[[int, Any], int]) -> Wrong:
    """Change the bit a that round 2 reads, given the mask."""

    def change(honest: Any) -> Any:
        def read(schema: Any, r: Any) -> Any:
            a = yield from honest(schema, r)
            return wrong(a, r)

        return read

    return change


def _first_variable_kept(honest: Any) -> Any:
    def learner(*given: Any) -> Any:
        found = honest(*given)

        def conclude(answers: Any) -> Any:
            kept = found.conclude(answers)
            return replace(kept, variables=tuple(sorted({0, *kept.variables})))

        return replace(found, conclude=conclude)

    return learner


def _every_second_told(honest: Any) -> Any:
    def wished(oracle: Any, batch: Any, truths: Any) -> Any:
        said = honest(oracle, batch, truths)
        return [
            truth.values if place % 2 else values
            for place, (values, truth) in enumerate(zip(said, truths, strict=True))
        ]

    return wished


def _fifth_accepted(honest: Any) -> Any:
    place = count()
    return lambda *given: Fraction(1) if next(place) % 5 == 4 else honest(*given)


def _asked_apart(honest: Any) -> Any:
    """Estimate the likelihood of a user's reports by the product of their own."""
    product_of = import_module(f"{REDUCTIONS}.products").product_of

    def ask(asked: Any, relative: Fraction) -> Any:
        found = Fraction(1)
        for factor in asked.factors:
            found *= yield from honest(product_of((factor,)), relative)
        return found

    return ask


def _well_answered(honest: Any) -> Any:
    def reweight(weights: Any, errors: Any) -> None:
        schedule = weights._schedule
        honest(weights, 2 * schedule.accurate + schedule.slack - errors)

    return reweight


_NOISE = f"{CURATOR}.logistic.mechanisms:_noise"
_LAPLACE = f"{ORACLES}.laplace:discrete_laplace"
_READ_BIT = "askance_aggregator.learners.masked_parity:read_bit"
_REWEIGHT = f"{CURATOR}.synopsis.boosting:QueryWeights.reweight"

PROMISES: Mapping[Promise, Mapping[str, Sequence[Defect]]] = {
    Promise.LAW: {
        "theorem-3": [
            Defect("every second draw moved by a step", _LAPLACE, _every_second_moved),
        ],
        "lemma-4.2": [
            Defect(
                "normal variables of the same variance",
                f"{REPRODUCE}.klnrs08.lemma_4_2:generator",
                lambda honest: lambda seed: _Normal(honest(seed)),
            ),
        ],
        "logistic-sensitivity": [
            Defect("noise that is nowhere negative", _NOISE, _nowhere_negative),
        ],
        "logistic-losses": [Defect("tilts along the axes only", _NOISE, _along_axes)],
        "logistic-utility": [
            Defect("tilts that are nowhere negative", _NOISE, _nowhere_negative),
        ],
        "logistic-figure-1": [Defect("noise in two columns only", _NOISE, _in_a_plane)],
        "logistic-figure-4": [
            Defect(
                "noise that always lengthens the minimiser",
                f"{CURATOR}.logistic.mechanisms:OutputPerturbation.release",
                _away_from_zero,
            ),
        ],
    },
    Promise.FRESH: {
        "theorem-7": [Defect("every Laplace draw used twice", _LAPLACE, _in_pairs)],
        "logistic-figure-2": [
            Defect("every noise used for two releases", _NOISE, _drawn_twice),
        ],
        "logistic-figure-3": [
            Defect("one direction for all releases", _NOISE, _one_direction),
        ],
        "lemma-4.3": [
            Defect(
                "one group that answers all questions",
                f"{REPRODUCE}.klnrs08.lemma_4_3:round_answers",
                _one_group_for_all,
            ),
        ],
        "theorem-6": [
            Defect(
                "one sample for all queries",
                f"{ORACLES}.empirical:EmpiricalOracle.answer",
                _one_sample_for_all,
            ),
        ],
        "lemma-iii.2": [
            Defect(
                "every choice drawn twice",
                f"{REPRODUCE}.drv10.lemma_iii_2:exponential_draws",
                _pairs_of_a_call,
            ),
        ],
        "parity": [
            Defect(
                "runs that keep the same examples",
                f"{CURATOR}.parity:PrivateParity.release",
                _shared_coins,
            ),
        ],
    },
    Promise.CHARGED: {
        "composition": [
            Defect(
                "an optimum of one release fewer",
                "askance_aggregator.composition:Optimal.epsilon",
                _one_release_fewer,
            ),
        ],
        "theorem-iii.3": [
            Defect(
                "deltas of equal releases counted once",
                "askance_aggregator.composition.events:EventCounts.sum_of_deltas",
                _counted_once,
            ),
        ],
        "claim-iv.2": [
            Defect(
                "draws charged for one round fewer",
                f"{CURATOR}.synopsis.accounting:BoostingPlan.draw_range",
                _last_round_free,
            ),
        ],
        "boosting": [
            Defect(
                "MWEM that chooses at twice epsilon",
                f"{CURATOR}.synopsis.mwem:exponential_draws",
                argument_times(2, 2),
            ),
        ],
        "remark-3.8": [
            Defect(
                "a choice without a coin",
                f"{CURATOR}.mechanisms.selection:PermuteAndFlip.choose",
                _fewest_mistakes,
            ),
        ],
    },
    Promise.SIZED: {
        "theorem-3.7": [
            Defect(
                "seven tenths of the examples",
                f"{REPRODUCE}.klnrs08.theorem_3_7:sample_size",
                _rounded(0.7),
            ),
        ],
        "parity": [
            Defect(
                "half of the examples",
                f"{REPRODUCE}.klnrs08.parity:examples_needed",
                _rounded(0.5),
            ),
        ],
        "remark-3.7": [
            Defect(
                "half of the proved examples",
                f"{REPRODUCE}.klnrs08.remark_3_7:sample_size",
                _rounded(0.5),
            ),
        ],
        "corollary-4.6": [
            Defect(
                "a curator with half of its examples",
                f"{CURATOR}.parity:ceil",
                lambda honest: lambda needed: ceil(needed / 2),
            ),
        ],
        "local-vs-central": [
            Defect(
                "twice the users of devices",
                f"{REPRODUCE}.notes.local_vs_central:plan_batch",
                _twice_the_users,
            ),
        ],
        "theorem-5": [
            Defect(
                "a plan for a tenth of beta",
                f"{REPRODUCE}.notes.theorem_5:plan",
                argument_times(2, Fraction(1, 10)),
            ),
        ],
        "lemma-v.1": [
            Defect(
                "uniform draws of queries",
                f"{REPRODUCE}.drv10.lemma_v_1:exponential_draws",
                _uniform_draws,
            ),
        ],
    },
    Promise.CONCEPTS: {
        "masked-parity": [
            Defect(
                "a bit that is wrong for half of the masks",
                _READ_BIT,
                _bit_of(lambda a, r: a ^ r[0]),
            ),
        ],
        "theorem-4.8": [Defect("a bit that is always 1", _READ_BIT, _bit_of(lambda a, r: 1))],
        "theorem-8": [
            Defect(
                "a first variable that is always kept",
                f"{REPRODUCE}.notes.theorem_8:conjunctions",
                _first_variable_kept,
            ),
        ],
    },
    Promise.HIDDEN: {
        "theorem-5.1": [
            Defect(
                "an oracle that tells every second answer",
                f"{ORACLES}.adversarial:LazyOracle.wished",
                _every_second_told,
            ),
        ],
    },
    Promise.SIMULATED: {
        "lemma-4.4": [
            Defect(
                "every fifth candidate accepted",
                f"{REDUCTIONS}.back:acceptance",
                _fifth_accepted,
            ),
        ],
        "lemma-4.5": [
            Defect(
                "second reports that know nothing of the first",
                f"{REDUCTIONS}.back:_ask",
                _asked_apart,
            ),
        ],
    },
    Promise.WEIGHED: {
        "theorem-v.2": [
            Defect("weights that never change", _REWEIGHT, lambda honest: lambda *given: None),
        ],
        "theorem-v.3": [Defect("weights for what is answered well", _REWEIGHT, _well_answered)],
    },
}
