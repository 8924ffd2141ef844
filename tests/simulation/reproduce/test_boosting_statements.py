"""The statements of *Boosting and Differential Privacy*: they hold, and defects are seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from askance_aggregator.composition import Advanced, Optimal, Sum
from askance_aggregator.curator.synopsis import (
    BoostingPlan,
    GaussianAnswers,
    NoisySearchGenerator,
    QueryWeights,
    Schedule,
    boosting,
    queries_for,
)
from askance_aggregator.curator.synopsis.accounting import TWO_ALPHA
from askance_aggregator.sampling import discrete_laplace
from askance_simulation.randomness.seeds import Seed
from askance_simulation.reproduce import Effort, Setting, find
from askance_simulation.reproduce.drv10 import (
    claim_iv_2,
    lemma_iii_2,
    lemma_v_1,
    rates,
    theorem_iii_3,
    theorem_v_2,
    theorem_v_3,
)

QUICK = Setting(Effort.QUICK, Seed.of(1))
FAST = ["lemma-iii.2", "theorem-iii.3", "claim-iv.2", "lemma-v.1"]
RATES = ["theorem-v.2", "theorem-v.3"]
Plant = Callable[[pytest.MonkeyPatch], None]


def check(name: str) -> None:
    found = find(name).reproduce(QUICK)
    assert found.holds, [row for row in found.rows if row["holds"] is False]
    assert len({tuple(row) for row in found.rows}) == 1, "all rows have the same columns"
    json.dumps(found.to_json(), allow_nan=False)
    figure = Figure()
    found.draw(figure)
    assert figure.axes[0].lines


@pytest.mark.parametrize("name", FAST)
def test_it_holds(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RATES)
def test_rates_hold(name: str) -> None:
    check(name)


class TestFigures:
    def test_randomized_response_attains_the_divided_bound(self) -> None:
        rows = list(lemma_iii_2.enumerated(Fraction(1), QUICK))
        assert rows[0]["divergence"] == pytest.approx(np.tanh(0.5), rel=1e-12)
        assert rows[0]["eps (e^eps - 1)"] == pytest.approx(np.e - 1)

    def test_the_optimum_of_pure_releases_is_known(self) -> None:
        """Ten releases of .1 at delta 1e-6: ALGORITHMS' and the convolution's .99937."""
        law = theorem_iii_3.WorstReleases.of({(Fraction(1, 10), Fraction(0)): 10})
        assert law.epsilon(Fraction(1, 10**6), 1.0) == pytest.approx(0.99937, abs=5e-6)

    def test_one_leaking_release_leaks_its_delta(self) -> None:
        law = theorem_iii_3.WorstReleases.of({(Fraction(1), Fraction(1, 100)): 1})
        assert float(law.delta(1.0)) == pytest.approx(0.01)
        assert float(law.delta(0.0)) == pytest.approx(1 - 0.99 * (1 - np.tanh(0.5)))

    def test_neighbours_differ_in_one_record(self) -> None:
        found = claim_iv_2.neighbours(np.array([2, 0, 1]))
        assert {tuple(one) for one in found} == {(1, 1, 1), (1, 0, 2), (3, 0, 0), (2, 1, 0)}

    def test_an_exponent_is_found(self) -> None:
        xs = [1.0, 2.0, 8.0]
        row = rates.exponent_row("V", "case", xs, [3 * x**-0.5 for x in xs], -0.5, 0.01)
        assert row["exponent"] == pytest.approx(-0.5)
        assert row["holds"]
        assert not rates.exponent_row("V", "case", xs, [3 / x for x in xs], -0.5, 0.01)["holds"]


def _half_rate(patch: pytest.MonkeyPatch, module: Any) -> None:
    honest = module.exponential_draws
    patch.setattr(
        module,
        "exponential_draws",
        lambda words, scores, rate, n: honest(words, scores, rate / 2, n),
    )


def _scaled(patch: pytest.MonkeyPatch, accountant: Any, factor: float) -> None:
    honest = accountant.epsilon
    patch.setattr(accountant, "epsilon", lambda *given: honest(*given) * factor)


def _deltas_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "askance_aggregator.composition.totals.EventCounts.sum_of_deltas", lambda _: Fraction(0)
    )


def _unclipped(patch: pytest.MonkeyPatch) -> None:
    """Reweight by errors doubled, as if a was 1 - 4 (err - lambda)/mu."""
    honest = QueryWeights.reweight
    patch.setattr(QueryWeights, "reweight", lambda self, errors: honest(self, 2 * errors))


def _half_alpha(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(boosting, "TWO_ALPHA", TWO_ALPHA / 2)


def _half_charge(patch: pytest.MonkeyPatch) -> None:
    honest = BoostingPlan.draw_range
    patch.setattr(BoostingPlan, "draw_range", lambda self, rounds: honest(self, rounds) / 2)


def _samples(factor: float) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(lemma_v_1, "queries_for", lambda *given: round(queries_for(*given) * factor))

    return plant


def _no_draws_charged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BoostingPlan, "sampling_events", lambda _: ())


def _search_noise(factor: Fraction) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = NoisySearchGenerator.variance
        patch.setattr(
            NoisySearchGenerator, "variance", lambda self, count: honest(self, count) * factor
        )

    return plant


def _answer_noise(factor: int) -> Plant:
    """Answer with noise for another rho; the standard deviation is 1/sqrt(factor) of the right."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = GaussianAnswers.answers

        def answers(self: Any, chosen: Any, words: Any) -> Any:
            other = GaussianAnswers(
                self._family, self._truth, theorem_v_3.SIZES[0], self._rho * factor
            )
            other._units = self._units
            return honest(other, chosen, words)

        patch.setattr(GaussianAnswers, "answers", answers)

    return plant


