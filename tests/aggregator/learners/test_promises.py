"""Promises of adaptive learners under every valid oracle, including the adversarial ones.

An adversary answers within tau, always, and as badly as that allows. What is promised is then held
against the truth, from an exact oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners import (
    Answers,
    Batch,
    Clusters,
    GaussianMixture,
    Learner,
    decision_tree,
    gaussian_mixture,
    k_means,
    learners,
    logistic_regression,
    perceptron,
    perceptron_rounds,
)
from askance_aggregator.oracles import (
    CentreOracle,
    CheckedOracle,
    ExactOracle,
    LazyOracle,
    Oracle,
    RandomSignOracle,
    WrongSideOracle,
    learn,
)
from askance_simulation.populations import Population, clusters, halfspaces, traits
from askance_simulation.randomness import Seed, SeededWords

USERS = 4_000
TRAITS = traits(USERS, Seed.of(1))
HALVES = halfspaces(USERS, Seed.of(2), gap=15)
CLUMPS = clusters(USERS, Seed.of(3))
ADVERSARIES = ("exact", "wrong side", "lazy", "random signs", "other signs")
SETTLED = ("exact", "wrong side", "lazy")  # the same question has the same answer
ADAPTIVE = ("decision-tree", "logistic-regression", "perceptron", "k-means", "gaussian-mixture")
HOMES = (TRAITS, TRAITS, HALVES, CLUMPS, CLUMPS)


class Counting:
    """Counts the rounds of another oracle."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rounds = CheckedOracle(oracle), 0

    def answer(self, batch: Batch) -> Answers:
        self.rounds += 1
        return self.oracle.answer(batch)


def truth(people: Population) -> ExactOracle:
    return ExactOracle(people.schema, people.columns(0, people.size))


def valid(people: Population, adversary: str) -> Counting:
    exact = truth(people)
    oracles: dict[str, Oracle] = {
        "exact": exact,
        "wrong side": WrongSideOracle(exact),
        "lazy": LazyOracle(exact, CentreOracle()),
        "random signs": RandomSignOracle(exact, SeededWords(Seed.of(4))),
        "other signs": RandomSignOracle(exact, SeededWords(Seed.of(5))),
    }
    return Counting(oracles[adversary])


def shares(people: Population, hypothesis: Any) -> dict[int, NDArray[np.float64]]:
    """Return the true shares of classes in each leaf of a tree, of all users."""
    columns = people.columns(0, people.size)
    places, labels = hypothesis.apply(columns), columns.values[hypothesis.label]
    assert isinstance(labels, np.ndarray)
    return {
        leaf.place: np.bincount(labels[places == leaf.place], minlength=len(hypothesis.classes))
        / people.size
        for leaf in hypothesis.leaves
    }


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_tree_that_is_promised_tau_is_better_than_its_commonest_class(adversary: str) -> None:
    tree = learn(decision_tree(TRAITS.schema, tau="1/200"), valid(TRAITS, adversary))
    assert tree.depth >= 1
    estimated = np.sum([leaf.shares for leaf in tree.leaves], axis=0)
    true = shares(TRAITS, tree)
    right = sum(true[leaf.place][int(np.argmax(leaf.shares))] for leaf in tree.leaves)
    assert right > np.sum(list(true.values()), axis=0)[int(np.argmax(estimated))]


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_tree_that_is_promised_tau_predicts_no_class_that_is_much_rarer(adversary: str) -> None:
    tau, cells = Fraction(1, 200), 8
    tree = learn(decision_tree(TRAITS.schema, cells=cells, tau=tau), valid(TRAITS, adversary))
    lost = 0.0
    for leaf in tree.leaves:
        true = shares(TRAITS, tree)[leaf.place]
        lost += float(true.max() - true[int(np.argmax(leaf.shares))])
    assert lost < 2 * float(tau) * cells  # the leaves share the cells of the joint table


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_tree_splits_nothing_where_the_tolerance_tells_nothing(adversary: str) -> None:
    oracle = valid(TRAITS, adversary)
    tree = learn(decision_tree(TRAITS.schema, tau="1/4"), oracle)
    assert tree.depth == 0
    assert oracle.rounds == 2


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_perceptron_with_a_margin_reaches_its_accuracy_in_time(adversary: str) -> None:
    accuracy, margin = Fraction(1, 20), "0.15"
    oracle = valid(HALVES, adversary)
    learner = perceptron(
        HALVES.schema, accuracy=accuracy, margin=margin, rounds=perceptron_rounds(margin)
    )
    halfspace = learn(learner, oracle)
    columns = HALVES.columns(0, USERS)
    labels = halfspace.classes_[columns.values["y"]]
    assert oracle.rounds < perceptron_rounds(margin)
    assert (halfspace.predict(columns) != labels).mean() < accuracy


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_k_means_stops_early_only_where_centres_are_means(adversary: str) -> None:
    tau, rounds = Fraction(1, 50), 60
    oracle = valid(CLUMPS, adversary)
    found: Clusters = learn(k_means(CLUMPS.schema, k=3, rounds=rounds, tau=tau), oracle)
    rows = CLUMPS.columns(0, USERS)
    points, places = found.points(rows), found.predict(rows)
    for place, centre in enumerate(found.centres):
        off = ((points - np.array(centre)) * (places == place)[:, None]).mean(axis=0)
        assert oracle.rounds == rounds or np.abs(off).max() < 4 * float(tau)
    if adversary in SETTLED:
        assert oracle.rounds < rounds


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_mixture_stops_early_only_where_means_are_means(adversary: str) -> None:
    tau, rounds = Fraction(1, 50), 60
    oracle = valid(CLUMPS, adversary)
    learner = gaussian_mixture(CLUMPS.schema, k=3, rounds=rounds, tau=tau)
    found: GaussianMixture = learn(learner, oracle)
    rows = CLUMPS.columns(0, USERS)
    points, parts = found.points(rows), found.predict_proba(rows)
    for place, mean in enumerate(found.means):
        off = ((points - np.array(mean)) * parts[:, place, None]).mean(axis=0)
        if oracle.rounds < rounds:
            assert np.abs(off).max() < 4 * float(tau) + 0.005  # what a device's own r is off by


def open_learners() -> Iterator[Any]:
    for entry in learners():
        if entry.name in ADAPTIVE:
            people = HOMES[ADAPTIVE.index(entry.name)]
            for adversary in ADVERSARIES:
                yield pytest.param(entry.build(people.schema), people, adversary)


@pytest.mark.parametrize(("learner", "people", "adversary"), list(open_learners()))
def test_without_a_promise_nothing_breaks_either(
    learner: Learner[Any], people: Population, adversary: str
) -> None:
    hypothesis = learn(learner, valid(people, adversary))
    assert len(hypothesis.predict(people.columns(0, 50))) == 50
    assert str(hypothesis)


def test_a_tolerance_is_asked_for_in_every_question() -> None:
    tau = Fraction(1, 30)
    for learner in (
        decision_tree(TRAITS.schema, tau=tau),
        logistic_regression(TRAITS.schema, tau=tau),
        k_means(CLUMPS.schema, tau=tau),
        gaussian_mixture(CLUMPS.schema, tau=tau),
    ):
        batch: Batch = next(learner.run())
        assert {question.tau for question in batch.questions} == {tau}
