"""Numbers that some users do not have: estimates and truths are over the users who have one."""

from __future__ import annotations

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    MeanEstimate,
    MeanVector,
    hypothesis_from_json,
    hypothesis_json,
    mean,
    mean_vector,
    quantiles,
    ranges,
)
from askance_aggregator.learners.assessments import assess
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.queries import real
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Integer, Real, Schema
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
    assessment = result.trials[0].assessment
    assert assessment.truth == (present,)
    assert assessment.success
    found = result.hypothesis
    assert found.low <= present <= found.high
    assert found.high - found.low < 20_000  # with blanks as mid-range the mean would be 40,500
    assert found.missing.low <= 0.3 <= found.missing.high
    assert found.missing.high - found.missing.low < 0.2
    assert "are left out of its estimate" in result.notes[0]


def test_a_public_default_stays_available_by_name() -> None:
    people, present = incomes()
    learner = mean(SCHEMA["income"], missing="default")
    result = simulate(Study(learner, SCHEMA, epsilon=2), people, fleet="columns")
    (truth,) = result.trials[0].assessment.truth
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
        assert assess(found, learner, people).success is success


def test_what_missing_can_be_is_said() -> None:
    with pytest.raises(
        InvalidParameter, match="missing: expected one of exclude, default, got 'zero'"
    ):
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
    assert result.trials[0].assessment.success
    assert result.hypothesis.missing.low <= 0.4 <= result.hypothesis.missing.high


def test_quantiles_by_default_count_missing_users_as_above_all() -> None:
    learner = quantiles(AGES, "age", ["1/2"], tau="1/10", missing="default")
    result = simulate(Study(learner, AGES, epsilon=4), ordered(0.4), fleet="columns")
    assert result.hypothesis.quantiles[0].value > 45
    assert result.hypothesis.missing is None


def test_ranges_are_shares_of_the_users_who_have_the_number() -> None:
    learner = ranges(AGES, "age", steps=16)
    result = simulate(Study(learner, AGES, epsilon=3), ordered(0.4), fleet="columns")
    found, assessment = result.hypothesis, result.trials[0].assessment
    assert assessment.success
    assert assessment.truth[7] == pytest.approx(0.5, abs=0.02)
    assert found.share(0, 32).low <= 0.5 <= found.share(0, 32).high
    assert found.share(0, 32).high - found.share(0, 32).low < 0.3
    assert 24 <= found.quantile("1/2").value <= 40
    assert found.missing_share.low <= 0.4 <= found.missing_share.high


MIXED = Schema("mixed", 1, age=Integer(17, 90), gain=Integer(0, 99_999), part=Real(0, 1), b=Bit())


