"""Decision trees: which split is taken, what is asked, what the tree predicts."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    DecisionTree,
    decision_tree,
    find,
    hypothesis_from_json,
)
from askance_aggregator.learners.trees import Split, TreeNode, best_split
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import rehearse
from askance_client.errors import InvalidParameter
from askance_client.queries import Bits, Category, Integer, Label, Schema

ANY = 1e-9  # the least share on a side
SCHEMA = Schema(
    "fruit",
    1,
    colour=Category(["red", "green", "blue"]),
    size=Integer(0, 15),
    spots=Bits(2),
    kind=Label(["apple", "pear"]),
)
RNG = np.random.default_rng(5)
N = 3_000
COLUMNS: dict[str, Any] = {
    "colour": RNG.choice(["red", "green", "blue"], N),
    "size": RNG.integers(0, 16, N),
    "spots": RNG.integers(0, 2, (N, 2)),
}
PEARS = np.where(COLUMNS["colour"] == "green", COLUMNS["size"] >= 8, COLUMNS["spots"][:, 1] == 1)
COLUMNS["kind"] = np.where(PEARS, "pear", "apple")


def entropy(counts: NDArray[np.float64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum() * counts.sum())


@pytest.mark.parametrize("seed", range(20))
def test_of_two_classes_no_split_of_a_category_in_two_gains_more(seed: int) -> None:
    table = np.random.default_rng(seed).dirichlet(np.ones(10)).reshape(5, 2)
    found = best_split(table, ANY, ordered=False)
    whole = entropy(table.sum(axis=0))
    gains = [
        whole - entropy(table[list(left)].sum(axis=0)) - entropy(np.delete(table, left, 0).sum(0))
        for size in (1, 2, 3, 4)
        for left in combinations(range(5), size)
    ]
    assert found is not None
    assert found.gain == pytest.approx(max(gains))


def test_a_number_is_cut_between_neighbours() -> None:
    table = np.array([[0.3, 0.0], [0.0, 0.2], [0.0, 0.2], [0.3, 0.0]])
    ordered = best_split(table, ANY, ordered=True)
    free = best_split(table, ANY, ordered=False)
    assert ordered is not None
    assert ordered.cells in ((0,), (0, 1, 2))
    assert free is not None
    assert set(free.cells) in ({0, 3}, {1, 2})


def test_a_split_without_a_gain_is_none() -> None:
    assert best_split(np.full((2, 2), 0.25), ANY, ordered=False) is None
    assert best_split(np.zeros((2, 2)), ANY, ordered=False) is None
    assert best_split(np.array([[0.5, 0.5]]), ANY, ordered=True) is None


def test_both_sides_of_a_split_hold_the_least_share() -> None:
    table = np.array([[0.5, 0.0], [0.4, 0.05], [0.0, 0.05]])
    strict = best_split(table, 0.2, ordered=True)
    assert strict is not None
    assert strict.cells == (0,)
    loose = best_split(table, 0.01, ordered=True)
    assert loose is not None
    assert loose.cells == (0, 1)


def test_a_planted_tree_is_found() -> None:
    tree = learn(decision_tree(SCHEMA, depth=3), ExactOracle(SCHEMA, COLUMNS))
    assert (tree.predict(COLUMNS) == COLUMNS["kind"]).all()
    root = tree.nodes[0]
    assert root.split is not None
    assert root.split.part == "spots[1]"  # the best single one: for two colours of three
    assert tree.depth == 3
    assert str(tree).startswith("if spots[1] is ")


def test_leaves_of_one_class_are_joined() -> None:
    constant = {**COLUMNS, "kind": np.where(COLUMNS["size"] < 1, "pear", "apple")}
    tree = learn(decision_tree(SCHEMA, depth=3, min_share="1/4"), ExactOracle(SCHEMA, constant))
    assert [node.place for node in tree.nodes] == [1]
    assert tree.predict({"size": [0, 9]}).tolist() == ["apple", "apple"]


class Wavering:
    """The exact answers, each copy of a question shifted by so much, up and down in turn."""

    def __init__(self, shift: float) -> None:
        self.exact, self.shift = ExactOracle(SCHEMA, COLUMNS), shift

    def answer(self, batch: Batch) -> Answers:
        answers = self.exact.answer(batch)
        if len({question.query.canonical for question in batch.questions}) > 1:
            return answers  # the screens
        return tuple(
            Answer(*[tuple(np.array(answer.values) + sign * self.wave(answer))] * 3)
            for sign, answer in zip((1, -1) * len(answers), answers, strict=False)
        )

    def wave(self, answer: Answer) -> NDArray[np.float64]:
        return np.asarray(self.shift * (-1.0) ** np.arange(len(answer.values)), dtype=np.float64)


def test_a_class_of_its_own_is_beyond_the_variation_among_equal_questions() -> None:
    assert learn(decision_tree(SCHEMA), Wavering(0.001)).depth > 1
    assert learn(decision_tree(SCHEMA), Wavering(5.0)).depth == 0


def test_shares_in_a_leaf_are_those_of_the_people_in_it() -> None:
    tree = learn(decision_tree(SCHEMA, depth=1), ExactOracle(SCHEMA, COLUMNS))
    places = tree.apply(COLUMNS)
    for leaf in tree.leaves:
        here = places == leaf.place
        pears = (COLUMNS["kind"][here] == "pear").sum() / N
        assert leaf.shares == pytest.approx((here.mean() - pears, pears))
    proba = tree.predict_proba(COLUMNS)
    assert proba.sum(axis=1) == pytest.approx(np.ones(N))


def test_who_lacks_a_field_goes_with_all_others() -> None:
    schema = Schema("s", 1, colour=Category(["red", "green", "blue"]))
    nodes = (
        TreeNode(1, split=Split("colour", (1,))),
        TreeNode(2, (0.1, 0.3)),
        TreeNode(3, (0.5, 0.1)),
    )
    tree = DecisionTree(schema, 8, "kind", ("apple", "pear"), nodes)
    assert tree.predict({"colour": ["green", "red", None]}).tolist() == ["pear", "apple", "apple"]


def test_the_screens_are_one_question_per_part_and_the_joint_table_as_many_users() -> None:
    screens, joint = rehearse(decision_tree(SCHEMA, bins=4))
    assert [question.values for question in screens.questions] == [3 * 2 + 1, 4 * 2 + 1, 5, 5]
    assert [question.values for question in joint.questions] == [3 * 4 * 2 * 2 * 2 + 1] * 8
    assert len({question.query.canonical for question in joint.questions}) == 1


def test_with_a_tolerance_the_joint_table_is_asked_for_once() -> None:
    screens, joint = rehearse(decision_tree(SCHEMA, tau="1/100"))
    assert len(joint.questions) == 1
    assert {question.tau for question in (*screens.questions, *joint.questions)} == {
        Fraction(1, 100)
    }


def test_a_tree_is_read_as_it_was_written() -> None:
    tree = learn(decision_tree(SCHEMA, depth=3), ExactOracle(SCHEMA, COLUMNS))
    written = json.loads(json.dumps(tree.to_json(), allow_nan=False))
    assert hypothesis_from_json("decision-tree", written) == tree


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": []}, "each node once"),
        ({"nodes": [{"place": 1, "shares": [1.0]}]}, "a share for each class"),
        ({"nodes": [{"place": 2, "shares": [0.5, 0.5]}]}, "each node once"),
        ({"nodes": [{"place": 1, "part": "shape", "cells": [0]}]}, "each node once"),
        ({"bins": 1}, "bins: expected"),
        ({"classes": ["apple"]}, "each node once, from place 1, and classes"),
    ],
)
def test_what_is_no_tree_is_refused(change: dict[str, Any], message: str) -> None:
    tree = learn(decision_tree(SCHEMA, depth=1), ExactOracle(SCHEMA, COLUMNS))
    with pytest.raises(InvalidParameter, match=message):
        hypothesis_from_json("decision-tree", {**tree.to_json(), **change})


def test_a_split_names_cells_that_are_there() -> None:
    leaves = (TreeNode(2, (0.5, 0.0)), TreeNode(3, (0.0, 0.5)))
    for split, message in (
        (Split("shape", (0,)), "of a field that is there"),
        (Split("colour", (0, 1, 2)), "some of the field's cells"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            DecisionTree(SCHEMA, 8, "kind", ("apple", "pear"), (TreeNode(1, split=split), *leaves))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": "0"}, "depth: expected a whole number in 1..12"),
        ({"min_share": "0.7"}, "min_share expects"),
        ({"columns": "kind"}, "columns besides kind"),
        ({"columns": "shape"}, "got 'shape'"),
        ({"label": "size"}, "label expects a category"),
        ({"tau": "0"}, "tau expects a positive number"),
        ({"cells": "1"}, "cells: expected a whole number in 2..4096"),
        ({"copies": "0"}, "copies: expected a whole number in 2..4096"),
        ({"decide": "perhaps"}, "decide: "),
    ],
)
def test_a_wrong_parameter_is_named(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        next(find("decision-tree").build(SCHEMA, parameters).run())
