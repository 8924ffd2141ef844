"""Gain of lying devices: at most their influence each, attained by one attack.

All reports pass every check.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from askance_aggregator.estimation import estimate, influence
from askance_aggregator.families import (
    family_of,
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import Question
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
    vector,
)
from askance_client.exact_laws import probability, valid
from askance_client.queries import (
    Category,
    Integer,
    Query,
    Schema,
)
from askance_client.randomizers import COIN_SPACE, Channel, Randomizer
from askance_simulation.disturbances import ATTACKS, Misbehaviour
from askance_simulation.families.favouring import favour
from askance_simulation.randomness import Seed, SeededCoins

NAT = 10**9
PEOPLE, LIARS = 600, 80
SCHEMA = Schema(
    "people",
    1,
    age=Integer(0, 100),
    kind=Category("abcdefgh"),
    place=Integer(0, 8),
    many=Integer(0, 1999),
)


def three_levels() -> Channel:
    """Return a table over 0, 1/2, 1 of loss ln 3: each symbol is likeliest from its own end."""
    unit = COIN_SPACE // 12
    rows = ((6, 4, 2), (3, 6, 3), (2, 4, 6))
    return Channel(tuple((a * unit, b * unit, COIN_SPACE - (a + b) * unit) for a, b, _ in rows))


QUESTIONS: dict[str, tuple[Query, Randomizer]] = {
    "predicate": (predicate(SCHEMA.age > 30), randomized_response(NAT)),
    "predicate by sets": (predicate(SCHEMA.age > 30), subset_selection(2, NAT)),
    "mean by a bit": (real(SCHEMA.age), randomized_response(NAT)),
    "mean by a table": (real(SCHEMA.age), three_levels()),
    "cells by sets": (category(SCHEMA.kind), subset_selection(8, NAT)),
    "cells by k-ary": (category(SCHEMA.kind), k_ary_response(8, 3 * NAT)),
    "cells by hashing": (category(SCHEMA.kind), linear_hashing(8, NAT)),
    "many cells by hashing": (category(SCHEMA.many), linear_hashing(2000, NAT)),
    "signs by k-ary": (signed(SCHEMA.place), k_ary_response(9, NAT)),
    "signs by sets": (signed(SCHEMA.place), subset_selection(9, NAT)),
    "signs by rows": (signed(SCHEMA.place), hadamard_sign(4, NAT)),
    "signs by signed sets": (signed(SCHEMA.place), signed_subset_selection(4, NAT)),
    "a vector": (
        vector([SCHEMA.age, SCHEMA.age * 1, 100 - SCHEMA.age]),
        hypercube_response(3, NAT),
    ),
}
CASES = list(product(QUESTIONS, ATTACKS))


class Crowd:
    """People at level 0, or, the first of them, liars."""

    def __init__(
        self, name: str, attack: str, seed: int = 1, targets: tuple[int, ...] = ()
    ) -> None:
        self.query, self.randomizer = QUESTIONS[name]
        behaviour = Misbehaviour(liars=1, attack=attack, targets=targets)(Seed.of(seed))
        coins = SeededCoins(Seed.of(seed) / "coins")
        randomizer = self.randomizer
        self.honest = [
            randomizer.randomize(0, coins.words(b"r", ordinal, randomizer.coins))
            for ordinal in range(PEOPLE)
        ]
        self.lies = [
            behaviour.lie(b"r" * 32, ordinal, self.query, randomizer, 0) for ordinal in range(LIARS)
        ]

    def answer(self, reports: list[bytes]) -> np.ndarray:
        """Return the raw answer."""
        randomizer = self.randomizer
        table = np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), randomizer.width)
        counts = family_of(randomizer).tally(table)
        found = estimate(Question(self.query), randomizer, counts, len(reports), 0.05)
        return np.array(found.values)

    def gain(self) -> np.ndarray:
        """Compute the lies' shift of each value."""
        attacked = self.answer([*self.lies, *self.honest[LIARS:]])
        moved: np.ndarray = attacked - self.answer(self.honest)
        return moved


@pytest.mark.parametrize(("name", "attack"), CASES)
def test_every_lie_is_a_report_of_the_alphabet(name: str, attack: str) -> None:
    crowd = Crowd(name, attack)
    assert all(valid(crowd.randomizer, lie) for lie in crowd.lies)


@pytest.mark.parametrize(("name", "attack"), CASES)
def test_m_liars_gain_at_most_m_times_the_influence(name: str, attack: str) -> None:
    for seed in range(3):
        crowd = Crowd(name, attack, seed)
        bound = LIARS * influence(Question(crowd.query), crowd.randomizer, PEOPLE)
        assert np.abs(crowd.gain()).max() <= float(bound) * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "many cells by hashing"])
