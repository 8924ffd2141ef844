"""Numbers that some users do not have: estimates and truths are over the users who have one."""

from __future__ import annotations

import numpy as np
import pytest

from askance_aggregator.learners import MeanEstimate, mean, quantiles, ranges
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.verdicts import judge
from askance_aggregator.queries import real
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Integer, Real, Schema
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population

SCHEMA = Schema("incomes", 1, income=Real(0, 150_000, frac_bits=0))
AGES = Schema("ages", 1, age=Integer(0, 63))
USERS = 5000


def incomes() -> tuple[Population, float]:
    """Log-normal incomes, 30 % blank, with the mean of those that are not."""
    rng = np.random.default_rng(7)
    values = np.rint(np.minimum(rng.lognormal(9.9, 0.7, USERS), 150_000))
    values[rng.random(USERS) < 0.3] = np.nan
    return Population.from_columns(SCHEMA, {"income": values}), float(np.nanmean(values))


@pytest.mark.parametrize("objective", ["minimax", "conditional"])
def test_the_truth_of_a_mean_is_that_of_the_users_who_have_the_number(objective: str) -> None:
    people, present = incomes()
    study = Study(mean(SCHEMA["income"], objective=objective), SCHEMA, epsilon=2, confidence=0.95)
    result = simulate(study, people, fleet="columns", seed=1)
    verdict = result.trials[0].verdict
    assert verdict.truth == (present,)
    assert verdict.success
    found = result.hypothesis
    assert found.low <= present <= found.high
    assert found.high - found.low < 20_000  # with blanks as mid-range the mean would be 40,500
    assert found.missing.low <= 0.3 <= found.missing.high
    assert found.missing.high - found.missing.low < 0.2
    assert "are not part of its mean" in result.notes[0]


def test_a_public_default_stays_available_by_name() -> None:
    people, present = incomes()
    learner = mean(SCHEMA["income"], missing="default")
    result = simulate(Study(learner, SCHEMA, epsilon=2), people, fleet="columns")
    (truth,) = result.trials[0].verdict.truth
    blank = 1 - int(people.columns(0, USERS).present["income"].sum()) / USERS
    assert truth == pytest.approx((1 - blank) * present + blank * 75_000)
    assert result.hypothesis.missing is None
    assert "count as 75000" in result.notes[0]


def test_an_interval_that_misses_the_missing_share_is_no_success() -> None:
    people, present = incomes()
    learner = mean(SCHEMA["income"])
    for low, high, success in ((0.2, 0.4, True), (0.0, 0.1, False)):
        share = MissingShare((low + high) / 2, low, high)
        found = MeanEstimate(present, present - 1, present + 1, missing=share)
        assert judge(found, learner, people).success is success


def test_what_missing_can_be_is_said() -> None:
    with pytest.raises(InvalidParameter, match="expects exclude or default, got 'zero'"):
        mean(SCHEMA["income"], missing="zero")
    with pytest.raises(InvalidParameter, match="has a public default"):
        mean(real(SCHEMA["income"]), missing="exclude")
    with pytest.raises(InvalidParameter, match="present expects a share"):
        mean(SCHEMA["income"], present="3/2")


def ordered(missing: float) -> Population:
    """Ages 0 .. 63 alike, and a part of the users without one."""
    values = (np.arange(20_000) % 64).astype(np.float64)
    values[np.random.default_rng(2).random(20_000) < missing] = np.nan
    return Population.from_columns(AGES, {"age": values})


def test_quantiles_are_those_of_the_users_who_have_the_number() -> None:
    """With 40 % missing the median of all users would be 53 or none at all."""
    learner = quantiles(AGES, "age", ["1/2"], tau="1/10", present="1/2")
    result = simulate(Study(learner, AGES, epsilon=4), ordered(0.4), fleet="columns")
    (found,) = result.hypothesis.quantiles
    assert 25 <= found.value <= 38
    assert result.trials[0].verdict.success
    assert result.hypothesis.missing.low <= 0.4 <= result.hypothesis.missing.high


def test_quantiles_by_default_count_missing_users_as_above_all() -> None:
    learner = quantiles(AGES, "age", ["1/2"], tau="1/10", missing="default")
    result = simulate(Study(learner, AGES, epsilon=4), ordered(0.4), fleet="columns")
    assert result.hypothesis.quantiles[0].value > 45
    assert result.hypothesis.missing is None


def test_ranges_are_shares_of_the_users_who_have_the_number() -> None:
    learner = ranges(AGES, "age", steps=16)
    result = simulate(Study(learner, AGES, epsilon=3), ordered(0.4), fleet="columns")
    found, verdict = result.hypothesis, result.trials[0].verdict
    assert verdict.success
    assert verdict.truth[7] == pytest.approx(0.5, abs=0.02)
    assert found.share(0, 32).low <= 0.5 <= found.share(0, 32).high
    assert found.share(0, 32).high - found.share(0, 32).low < 0.3
    assert 24 <= found.quantile("1/2").value <= 40
    assert found.missing_share.low <= 0.4 <= found.missing_share.high
