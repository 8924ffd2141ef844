"""Trees in two rounds: the screens, the joint table, what is kept, and the constant."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from askance_aggregator.learners import Answers, Batch, decision_tree
from askance_aggregator.learners.decision_tree import (
    DOUBT,
    FEWEST_CELLS,
    MOST_CELLS,
    Grouping,
    GrowthRule,
    JointTable,
    Screen,
    TreeNoise,
    cells_within,
    choose_groupings,
    even_grouping,
    grow,
    largest_shape,
)
from askance_aggregator.learners.encodings import cells
from askance_aggregator.learners.learning import Answer, Question
from askance_aggregator.learners.trees import bits_of
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import plan, rehearse
from askance_aggregator.queries import encode_columns, predicate
from askance_aggregator.studies.study import Study
from askance_client.queries import Category, Integer, Label, Schema

SCHEMA = Schema(
    "fruit",
    1,
    colour=Category(["red", "green", "blue", "white", "black"]),
    size=Integer(0, 15),
    sour=Category(["no", "yes"]),
    kind=Label(["apple", "pear"]),
)
PARTS = {name: cells(SCHEMA, name)[0] for name in ("colour", "size", "sour")}
RULE = GrowthRule(depth=6, min_share=1e-9)
NANO_NATS = 10**9


def lost(table: NDArray[np.float64], groups: tuple[tuple[int, ...], ...]) -> float:
    return sum(float(bits_of(table[list(group)].sum(axis=0))) for group in groups)


@pytest.mark.parametrize("seed", range(5))
def test_the_cells_of_a_number_are_joined_in_the_ranges_that_keep_most(seed: int) -> None:
    table = np.random.default_rng(seed).dirichlet(np.ones(16)).reshape(8, 2)
    for count, (gain, grouping) in enumerate(Screen(PARTS["size"], table, 0.0).groupings(), 1):
        assert [cell for group in grouping.groups for cell in group] == list(range(8))
        options = [
            tuple(tuple(range(a, b)) for a, b in zip((0, *cut), (*cut, 8), strict=True))
            for cut in combinations(range(1, 8), count - 1)
        ]
        least = min(lost(table, option) for option in options)
        assert lost(table, grouping.groups) == pytest.approx(least)
        assert gain == pytest.approx(float(bits_of(table.sum(axis=0))) - least)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("colour", ((1, 4), (0,), (2, 3))),
        ("size", ((0, 1, 2), (3, 4), (5, 6, 7))),
        ("sour", ((1,), (0,))),
    ],
)
def test_the_index_of_a_group_is_that_of_the_cells_of_a_record(
    name: str, groups: tuple[tuple[int, ...], ...]
) -> None:
    rows: dict[str, Any] = {
        "colour": ["red", "green", "blue", "white", "black"],
        "size": [0, 5, 9, 12, 15],
        "sour": ["no", "yes", "yes", "no", "no"],
        "kind": ["apple"] * 5,
    }
    found = Grouping(PARTS[name], groups)
    where = PARTS[name].of(encode_columns(SCHEMA, rows)).tolist()
    for number, group in enumerate(groups):
        question = Question(predicate(found.index == number))
        (answer,) = ExactOracle(SCHEMA, rows).answer(Batch([question]))
        assert answer.value == pytest.approx(sum(cell in group for cell in where) / 5)


def screens(noise: float, seed: int = 1) -> list[Screen]:
    """Colour tells nothing but noise, size and sour a lot."""
    rng = np.random.default_rng(seed)
    even = {name: np.full((len(part), 2), 0.5 / len(part)) for name, part in PARTS.items()}
    even["size"][:4] += [0.04, -0.04]
    even["size"][4:] -= [0.04, -0.04]
    even["sour"] += [[0.1, -0.1], [-0.1, 0.1]]
    return [
        Screen(part, even[name] + noise * rng.standard_normal((len(part), 2)), noise)
        for name, part in PARTS.items()
    ]


def test_a_field_of_noise_does_not_displace_one_that_tells() -> None:
    """Pure noise has a gain in every sample, and in more cells more of it."""
    for seed in range(200):
        chosen = choose_groupings(screens(0.01, seed), 4)
        assert [axis.part.name for axis in chosen] == ["size", "sour"]


@pytest.mark.parametrize("name", ["colour", "size"])
def test_most_of_the_gain_that_noise_shows_is_taken_off(name: str) -> None:
    """Best two groups of each of 400 tables of noise."""
    part, kept, shown = PARTS[name], 0.0, 0.0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        table = np.full((len(part), 2), 0.5 / len(part))
        table += 0.02 * rng.standard_normal(table.shape)
        ((_, _), (less, grouping), *_) = Screen(part, table, 0.02).groupings()
        total = float(bits_of(table.sum(axis=0)))
        kept, shown = kept + less, shown + total - lost(np.clip(table, 0, None), grouping.groups)
    assert 0 < kept < 0.5 * shown


def test_a_joint_table_is_no_larger_than_allowed() -> None:
    for limit in (2, 3, 4, 7, 8, 12, 100):
        size = prod(len(axis) for axis in choose_groupings(screens(0.03), limit))
        assert 1 < size <= limit


def test_exact_screens_refine_a_field_until_its_groups_tell_all() -> None:
    (sour,) = (axis for axis in choose_groupings(screens(0.0), 256) if axis.part.name == "sour")
    (size,) = (axis for axis in choose_groupings(screens(0.0), 256) if axis.part.name == "size")
    assert sour.groups in (((0,), (1,)), ((1,), (0,)))
    assert size.groups == ((0, 1, 2, 3), (4, 5, 6, 7))


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 5, 12, 50]))
def test_no_answers_lead_to_a_larger_table_than_the_rehearsed_one(seed: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    found = [Screen(part, rng.standard_normal((len(part), 2)), 0.0) for part in PARTS.values()]
    size = prod(len(axis) for axis in choose_groupings(found, limit))
    largest = prod(largest_shape(tuple(PARTS.values()), limit))
    assert size <= largest <= limit
    _, joint = rehearse(decision_tree(SCHEMA, cells=limit))
    assert joint.questions[0].values == 2 * largest + 1


def table_of(shares: Any, variance: float = 0.0, tolerance: float = 0.0) -> JointTable:
    array = np.array(shares, dtype=np.float64)
    axes = tuple(
        even_grouping(part, count)
        for part, count in zip(PARTS.values(), array.shape[:-1], strict=False)
    )
    return JointTable(axes, array, np.full(array.shape, variance), tolerance)


TILTED = [[[0.4, 0.1], [0.2, 0.05]], [[0.13, 0.02], [0.02, 0.08]]]
"""The last cell has the second class, by 0.06; the others have the first."""


@pytest.mark.parametrize(
    ("variance", "tolerance", "leaves"),
    [
        (0.0, 0.0, 3),
        (0.059**2 / 2, 0.0, 3),
        (0.061**2 / 2, 0.0, 1),
        (0.0, 0.029, 3),
        (0.0, 0.031, 1),
    ],
)
def test_a_subtree_is_kept_if_it_gains_beyond_its_error(
    variance: float, tolerance: float, leaves: int
) -> None:
    """The error is a deviation of the difference of two classes, or two promised tolerances."""
    nodes = grow(table_of(TILTED, variance, tolerance), RULE)
    assert sum(node.split is None for node in nodes) == leaves


def test_the_error_of_a_leaf_grows_with_its_cells() -> None:
    """The same difference over two cells: their errors add up."""
    halved = [[[0.3, 0.075], [0.3, 0.075]], [[0.01, 0.04], [0.01, 0.04]]]
    assert len(grow(table_of(halved, 0.041**2 / 2), RULE)) == 3
    assert len(grow(table_of(halved, 0.043**2 / 2), RULE)) == 1
    assert len(grow(table_of(halved, 0.0, 0.0149), RULE)) == 3
    assert len(grow(table_of(halved, 0.0, 0.0151), RULE)) == 1


def test_a_tree_is_no_deeper_than_asked() -> None:
    assert len(grow(table_of(TILTED), GrowthRule(depth=1, min_share=1e-9))) == 1
    assert len(grow(table_of(TILTED), GrowthRule(depth=2, min_share=1e-9))) == 5


def test_variances_are_those_of_the_mean_of_equal_questions() -> None:
    rng = np.random.default_rng(3)
    answers = []
    for _ in range(2_000):
        values = tuple(rng.normal(0.25, 0.1, 3).tolist())
        answers.append(Answer(values, values, values))
    table = JointTable.of((), tuple(answers), 2, None)
    assert table.variances == pytest.approx(np.full(2, 0.1**2 / 2_000), rel=0.2)
    assert table.shares == pytest.approx(np.full(2, 0.25), abs=0.02)
    promised = JointTable.of((), tuple(answers), 2, Fraction(1, 10))
    assert not promised.variances.any()
    assert promised.tolerance == 0.1


N = 2_000
RNG = np.random.default_rng(8)
SIZES, SOUR = RNG.integers(0, 16, N), RNG.integers(0, 2, N)
PEARS = (SIZES >= 8) & (SOUR == 1)


def columns(pears: NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "colour": ["red"] * N,
        "size": SIZES,
        "sour": np.where(SOUR == 1, "yes", "no"),
        "kind": np.where(pears, "pear", "apple"),
    }


class Changing:
    """Oracle whose users are others from the third round on."""

    def __init__(self) -> None:
        self.rounds = 0
        self.batches: list[Batch] = []

    def answer(self, batch: Batch) -> Answers:
        self.batches.append(batch)
        pears = PEARS if len(self.batches) < 3 else ~PEARS
        return ExactOracle(SCHEMA, columns(pears)).answer(batch)


def test_a_checked_tree_is_concluded_where_it_is_better_than_the_constant() -> None:
    tree = learn(decision_tree(SCHEMA, decide="check"), ExactOracle(SCHEMA, columns(PEARS)))
    assert (tree.predict(columns(PEARS)) == columns(PEARS)["kind"]).all()
    assert not tree.is_constant


def test_a_checked_tree_is_the_constant_where_users_show_that_it_is_wrong() -> None:
    oracle = Changing()
    tree = learn(decision_tree(SCHEMA, decide="check"), oracle)
    assert tree.is_constant
    assert sum(tree.leaves[0].shares) == pytest.approx(1.0)
    asked = [len(batch.questions) for batch in oracle.batches]
    assert asked == [3, 8, 3]  # a fifth of 14, rounded up


@pytest.mark.parametrize("tau", [None, "1/4"])
def test_a_check_is_rehearsed(tau: str | None) -> None:
    *_, check = rehearse(decision_tree(SCHEMA, decide="check", tau=tau))
    assert [question.values for question in check.questions] == [5] * (3 if tau is None else 1)


def test_a_tree_of_one_leaf_is_not_checked() -> None:
    oracle = Changing()
    tree = learn(decision_tree(SCHEMA, decide="check", min_share="1/2"), oracle)
    assert tree.depth == 0
    assert len(oracle.batches) == 2


def test_where_nothing_can_be_told_only_the_classes_are_asked_for() -> None:
    oracle = Changing()
    tree = learn(decision_tree(SCHEMA, decide="constant"), oracle)
    assert [question.values for batch in oracle.batches for question in batch.questions] == [3]
    assert tree.is_constant
    assert tree.leaves[0].shares == pytest.approx((1 - PEARS.mean(), PEARS.mean()))


def test_noise_decides_on_the_table_and_the_tree() -> None:
    """The figures of Adult, 7 fields and 26,049 users: v at epsilon .5, 1, 2, 4 and 8."""
    found = [TreeNoise(v, 7, 26_049) for v in (15.4, 3.62, 0.705, 0.067, 0.0007)]
    assert [noise.decision for noise in found] == ["constant", "check", "model", "model", "model"]
    sizes = [noise.cells for noise in found]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (FEWEST_CELLS, MOST_CELLS)
    assert TreeNoise(1.0, 7, 0).decision == "constant"
    assert TreeNoise(0.0, 7, 100).cells == MOST_CELLS


def test_the_decision_changes_at_the_stated_noise() -> None:
    def decision(screen: float) -> str:
        return TreeNoise(1.0, 8, round(16 / screen**2)).decision

    assert decision(DOUBT.clear * 0.99) == "model"
    assert decision(DOUBT.clear * 1.01) == decision(DOUBT.hopeless * 0.99) == "check"
    assert decision(DOUBT.hopeless * 1.01) == "constant"


def test_a_tolerance_sets_the_size_of_the_table() -> None:
    assert [cells_within(Fraction(1, n)) for n in (4, 100, 10_000)] == [
        FEWEST_CELLS,
        10,
        MOST_CELLS,
    ]


def test_a_study_is_settled_by_its_users_and_nothing_that_was_given_is_changed() -> None:
    def settled(users: int, **given: Any) -> dict[str, str]:
        return dict(Study(decision_tree(SCHEMA, **given), epsilon=1).settled(users).parameters)

    few, many = settled(500), settled(10**6)
    assert (few["decide"], many["decide"]) == ("constant", "model")
    assert int(few["cells"]) < int(many["cells"])
    assert "tau" not in many
    kept = settled(500, decide="model", cells=20)
    assert (kept["decide"], kept["cells"]) == ("model", "20")


@pytest.mark.parametrize(
    "nano_nats",
    [NANO_NATS, *(pytest.param(n * NANO_NATS, marks=pytest.mark.slow) for n in (4, 16))],
)
def test_a_plan_without_users_asks_for_as_many_as_the_tree_needs(nano_nats: int) -> None:
    """About as many as leave a deviation of 0.003, and no fewer where answers are exact."""
    made = plan(decision_tree(SCHEMA), nano_nats, 0.01)
    assert "tau" in made.settings
    again = plan(decision_tree(SCHEMA), nano_nats, 0.01, n_users=made.users_needed)
    assert [part.queries for part in made.rounds] == [part.queries for part in again.rounds]
    variance = again.rounds[1].n_variance
    wanted = (variance + 1 / 16) * (3 + 8) / (8 * 0.003**2)
    assert made.users_needed == pytest.approx(wanted, rel=0.25)
    assert again.settings["decide"] == made.settings["decide"] == "model"
    assert int(again.settings["cells"]) == pytest.approx(int(made.settings["cells"]), rel=0.2)
