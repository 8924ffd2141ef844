"""The reproduction of Theorem 3.7: what it measures, and that it can fail to hold."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

from askance_papers.curator.mechanisms import Exponential, PermuteAndFlip
from askance_papers.reproduce import Effort, Reproduction, Setting, find
from askance_papers.reproduce.klnrs08 import theorem_3_7
from askance_papers.reproduce.klnrs08.theorem_3_7 import ErrorCurve, Instance, enumerated_loss, row
from askance_simulation.randomness import Seed


@pytest.fixture(scope="module")
def quick() -> Reproduction:
    return find("theorem-3.7").reproduce(Setting(Effort.QUICK, Seed.of(1)))


def test_it_holds(quick: Reproduction) -> None:
    assert quick.holds
    assert len({tuple(one) for one in quick.rows}) == 1, "all rows have the same columns"
    assert {one["labels"] for one in quick.rows} == {"realizable", "noisy"}
    assert json.loads(json.dumps(quick.to_json()))["holds"] is True
    figure = Figure()
    quick.draw(figure)
    assert [len(axes.lines) for axes in figure.axes] == [3, 3], "two curves and beta each"


def test_between_a_seventh_and_three_fifths_of_the_examples_are_enough(
    quick: Reproduction,
) -> None:
    assert all(0.1 <= one["enough, of n"] <= 0.6 for one in quick.rows)


@pytest.mark.parametrize("labels", ["realizable", "noisy"])
def test_every_other_hypothesis_is_worse_by_hardly_more_than_alpha(labels: str) -> None:
    """The errors of all, from the law of the examples."""
    instance = Instance(3, Fraction(1, 10), Fraction(1), labels)
    law = instance.law(5).reshape(2, 8)
    assert law.sum() == pytest.approx(1)
    cube = np.arange(8)[:, None] >> np.arange(3)[::-1] & 1
    errors = []
    for number in range(8):
        given = instance.family.hypothesis(number)(cube)
        errors.append(float(law[0][given == 1].sum() + law[1][given == 0].sum()))
    assert errors[5] == pytest.approx(float(instance.best_error))
    others = [error for number, error in enumerate(errors) if number != 5]
    assert others == pytest.approx([errors[5] + 0.101] * 7)


def test_the_enumerated_loss_is_epsilons_with_permute_and_flip() -> None:
    assert enumerated_loss(PermuteAndFlip, Fraction(1)) == pytest.approx(1)
    assert 0.4 < enumerated_loss(Exponential, Fraction(1)) < 1


CURVE = ErrorCurve(
    Instance(4, Fraction(1, 5), Fraction(1), "noisy"),
    "exponential",
    trials=100,
    n=727,  # (ln 16 + ln 40) 4.5 / 0.04 = 726.9
    failed=(90, 80, 70, 60, 30, 4, 6, 5, 4, 0, 0),
    failed_as_printed=0,
)


def test_what_is_enough_is_enough_from_there_on() -> None:
    assert CURVE.sufficient == 0.5, "six at the 0.4 before it are more than one in twenty"
    assert replace(CURVE, failed=(*CURVE.failed[:-1], 6)).sufficient is None


def test_too_many_failures_at_n_do_not_hold() -> None:
    assert row(CURVE)["holds"]
    assert not row(replace(CURVE, failed=(*CURVE.failed[:-1], 30)))["holds"]
    assert not row(replace(CURVE, failed_as_printed=6))["holds"]


@pytest.mark.parametrize("n", [509, 726, 728, 1454])
def test_another_size_than_the_proofs_does_not_hold(n: int) -> None:
    assert not row(replace(CURVE, n=n))["holds"]


def test_the_sample_sizes() -> None:
    assert theorem_3_7.printed_size(Instance(4, Fraction(1, 10), Fraction(1, 20), "noisy")) == 5170