def test_the_extreme_message_attains_the_influence(name: str) -> None:
    """The lie is compared with the alphabet's worst report for each value."""
    crowd = Crowd(name, "extreme")
    query, randomizer = crowd.query, crowd.randomizer
    lie, *others = crowd.lies[0], *crowd.honest[1:20]
    raised = crowd.answer([lie, *others])
    fallen = np.min(
        [crowd.answer([one, *others]) for one in family_of(randomizer).alphabet()], axis=0
    )
    bound = float(influence(Question(query), randomizer, 20))
    assert (raised - fallen).max() == pytest.approx(bound)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_more_an_attack_knows_the_more_it_gains(name: str) -> None:
    """On the target's value: an aimless lie < an honest report of the target < the best report."""
    _, randomizer = QUESTIONS[name]
    target = 2 if randomizer.levels > 3 else randomizer.levels - 1
    gains = {}
    for attack in ("rpa", "ria", "mga"):
        moved = Crowd(name, attack, seed=5, targets=(target,)).gain()
        value = {"s": target // 2, "c": target, "m": 0, "p": 0, "a": 1}[name[0]]
        gains[attack] = moved[value if "many" not in name else target]
    assert gains["rpa"] < gains["ria"] < gains["mga"]


def test_all_targets_that_fit_are_in_a_set() -> None:
    crowd = Crowd("cells by sets", "mga", targets=(6,))
    for lie in crowd.lies:
        members = np.flatnonzero(np.unpackbits(np.frombuffer(lie, np.uint8)))
        assert 6 in members
        assert len(members) == 2
    assert len(set(crowd.lies)) > 1  # and is filled up at random
    assert set(Crowd("cells by sets", "mga", targets=(6, 1)).lies) == {bytes([0b01000010])}
    few = Crowd("cells by sets", "mga", targets=tuple(range(8)))
    assert len(set(few.lies)) > 1


def test_a_low_target_of_a_mean_is_pushed_down_as_far_as_one_report_can() -> None:
    crowd = Crowd("mean by a table", "extreme", targets=(0,))
    lie, *others = crowd.lies[0], *crowd.honest[1:20]
    risen = np.max([crowd.answer([one, *others]) for one in family_of(crowd.randomizer).alphabet()])
    bound = float(influence(Question(crowd.query), crowd.randomizer, 20))
    assert risen - crowd.answer([lie, *others])[0] == pytest.approx(bound)


def test_a_hash_is_chosen_by_chance_among_those_that_join_the_most_targets() -> None:
    """Any fixed one would give liars away; five targets are seldom met by one honest report."""
    targets = (3, 500, 901, 1402, 1997)
    crowd = Crowd("many cells by hashing", "mga", targets=targets)
    own = max(probability(crowd.randomizer, 3, lie) for lie in crowd.honest)
    met = [sum(probability(crowd.randomizer, t, lie) == own for t in targets) for lie in crowd.lies]
    assert min(met) >= 4
    assert len(set(crowd.lies)) > LIARS // 2


def test_a_target_that_a_question_has_not_is_left_out() -> None:
    assert Crowd("predicate", "mga", targets=(7,)).lies == Crowd("predicate", "mga").lies
    one, both = (Crowd("cells by k-ary", "mga", targets=t).lies for t in ((3,), (3, 99)))
    assert one == both == [bytes([3])] * LIARS


def test_lies_are_a_function_of_seed_request_and_ordinal() -> None:
    query, randomizer = QUESTIONS["cells by sets"]
    liar = Misbehaviour(liars=1, attack="rpa")(Seed.of(2))
    said = [liar.lie(request, o, query, randomizer, 1) for request in (b"a", b"b") for o in (0, 1)]
    assert len(set(said)) > 1
    assert said[0] == liar.lie(b"a", 0, query, randomizer, 5)
    assert (
        Misbehaviour(liars=1, attack="rpa")(Seed.of(2)).lie(b"a", 0, query, randomizer, 1)
        == said[0]
    )


@pytest.mark.parametrize("name", ["cells by sets", "cells by k-ary", "signs by rows", "a vector"])
def test_random_reports_are_even(name: str) -> None:
    """Every report of a small alphabet about as often: chi square at ALPHA = 1e-6."""
    from scipy.stats import chisquare

    query, randomizer = QUESTIONS[name]
    liar = Misbehaviour(liars=1, attack="rpa")(Seed.of(3))
    alphabet = list(family_of(randomizer).alphabet())
    place = {report: number for number, report in enumerate(alphabet)}
    counts = np.zeros(len(alphabet), int)
    for ordinal in range(4000):
        counts[place[liar.lie(b"r", ordinal, query, randomizer, 0)]] += 1
    assert chisquare(counts).pvalue > 1e-6


def test_a_family_without_a_case_of_its_own_is_attacked_by_the_best_of_honest_reports() -> None:
    randomizer = hadamard_sign(5000, NAT)
    weights = ((8, 1), (9, -1))
    coins = SeededCoins(Seed.of(1))
    report = favour(randomizer, weights, lambda count: coins.words(b"r", 0, count))
    assert valid(randomizer, report)
    assert probability(randomizer, 8, report) > probability(randomizer, 9, report)
