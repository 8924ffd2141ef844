"""Conjunctions and disjunctions of literals, and decision lists: every concept, every adversary."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Batch,
    DecisionList,
    Disjunction,
    Learner,
    LiteralConjunction,
    Rule,
    decision_lists,
    disjunctions,
    hypothesis_from_json,
    labelled_bits_schema,
    literal_conjunctions,
)
from askance_aggregator.oracles import (
    CheckedOracle,
    ExactOracle,
    Oracle,
    RandomSignOracle,
    WrongSideOracle,
    learn,
)
from askance_aggregator.planning import plan
from askance_client.errors import InvalidAnswer, InvalidParameter
from askance_client.queries import Integer, Label, Schema
from askance_simulation.randomness import Seed, SeededWords

D = 3
X = np.array(list(product((0, 1), repeat=D)))
SCHEMA = labelled_bits_schema(D)
WEIGHTS = [int(w) for w in np.random.default_rng(5).integers(1, 100, len(X))]
Concept = LiteralConjunction | Disjunction | DecisionList


def joined(kind: type[LiteralConjunction] | type[Disjunction]) -> Iterator[Any]:
    """Generate all 27 choices of each variable plain, negated or left out."""
    for signs in product((0, 1, 2), repeat=D):
        plain, negated = ([j for j in range(D) if signs[j] == sign] for sign in (1, 2))
        yield kind(D, tuple(plain), tuple(negated))


def lists(length: int) -> Iterator[DecisionList]:
    """Generate every decision list of that many rules over three bits."""
    for variables in permutations(range(D), length):
        for bits in product((0, 1), repeat=2 * length + 1):
            pairs = zip(variables, bits[:length], bits[length:-1], strict=True)
            yield DecisionList(D, tuple(Rule(*rule) for rule in pairs), bits[-1])


def exact(target: Concept) -> ExactOracle:
    return ExactOracle(SCHEMA, {"x": X, "y": target.predict({"x": X})}, WEIGHTS)


def adversaries(target: Concept) -> tuple[Oracle, ...]:
    truth = exact(target)
    words = SeededWords(Seed.of(1))
    return truth, WrongSideOracle(truth), RandomSignOracle(truth, words)


def error(found: Concept, target: Concept) -> Fraction:
    wrong = np.array(WEIGHTS)[found.predict({"x": X}) != target.predict({"x": X})].sum()
    return Fraction(int(wrong), sum(WEIGHTS))


@pytest.mark.parametrize("accuracy", [Fraction(1, 3), Fraction(1, 50)])
@pytest.mark.parametrize(
    ("make", "targets"),
    [
        (literal_conjunctions, list(joined(LiteralConjunction))),
        (disjunctions, list(joined(Disjunction))),
    ],
    ids=["conjunctions", "disjunctions"],
)
def test_joined_literals_err_on_less_than_the_accuracy(
    make: Any, targets: list[Any], accuracy: Fraction
) -> None:
    learner: Learner[Any] = make(SCHEMA, accuracy)
    for target in targets:
        for oracle in adversaries(target):
            found = learn(learner, CheckedOracle(oracle))
            assert set(target.variables) <= set(found.variables)
            assert set(target.negated) <= set(found.negated)
            assert error(found, target) < accuracy


@pytest.mark.parametrize("length", [1, 2])
def test_every_decision_list_is_learned_to_within_the_accuracy(length: int) -> None:
    for accuracy in (Fraction(1, 3), Fraction(1, 50)):
        learner = decision_lists(SCHEMA, accuracy, length)
        for target in list(lists(length))[:: 1 if length == 1 else 3]:
            for oracle in adversaries(target):
                assert error(learn(learner, CheckedOracle(oracle)), target) < accuracy


def test_half_the_accuracy_is_missed_where_tolerances_are_three_times_as_wide() -> None:
    """The adversary above has teeth."""
    target = LiteralConjunction(D, (0, 1, 2), ())

    class Careless:
        def answer(self, batch: Batch) -> Any:
            from askance_aggregator.learners import Question

            wider = Batch([Question(q.query, 3 * q.working_tau) for q in batch.questions])
            return WrongSideOracle(exact(target)).answer(wider)

    assert not set(target.variables) <= set(
        learn(literal_conjunctions(SCHEMA, Fraction(1, 3)), Careless()).variables
    )


def test_one_question_a_variable_for_both_of_its_literals() -> None:
    learner = literal_conjunctions(SCHEMA, "0.3")
    questions = next(learner.run()).questions
    assert [question.query.cells for question in questions] == [3] * D
    assert {question.tau for question in questions} == {Fraction(1, 40)}
    records = [("101", 1, [1, 0, 1]), ("101", 0, [2, 2, 2]), (None, 1, [2, 2, 2])]
    for x, y, expected in records:
        encoded = SCHEMA.encode({"x": x, "y": y})
        assert [question.query.evaluate(encoded) for question in questions] == expected


class TestDecisionLists:
    def test_a_round_settles_all_that_it_can(self) -> None:
        """x[0] = 1: 1, else x[1] = 0: 0, else 1: so x[1] = 1 is sure at once, as x[0] = 1 is."""
        target = DecisionList(D, (Rule(0, 1, 1), Rule(1, 0, 0)), 1)
        batches: list[Batch] = []

        class Watched:
            def answer(self, batch: Batch) -> Any:
                batches.append(batch)
                return exact(target).answer(batch)

        found = learn(decision_lists(SCHEMA, "1/50", 2), Watched())
        assert error(found, target) == 0
        assert [len(batch.questions) for batch in batches] == [3, 1]

    def test_a_question_is_about_examples_that_no_rule_has_caught(self) -> None:
        run = decision_lists(SCHEMA, "0.8", 2).run()
        first = next(run)
        assert {question.tau for question in first.questions} == {Fraction(1, 10)}
        mixed, sure = (0.2, 0.3, 0.2, 0.3, 0.0), (0.3, 0.2, 0.0, 0.5, 0.0)
        answers = tuple(Answer(row, row, row) for row in (sure, mixed, mixed))
        second = run.send(answers)  # x[0] = 1: 1
        cells = [
            [
                question.query.evaluate(SCHEMA.encode({"x": x, "y": y}))
                for question in second.questions
            ]
            for x, y in (("001", 1), ("010", 0), ("100", 1), ("011", None))
        ]
        assert cells == [[1, 3], [2, 0], [4, 4], [4, 4]]

    def test_what_is_no_list_is_refused_with_the_answer_that_says_so(self) -> None:
        parity = {"x": X, "y": X.sum(axis=1) % 2}
        with pytest.raises(
            InvalidAnswer,
            match=r"round 1: expected answers of a list of at most 2 rules: .* at most 0.0125"
            r" .* found 0.25 at the least, in the answer about x\[0\]",
        ):
            learn(decision_lists(SCHEMA, "0.1", 2), ExactOracle(SCHEMA, parity))

    def test_a_longer_list_than_promised_is_refused(self) -> None:
        target = DecisionList(D, (Rule(0, 0, 0), Rule(1, 0, 1), Rule(2, 0, 0)), 1)
        with pytest.raises(InvalidAnswer, match="round 2: expected answers of a list of at most 1"):
            learn(decision_lists(SCHEMA, "1/1000", 1), exact(target))
        assert learn(decision_lists(SCHEMA, "1/1000", 3), exact(target)) == target

    @pytest.mark.parametrize(("length", "rounds"), [(1, [3, 2]), (2, [3, 2, 1]), (9, [3, 2, 1])])
    def test_a_plan_is_for_as_many_rounds_as_there_may_be(
        self, length: int, rounds: list[int]
    ) -> None:
        planned = plan(decision_lists(SCHEMA, "1/2", length), 10**9, 0.01)
        assert [item.queries for item in planned.rounds] == rounds

    def test_the_first_rule_that_fits_decides(self) -> None:
        found = DecisionList(2, (Rule(1, 1, 0), Rule(0, 1, 1)), 0)
        assert found.predict({"x": [[0, 0], [1, 0], [0, 1], [1, 1]]}).tolist() == [0, 1, 0, 0]
        assert found.predict(np.array([[1, 0]])).tolist() == [1]
        assert str(found) == "x[1] = 1: 0, else x[0] = 1: 1, else 0"


def test_they_tell_themselves_in_words() -> None:
    assert str(LiteralConjunction(4, (2,), (0,))) == "not x[0] and x[2]"
    assert str(Disjunction(4, (2,), (0, 3))) == "not x[0] or x[2] or not x[3]"
    assert (str(LiteralConjunction(1, ())), str(Disjunction(1, ()))) == ("always", "never")
    x = np.array([[0, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
    assert LiteralConjunction(4, (2,), (0,)).predict({"x": x}).tolist() == [1, 0, 0]
    assert Disjunction(4, (2,), (0, 3)).predict(x).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("learner", "data", "message"),
    [
        ("disjunctions", {"d": 2, "variables": [2], "negated": []}, "ascending variables in 0..1"),
        ("disjunctions", {"d": 2, "variables": [1]}, "expected negated, got none"),
        ("decision-lists", {"d": 2, "rules": [[0, 1]], "default": 0}, "expected 3 values in rules"),
        ("decision-lists", {"d": 2, "rules": [[0, 1, 2]], "default": 0}, "values and labels 0 or"),
        (
            "decision-lists",
            {"d": 2, "rules": [[0, 1, 1]] * 2, "default": 0},
            "one rule per variable",
        ),
        ("decision-lists", {"d": 2, "rules": [[5, 1, 1]], "default": 0}, "variables in 0..1"),
    ],
)
def test_a_file_of_another_form_is_refused(learner: str, data: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        hypothesis_from_json(learner, data)


@pytest.mark.parametrize("make", [literal_conjunctions, disjunctions, decision_lists])
def test_they_need_their_schema_and_an_accuracy(make: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"expects the fields x=Bits\(d\)"):
        make(Schema("s", 1, x=Integer(0, 1), y=Label([0, 1])))
    for accuracy in (0, 1, "2"):
        with pytest.raises(InvalidParameter, match="accuracy expects"):
            make(SCHEMA, accuracy)
    with pytest.raises(InvalidParameter, match="length: expected a whole number of 1 or more"):
        decision_lists(SCHEMA, "1/2", 0)
