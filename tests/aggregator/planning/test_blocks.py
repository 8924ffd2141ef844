"""Vectors in blocks: which size wins at which epsilon, how users are divided, split eps beaten."""

from __future__ import annotations

from fractions import Fraction
from math import exp, tanh

import pytest

from askance_aggregator.families import (
    HypercubeFamily,
    hypercube_response,
    randomized_response,
)
from askance_aggregator.learners import Allocation, Batch, Question
from askance_aggregator.planning import n_variance, plan_batch, randomizer_text, tail_of
from askance_aggregator.planning.blocks import block_size, block_variance, blocks_of
from askance_aggregator.queries import predicate, vector
from askance_client.errors import InvalidParameter
from askance_client.queries import Real, Schema
from askance_client.randomizers import HypercubeResponse

NAT = 10**9
BETA = 1e-3


def question(components: int, tau: str | None = "1/10") -> Question:
    schema = Schema.of("v", 1, {f"x{j}": Real(-1, 1) for j in range(components)})
    return Question(vector([schema[name] for name in schema.fields]), tau)


def crossover(components: int, one: int, other: int) -> float:
    """Find the epsilon, to .01, from which on blocks of `other` need fewer users than `one`."""
    return next(
        hundredths / 100
        for hundredths in range(50, 700)
        if block_variance(components, other, hundredths * NAT // 100)
        < block_variance(components, one, hundredths * NAT // 100)
    )


@pytest.mark.parametrize(("components", "split"), [(2, 3.06), (3, 3.71), (4, 4.25), (8, 5.88)])
def test_splitting_beats_one_of_t_late_and_never_a_block(components: int, split: float) -> None:
    """Splitting the budget, t times eps / t, against the alternatives.

    It wins over one of t from the known epsilons on, and nowhere over one pattern of all, which has
    the same loss.
    """

    def divided(nats: float) -> float:
        return 1 / tanh(nats / components / 2) ** 2

    def one(nats: float) -> float:
        return components / tanh(nats / 2) ** 2

    assert divided(split - 0.01) > one(split - 0.01)
    assert divided(split + 0.01) < one(split + 0.01)
    for nats in (0.5, 1, 2, 3, 4, 6, 8):
        joint = float(block_variance(components, components, int(nats * NAT)))
        assert joint < divided(nats)


def test_one_of_64_wins_below_1_86_and_all_of_64_above() -> None:
    """Crossovers of one component, of pairs and of all at once (a relative of PrivUnit)."""
    assert crossover(64, 1, 64) == pytest.approx(1.86, abs=0.02)
    assert crossover(64, 1, 2) == pytest.approx(1.35, abs=0.02)


@pytest.mark.parametrize(
    ("nats", "size"), [(0.25, 1), (1, 1), (1.3, 1), (1.5, 2), (2, 2), (3, 3), (4, 4), (6, 128)]
)
def test_the_size_that_is_chosen(nats: float, size: int) -> None:
    """At 6 nats 12 components cost 3 % more than 128, and these less than 1 % more than all."""
    assert block_size(1000, int(nats * NAT)) == size


def test_a_pair_has_the_agreement_of_four_cells() -> None:
    """2 of 2 is k-ary response over four patterns: m = (e - 1) / (e + 3)."""
    for nats in (0.5, 2, 4):
        e = exp(nats)
        variance = float(block_variance(2, 2, int(nats * NAT)))
        assert variance == pytest.approx(((e + 3) / (e - 1)) ** 2, rel=1e-6)


def test_blocks_partition_the_components_evenly() -> None:
    asked = question(10)
    blocks = blocks_of(asked, 3 * NAT)
    assert [block.values for block in blocks] == [3, 3, 2, 2]
    joined = [node for block in blocks for node in block.query.expression.args]
    assert all(a.same_as(b) for a, b in zip(joined, asked.query.expression.args, strict=True))
    assert {block.tau for block in blocks} == {asked.tau}
    real = Question(predicate(Schema("s", 1, x=Real(-1, 1)).x > 0), "1/10")
    assert blocks_of(real, NAT) == (real,)


def test_a_plan_has_a_group_a_block_with_users_of_its_own() -> None:
    planned = plan_batch(Batch([question(10)]), 3 * NAT, BETA)
    assert [group.question for group in planned.groups] == [0] * 4
    assert [group.cohort for group in planned.groups] == [0, 1, 2, 3]
    assert planned.users == sum(group.users for group in planned.groups)
    assert planned.nano_nats <= 3 * NAT
    assert planned.queries == 1
    for group in planned.groups:
        assert isinstance(group.randomizer, HypercubeResponse)
        part = Question(group.query, "1/10")
        assert tail_of(part, group.randomizer).users(0.1, BETA) == group.users
    assert set(planned.randomizers) == {"hypercube(3, 0)", "hypercube(2, 0)"}
    total = Fraction(planned.users)
    worst = max(
        total / group.users * n_variance(Question(group.query), group.randomizer)
        for group in planned.groups
    )
    assert planned.n_variance == pytest.approx(float(worst))
    assert planned.n_variance == pytest.approx(float(block_variance(10, 3, 3 * NAT)), rel=0.03)


def test_blocks_save_users_over_a_question_a_component() -> None:
    schema = question(8).query
    singles = [Question(vector([one]), "1/10") for one in schema.expression.args]
    apart = plan_batch(Batch(singles, Allocation.FRESH), 4 * NAT, BETA)
    together = plan_batch(Batch([question(8)]), 4 * NAT, BETA)
    assert apart.users / together.users == pytest.approx(1.076 / 0.422, rel=0.05)


def test_an_open_tolerance_divides_users_by_need() -> None:
    planned = plan_batch(Batch([question(10, None)]), 3 * NAT, BETA, 10_001)
    assert planned.users == 10_001
    users = [group.users for group in planned.groups]
    threes, twos = users[:2], users[2:]
    assert max(threes) - min(threes) <= 1
    assert max(twos) - min(twos) <= 1
    exact = [
        1 / HypercubeFamily(hypercube_response(size, 3 * NAT)).agreement ** 2 for size in (3, 2)
    ]
    assert threes[0] / twos[0] == pytest.approx(float(exact[0] / exact[1]), rel=0.05)
    reached = [
        tail_of(Question(group.query), group.randomizer).tolerance(group.users, BETA)
        for group in planned.groups
    ]
    assert planned.tau == pytest.approx(max(reached))


def test_one_cohort_for_all_questions_answers_a_vector_at_once() -> None:
    batch = Batch([question(6), question(6)], Allocation.SPLIT)
    planned = plan_batch(batch, 8 * NAT, BETA)
    assert [group.cohort for group in planned.groups] == [0, 0]
    assert [randomizer_text(group.randomizer) for group in planned.groups] == [
        randomizer_text(hypercube_response(6, 4 * NAT))
    ] * 2


def test_only_patterns_answer_vectors() -> None:
    with pytest.raises(InvalidParameter, match="expected a randomizer of as many"):
        tail_of(question(2), randomized_response(NAT))
    with pytest.raises(InvalidParameter, match="of 3 values: expected a randomizer of as many"):
        tail_of(question(3), hypercube_response(2, NAT))
