"""Bounds far too wide for the data: they are named, and narrower ones give what is said of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from askance_aggregator.learners import Learner, difference, mean, mean_vector, trend
from askance_aggregator.studies.study import Study
from askance_client.queries import Bit, Category, Integer, Schema
from askance_simulation.experiments import Simulation, simulate
from askance_simulation.experiments.wide_bounds import shortest
from askance_simulation.populations import Population

USERS = 8_000


def delays() -> np.ndarray:
    """Return delays: half of them 0 .. 3, 48 % up to 20, and 2 % up to 77."""
    ranks = np.arange(USERS) * 7 % USERS  # mixed, so that groups are alike
    part = ranks / USERS
    values = np.where(part < 0.5, ranks % 4, 4 + ranks % 17)
    return np.where(part >= 0.98, 21 + ranks % 57, values)


def schema(high: int) -> Schema:
    return Schema("s", 1, delay=Integer(0, high), group=Category(["a", "b"]))


def run(high: int, learner: str = "mean") -> Simulation:
    """Simulate a learner of delays with the bounds 0 .. high."""
    of = schema(high)
    groups = np.where(np.arange(USERS) % 2 == 0, "a", "b").tolist()
    values = np.clip(delays(), 0, high).tolist()
    people = Population.from_columns(of, {"delay": values, "group": groups})
    made: dict[str, Learner[object]] = {
        "mean": mean(of["delay"]),
        "difference": difference(of, "delay", "group"),
        "mean-vector": mean_vector(of, ["delay"]),
    }
    return simulate(Study(made[learner], of, epsilon=1), people, fleet="columns", seed=3)


@pytest.mark.parametrize(
    ("learner", "off"), [("mean", 0.15), ("difference", 0.15), ("mean-vector", 0.4)]
)
def test_narrower_bounds_give_the_interval_that_is_said(learner: str, off: float) -> None:
    """The interval of a ratio is wider near the end of a range, so it gains a little more."""
    before = run(1_000, learner)
    (said,) = before.worth.wide
    assert said.bounds == (0, 1_000)
    assert said.half == (0, 3)
    assert said.narrower[0] == 0
    assert 15 <= said.narrower[1] <= 80
    after = run(int(said.narrower[1]), learner)
    (row,) = after.worth.presentation.rows
    assert said.half_width == pytest.approx((row.high - row.low) / 2, rel=off)
    ((one,), (other,)) = (result.trials[0].assessment.truth for result in (before, after))
    assert said.move == pytest.approx(other - one, abs=1e-9)
    assert said.clamped == pytest.approx((delays() > said.narrower[1]).mean())
    assert not after.worth.wide, "bounds that fit are not named"


def test_the_note_says_that_it_is_not_private() -> None:
    (note,) = run(1_000).to_json()["wide_bounds"]
    assert re.fullmatch(
        r"not private, read from the data: half of the users lie within 0 \.\. 3 of the bounds"
        r" 0 \.\. 1,000 of delay; with bounds 0 \.\. \d+ the interval would be about \+- [\d.]+;"
        r" [\d.]+ % of users are clamped and the mean moves by about -?[\d.]+",
        note,
    )


def test_the_guess_of_a_mean_is_not_the_middle_of_bounds_that_are_far_too_wide() -> None:
    wide, near = run(1_000), run(77)
    assert wide.baseline == near.baseline
    assert wide.baseline is not None
    assert wide.baseline < 20, "the middle of the bounds is off by nearly 500"


@pytest.mark.parametrize(
    ("low", "high", "guess"),
    [
        (0, 1_232, 10.0),  # the middle of the bounds is 616
        (0, 20, 10.0),
    ],
)
def test_the_guess_of_a_trend_is_the_middle_of_its_values(
    low: int, high: int, guess: float
) -> None:
    """A third of the users has 0, a third 10, a third 20 in both months: the means are 10."""
    of = Schema("s", 1, may=Integer(low, high), june=Integer(low, high))
    values = (10 * (np.arange(USERS) % 3)).tolist()
    people = Population.from_columns(of, {"may": values, "june": values})
    result = simulate(Study(trend(of), of, epsilon=1), people, fleet="columns", seed=3)
    assert result.baseline == pytest.approx(guess - np.mean(values), abs=1e-6)


def test_the_guess_of_a_trend_of_shares_is_one_half() -> None:
    """A property of .005 of the users: the span of 98 % of the values would be 0 .. 0."""
    of = Schema("s", 1, may=Bit(), june=Bit())
    values = (np.arange(USERS) % 200 == 0).tolist()
    people = Population.from_columns(of, {"may": values, "june": values})
    result = simulate(Study(trend(of), of, epsilon=1), people, fleet="columns", seed=3)
    assert result.baseline == pytest.approx(0.495, abs=1e-9)


def test_the_guess_of_a_trend_without_values_is_the_middle_that_all_count_with() -> None:
    of = Schema("s", 1, may=Integer(0, 40), june=Integer(0, 40))
    values = [None] * USERS
    people = Population.from_columns(of, {"may": values, "june": values})
    result = simulate(Study(trend(of), of, epsilon=1), people, fleet="columns", seed=3)
    assert result.baseline == 0.0


def test_the_shortest_span_has_the_part_that_is_asked_for() -> None:
    values = np.array([0.0, 0.0, 1.0, 2.0, 9.0, 30.0])
    assert shortest(values, 0.5) == (0.0, 1.0)
    assert shortest(values, 1.0) == (0.0, 30.0)
    assert shortest(np.array([4.0]), 0.5) == (4.0, 4.0)