DEFECTS: list[tuple[str, str, Plant]] = [
    ("lemma-iii.2", "half the epsilon", lambda patch: _half_rate(patch, lemma_iii_2)),
    ("lemma-iii.2", "a Laplace of half the scale", lambda patch: _laplace(patch, Fraction(1, 2))),
    ("lemma-iii.2", "a Laplace of twice the scale", lambda patch: _laplace(patch, Fraction(2))),
    ("theorem-iii.3", "an optimum that is too low", lambda p: _scaled(p, Optimal, 0.999)),
    ("theorem-iii.3", "an optimum that is too high", lambda p: _scaled(p, Optimal, 1.001)),
    ("theorem-iii.3", "a theorem without its first term", lambda p: _scaled(p, Advanced, 0.5)),
    ("theorem-iii.3", "a sum that forgets releases", lambda p: _scaled(p, Sum, 0.8)),
    ("theorem-iii.3", "releases of half the epsilon", lambda p: _half_rate(p, theorem_iii_3)),
    ("theorem-iii.3", "deltas that are forgotten", _deltas_forgotten),
    ("claim-iv.2", "weights that move twice as far", _unclipped),
    ("claim-iv.2", "half of alpha", _half_alpha),
    ("claim-iv.2", "half of the charge", _half_charge),
    ("claim-iv.2", "draws at half the rate", lambda patch: _half_rate(patch, boosting)),
    ("lemma-v.1", "too few samples", _samples(0.7)),
    ("lemma-v.1", "too many samples", _samples(1.4)),
]
SLOW_DEFECTS: list[tuple[str, str, Plant]] = [
    ("theorem-v.2", "half the noise", _search_noise(Fraction(1, 4))),
    ("theorem-v.2", "twice the noise", _search_noise(Fraction(4))),
    ("theorem-v.2", "draws that are not charged", _no_draws_charged),
    ("theorem-v.3", "half the noise", _answer_noise(4)),
    ("theorem-v.3", "draws that are not charged", _no_draws_charged),
]


def _laplace(patch: pytest.MonkeyPatch, factor: Fraction) -> None:
    patch.setattr(
        lemma_iii_2,
        "discrete_laplace",
        lambda words, scale, count: discrete_laplace(words, scale * factor, count),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "defect", "plant"), DEFECTS, ids=[f"{one}: {two}" for one, two, _ in DEFECTS]
)
def test_a_planted_defect_turns_the_verdict(
    name: str, defect: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert not find(name).reproduce(QUICK).holds, defect


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "defect", "plant"),
    SLOW_DEFECTS,
    ids=[f"{one}: {two}" for one, two, _ in SLOW_DEFECTS],
)
def test_a_defect_of_a_generator_turns_the_verdict(
    name: str, defect: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one number of records: noise and cost are checked in every row."""
    plant(monkeypatch)
    module = {"theorem-v.2": theorem_v_2, "theorem-v.3": theorem_v_3}[name]
    boosted = module.boosted_errors(module.SIZES[0], module.EPSILONS[0], QUICK)
    assert not boosted.row()["holds"], defect


@pytest.mark.parametrize("module", [theorem_v_2, theorem_v_3])
def test_a_generator_holds_at_one_number_of_records(module: Any) -> None:
    boosted = module.boosted_errors(module.SIZES[0], module.EPSILONS[0], QUICK)
    assert boosted.row()["holds"]


def test_weights_start_uniform_and_grow_with_errors() -> None:
    schedule = Schedule(3, 10, accurate=2, slack=4, unit=Fraction(1, 100))
    weights = QueryWeights(3, schedule)
    assert np.exp(weights.log_probabilities()) == pytest.approx(np.full(3, 1 / 3))
    weights.reweight(np.array([2, 4, 99]))
    logs = weights.log_probabilities()
    assert logs[1] - logs[0] == pytest.approx(np.log(5) / 2)
    assert logs[2] - logs[0] == pytest.approx(np.log(5))