def mixed() -> tuple[Population, dict[str, float]]:
    """Columns of ranges 73, 99,999, 1 and 1; 30 % have no age. With the means of what is there."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(17, 60, 20_000).astype(np.float64),
        "gain": rng.integers(0, 9_000, 20_000).astype(np.float64),
        "part": rng.random(20_000),
        "b": rng.integers(0, 2, 20_000).astype(np.float64),
    }
    columns["age"][rng.random(20_000) < 0.3] = np.nan
    means = {name: float(np.nanmean(column)) for name, column in columns.items()}
    return Population.from_columns(MIXED, columns), means


@pytest.mark.parametrize(("missing", "width"), [("exclude", 0.08), ("default", 0.03)])
def test_a_vector_s_means_are_decoded_each_in_its_own_unit(missing: str, width: float) -> None:
    """Decode by the own range of each column; by the widest an age was 499 -+ 9,000."""
    people, means = mixed()
    learner = mean_vector(MIXED, missing=missing)
    result = simulate(Study(learner, MIXED, epsilon=2), people, fleet="columns", seed=1)
    found, assessment = result.hypothesis, result.trials[0].assessment
    assert assessment.success
    if missing == "exclude":
        assert assessment.truth == pytest.approx(tuple(means.values()), abs=1e-4)
        assert found.missing[0].low <= 0.3 <= found.missing[0].high
        assert found.missing[1].low == 0
    sizes = zip(found.lows, found.highs, (73, 99_999, 1, 1), strict=True)
    for low, high, size in sizes:
        assert 0.1 * width < (high - low) / 2 / size < width
    assert MeanVector.from_json(found.to_json()) == found


def test_a_vector_of_bounded_length_is_asked_with_a_public_default_only() -> None:
    with pytest.raises(InvalidParameter, match="norm=l2 expects missing=default"):
        mean_vector(MIXED, ["part", "b"], norm="l2", missing="exclude")


def test_a_vector_s_tolerance_holds_in_every_unit() -> None:
    """Answers are those of means that are off by what the question is planned for."""
    learner = mean_vector(MIXED, ["age", "part"], tau="1/4", present="1/2")
    tau = float(learner.batch.questions[0].working_tau)
    share, mean = 0.5, 0.3  # scaled
    worst = [0.0, 0.0]
    for moved in (mean - tau, mean + tau):
        one, two = (share * (1 + side * moved) - 1 for side in (1, -1))
        values = (one, one, two, two)
        found = learner.conclude((Answer(values, values, values),))
        truth = (17 + 73 * (mean + 1) / 2, (mean + 1) / 2)
        worst = [
            max(most, abs(estimate - true))
            for most, estimate, true in zip(worst, found.estimates, truth, strict=True)
        ]
    assert worst == pytest.approx([0.25, 0.25 / 73], rel=2e-3)


@pytest.mark.parametrize("users", [1, 400])
def test_where_no_user_has_the_number_there_is_no_verdict_and_no_reference(users: int) -> None:
    people = Population.from_columns(SCHEMA, {"income": np.full(users, np.nan)})
    result = simulate(Study(mean(SCHEMA["income"]), SCHEMA, epsilon=2), people, fleet="columns")
    told = result.to_json()
    assert told["reference"] is None
    assert told["baseline"] is None
    assert result.trials[0].assessment.success is None
    assert 0 <= result.hypothesis.estimate <= 150_000


def test_a_ratio_lies_in_the_range_of_the_number() -> None:
    values = np.where(np.random.default_rng(1).random(400) < 0.3, np.nan, 7.0)
    people = Population.from_columns(SCHEMA, {"income": values})
    for learner in (mean(SCHEMA["income"]), mean_vector(SCHEMA, ["income"])):
        study = Study(learner, SCHEMA, epsilon=2)
        for seed in range(4):
            found = simulate(study, people, fleet="columns", seed=seed).hypothesis
            estimates = getattr(found, "estimates", None) or (found.estimate,)
            assert 0 <= estimates[0] <= 150_000


def test_a_mean_at_its_bound_says_so_and_keeps_the_raw_estimate() -> None:
    """The clamped estimate of a mean of zeros is 2.5 on average: 2,000 users, epsilon 1/2."""
    schema = Schema("scores", 1, score=Integer(0, 100))
    people = Population.from_columns(schema, {"score": np.zeros(2_000, np.int64)})
    study = Study(mean(schema["score"]), schema, epsilon="0.5")
    result = simulate(study, people, fleet="columns", seed=2, trials=60)
    found = [trial.outcome.hypothesis for trial in result.trials]
    clamped = [one for one in found if one.raw is not None]
    assert 15 < len(clamped) < 45
    assert all(one.estimate == 0 and one.raw < 0 for one in clamped)
    raw = np.array([one.estimate if one.raw is None else one.raw for one in found])
    error = raw.std(ddof=1) / np.sqrt(len(raw))
    assert error < 1.2
    assert abs(raw.mean()) < 4 * error
    assert np.mean([one.estimate for one in found]) > 1
    one, other = clamped[0], next(one for one in found if one.raw is None)
    assert hypothesis_json(one)["raw"] == one.raw
    assert hypothesis_from_json("mean", hypothesis_json(one)) == one
    assert "raw" not in hypothesis_json(other)
    (note,) = one.present().notes
    assert note == (
        f"the estimate is at the bound of the range, and so biased: the raw one is {one.raw:.4g}"
    )
    assert other.present().notes == ()
