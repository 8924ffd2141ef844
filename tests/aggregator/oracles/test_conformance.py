"""Every learner on every oracle: exact by enumeration of concepts, and by the worst valid answers.

The adversary is off by as much as a valid oracle may be, in the direction that misleads most, so
these tests show that the stated tolerances are small enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Conjunction,
    Learner,
    MaskedParity,
    conjunctions,
    conjunctions_schema,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.oracles import EmpiricalOracle, ExactOracle, Oracle, learn
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.errors import LocalProtocolError


class OffBy:
    """Another oracle's answers, moved by just less than the tolerance."""

    def __init__(self, oracle: Oracle, sign: float) -> None:
        self._oracle, self._sign = oracle, sign

    def answer(self, batch: Batch) -> Answers:
        moved = []
        pairs = zip(batch.questions, self._oracle.answer(batch), strict=True)
        for question, answer in pairs:
            shift = self._sign * float(question.working_tau) * (1 - 1e-9)
            values = tuple(value + shift for value in answer.values)
            moved.append(Answer(values, values, values))
        return tuple(moved)


class Numbered:
    """Answers of the wrong number."""

    def answer(self, batch: Batch) -> Answers:
        return ()


def parity_domain(d: int) -> dict[str, np.ndarray]:
    rows = list(product(product((0, 1), repeat=d), range(d), (0, 1)))
    x, i, b = zip(*rows, strict=True)
    return {"x": np.array(x), "i": np.array(i), "b": np.array(b)}


def parity_oracle(concept: MaskedParity, domain: dict[str, np.ndarray]) -> ExactOracle:
    schema = masked_parity_schema(len(concept.r))
    return ExactOracle(schema, {**domain, "y": concept.predict(domain)})


def concepts(d: int) -> Iterator[MaskedParity]:
    return (MaskedParity(r, a) for r in product((0, 1), repeat=d) for a in (0, 1))


@pytest.mark.parametrize(
    ("d", "variant", "candidates"),
    [
        *[(d, variant, None) for d in (2, 4) for variant in ("signed", "printed")],
        *[(2, "signed", 3), (4, "signed", 2), (4, "signed", 15)],
    ],
)
def test_masked_parity_is_learned_exactly_for_every_concept(
    d: int, variant: str, candidates: int | None
) -> None:
    domain = parity_domain(d)
    learner = masked_parity(masked_parity_schema(d), variant, candidates=candidates)
    for concept in concepts(d):
        oracle = parity_oracle(concept, domain)
        assert learn(learner, oracle) == concept
        assert learn(learner, OffBy(oracle, +1)) == concept
        assert learn(learner, OffBy(oracle, -1)) == concept


@pytest.mark.parametrize("variant", ["signed", "printed"])
def test_masked_parity_is_learned_exactly_at_eight_bits(variant: str) -> None:
    domain = parity_domain(8)
    learner = masked_parity(masked_parity_schema(8), variant)
    for number in range(0, 512, 37):
        r = tuple(number >> bit & 1 for bit in range(8))
        concept = MaskedParity(r, number >> 8)
        assert learn(learner, parity_oracle(concept, domain)) == concept


@pytest.mark.parametrize("candidates", [None, 2])
def test_twice_the_tolerance_is_too_much_for_masked_parity(candidates: int | None) -> None:
    """The adversary above has teeth: off by 1.1 tau, it wins."""
    concept = MaskedParity((1, 0), 1)
    learner = masked_parity(masked_parity_schema(2), candidates=candidates)
    assert learn(learner, OffBy(parity_oracle(concept, parity_domain(2)), 1.1)) != concept


@pytest.mark.parametrize("variant", ["signed", "printed"])
def test_masked_parity_is_learned_from_samples(variant: str) -> None:
    concept, rng = MaskedParity((0, 1, 1, 0), 1), np.random.default_rng(11)

    def sampler(rows: int) -> EncodedColumns:
        columns = {
            "x": rng.integers(0, 2, (rows, 4)),
            "i": rng.integers(0, 4, rows),
            "b": rng.integers(0, 2, rows),
        }
        return encode_columns(masked_parity_schema(4), {**columns, "y": concept.predict(columns)})

    oracle = EmpiricalOracle(sampler, beta=1e-6)
    assert learn(masked_parity(masked_parity_schema(4), variant), oracle) == concept


def cube(d: int) -> np.ndarray:
    return np.array(list(product((0, 1), repeat=d)))


def conjunction_learner(d: int, accuracy: Fraction) -> Learner[Conjunction]:
    return conjunctions(conjunctions_schema(d), accuracy)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_every_conjunction_is_learned_exactly_when_tolerances_are_small(d: int) -> None:
    """Under the uniform distribution E[phi_i] is 0 or at least 2^-(d+1)."""
    learner, x = conjunction_learner(d, Fraction(d, 2 ** (d + 1))), cube(d)
    targets = chain.from_iterable(combinations(range(d), size) for size in range(d + 1))
    for variables in targets:
        target = Conjunction(d, variables)
        oracle = ExactOracle(conjunctions_schema(d), {"x": x, "y": target.predict({"x": x})})
        for sign in (-1, 0, 1):
            assert learn(learner, OffBy(oracle, sign)) == target


@pytest.mark.parametrize("sign", [-1, 0, 1])
@pytest.mark.parametrize("accuracy", [Fraction(1, 4), Fraction(1, 20)])
def test_a_conjunction_errs_on_less_than_the_accuracy_under_any_distribution(
    accuracy: Fraction, sign: int
) -> None:
    d, x = 4, cube(4)
    weights = [int(w) for w in np.random.default_rng(5).integers(0, 100, len(x))]
    learner = conjunction_learner(d, accuracy)
    for size in range(d + 1):
        for variables in combinations(range(d), size):
            target = Conjunction(d, variables)
            labels = target.predict({"x": x})
            oracle = ExactOracle(conjunctions_schema(d), {"x": x, "y": labels}, weights)
            learned = learn(learner, OffBy(oracle, sign))
            wrong = learned.predict({"x": x}) != labels
            error = Fraction(sum(w for w, is_wrong in zip(weights, wrong, strict=True) if is_wrong))
            assert set(variables) <= set(learned.variables)
            assert error / sum(weights) < accuracy


def test_an_oracle_that_answers_too_little_is_found_out() -> None:
    with pytest.raises(LocalProtocolError, match="expected 1 answers"):
        learn(masked_parity(masked_parity_schema(2)), Numbered())
