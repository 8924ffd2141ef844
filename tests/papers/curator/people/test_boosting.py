"""Boosting for users: private by enumeration, better than one stump, and its weights capped."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.composition import BoundedRange, Pure
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms import (
    Conjunctions,
    Exponential,
    PermuteAndFlip,
    Stumps,
    even_cuts,
    learn_agnostically,
    thresholds,
)
from askance_papers.curator.people import Boosting
from askance_simulation.randomness import Seed, SeededWords


class Untouched:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


def income(name: str, people: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make records whose label depends on four columns of eight, weakly on any single one."""
    rng = np.random.default_rng(int.from_bytes((Seed.of(1) / name).key, "big"))
    x = rng.random((people, 8))
    score = 2 * x[:, 0] + 1.5 * x[:, 1] + x[:, 2] - 1.5 * x[:, 3] + rng.normal(0, 0.4, people)
    return x, np.where(score > 1.5, 1, -1)


STUMPS = Stumps([even_cuts(0, 1, 15)] * 8)


class TestPrivacy:
    @pytest.mark.parametrize("kind", [PermuteAndFlip, Exponential])
    @pytest.mark.parametrize("cap", [1, 2])
    def test_the_loss_of_the_whole_committee_is_at_most_epsilon(
        self, kind: type[PermuteAndFlip] | type[Exponential], cap: int
    ) -> None:
        """The law of both rounds' choices, for all data sets of three examples of one bit."""
        boosting = Boosting(Fraction(2), 2, Fraction(1, 4), cap, kind)
        records = list(product((0, 1), (-1, 1)))
        laws = {data: law(boosting, data) for data in product(records, repeat=3)}
        losses = [
            float((p / q).ln())
            for data, one in laws.items()
            for place, record in product(range(3), records)
            for p, q in zip(one, laws[(*data[:place], record, *data[place + 1 :])], strict=True)
        ]
        assert 0.5 < max(losses) <= 2 + 1e-12

    def test_events_are_one_a_round(self) -> None:
        x, y = income("events", 50)
        found = Boosting.of("0.6", rounds=3).fit(STUMPS, x, y, words("events"))
        assert found.events == (Pure(Fraction(1, 5)),) * 3
        ranged = Boosting(Fraction(1), 2, Fraction(1, 10), selection=Exponential)
        assert ranged.fit(STUMPS, x, y, words("e")).events == (BoundedRange(Fraction(1, 2)),) * 2


def law(boosting: Boosting, data: tuple[tuple[int, int], ...]) -> list[Decimal]:
    """Compute P[first, second] for each pair of four stumps, by the mechanism's own law."""
    family = Stumps([[0.5, 1.5]])
    x, y = np.array(data)[:, :1].astype(float), np.array(data)[:, 1]
    everybody, mechanism = np.arange(family.size), boosting.mechanism
    nobody = boosting.weights(np.zeros(3, dtype=np.int64))
    first = mechanism.probabilities(-family.weighted_mistakes(x, y, nobody)(everybody))
    found = []
    with localcontext(prec=50):
        for number, p in enumerate(first):
            leads = y * family.hypothesis(number)(x)
            wrong = family.weighted_mistakes(x, y, boosting.weights(leads))(everybody)
            found += [p * q for q in mechanism.probabilities(-wrong)]
    return found


class TestWeights:
    def test_they_are_adaboosts_rounded_down_and_capped(self) -> None:
        boosting = Boosting.of(1, edge="0.2", cap=2)
        vote = log(1.4 / 0.6) / 2
        leads = np.arange(-4, 5)
        expected = [int(65536 * min(2.0, exp(-vote * lead))) for lead in leads.tolist()]
        assert boosting.weights(leads).tolist() == expected

    def test_nobody_weighs_more_than_the_cap(self) -> None:
        for cap in (1, 3):
            boosting = Boosting.of(1, rounds=50, cap=cap)
            assert boosting.weights(np.arange(-50, 51)).max() == 65536 * cap
            assert boosting.mechanism.sensitivity == 65536 * cap

    def test_a_weight_is_never_rounded_up(self) -> None:
        """At edge = 1/4: e^(-2 vote) = 1/3, and 65536 / sqrt(3) is no whole number."""
        (found,) = Boosting.of(1, edge="0.25").weights(np.array([1])).tolist()
        assert found <= 65536 / sqrt(3) < found + 1


class TestUtility:
    def test_it_beats_a_single_private_stump_at_epsilon_2(self) -> None:
        x, y = income("train", 10_000)
        test_x, test_y = income("test", 10_000)
        stump = learn_agnostically(STUMPS, x, y, 2, words("stump")).hypothesis
        committee = Boosting.of(2).fit(STUMPS, x, y, words("committee"))
        single = float((stump(test_x) != test_y).mean())
        boosted = float((committee(test_x) != test_y).mean())
        assert boosted < single - 0.04, "a standard deviation of the difference is below 0.005"

    def test_any_weak_class_will_do(self) -> None:
        """A majority of conjunctions over three bits finds the majority of the bits."""
        x = np.array(list(product((0, 1), repeat=3)) * 400)
        y = (x.sum(axis=1) >= 2).astype(np.int64)
        found = Boosting.of(5, rounds=9).fit(Conjunctions(3), x, y, words("bits"))
        assert float((found(x) == y).mean()) == 1

    def test_a_tie_goes_to_the_second_label(self) -> None:
        found = Boosting.of(100, rounds=2).fit(
            thresholds([0.5]), np.array([[0.0], [1.0]]), np.array([-1, 1]), words("tie")
        )
        x = np.array([[0.0]])
        assert found.leads(x).tolist() in ([-2], [0], [2])
        assert found(x).tolist() == ([1] if found.leads(x)[0] >= 0 else [-1])


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({"epsilon": 0}, "epsilon"),
            ({"epsilon": float("nan")}, "epsilon"),
            ({"rounds": 0}, "rounds"),
            ({"rounds": 1.5}, "rounds"),
            ({"rounds": True}, "rounds"),
            ({"edge": 0}, "edge"),
            ({"edge": "1/2"}, "edge"),
            ({"edge": float("nan")}, "edge"),
            ({"cap": 0}, "cap"),
        ],
    )
    def test_numbers(self, given: dict[str, Any], what: str) -> None:
        with pytest.raises(InvalidParameter, match=what):
            Boosting.of(**{"epsilon": 1, **given})

    @pytest.mark.parametrize("spoilt", ["label", "nan", "empty"])
    def test_examples(self, spoilt: str) -> None:
        x, y = income("refused", 20)
        if spoilt == "label":
            y[3] = 0
        elif spoilt == "nan":
            x[3, 0] = np.nan
        else:
            x, y = x[:0], y[:0]
        with pytest.raises(InvalidRecord, match=r"labels|features"):
            Boosting.of(1).fit(STUMPS, x, y, Untouched())
