"""Fields that a model can afford: chosen by widths, users and noise, before any user is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from askance_aggregator.learners import Learner, naive_bayes, perceptron
from askance_aggregator.learners.conditions import narrowest
from askance_aggregator.planning import plan, settled
from askance_client.queries import Category, Label, Real, Schema

NAT = 10**9
WIDE = Schema.of(
    "wide",
    1,
    {
        **{f"w{place}": Category(range(12)) for place in range(20)},
        **{f"n{place}": Category(range(3)) for place in range(20)},
        "x": Real(-1, 1),
        "y": Label(["no", "yes"]),
    },
)
LEARNERS: dict[str, Callable[..., Learner[object]]] = {
    "naive-bayes": naive_bayes,
    "perceptron": perceptron,
}


def at_most(limit: int, places: Sequence[int]) -> bool:
    return len(places) <= limit


def test_the_narrowest_fields_are_kept_and_equal_ones_in_the_schemas_order() -> None:
    assert narrowest([3, 1, 2, 1, 2], partial(at_most, 3)) == (1, 2, 3)
    assert narrowest([3, 1, 2, 1, 2], partial(at_most, 9)) == (0, 1, 2, 3, 4)


def test_one_field_is_kept_whatever_it_costs() -> None:
    assert narrowest([5, 4, 6], partial(at_most, 0)) == (1,)


def test_no_field_is_kept_after_the_first_that_is_not_affordable() -> None:
    widths = [1, 5, 9]
    assert narrowest(widths, lambda places: 1 not in places) == (0,)


def columns(learner: Learner[object], users: int | None, nats: float = 1) -> list[str]:
    text = settled(learner, int(nats * NAT), 0.01, users).parameters.get("columns")
    return [name for name in WIDE.fields if name != "y"] if text is None else text.split(",")


@pytest.mark.parametrize("name", LEARNERS)
def test_few_users_afford_the_narrowest_fields_and_many_all(name: str) -> None:
    learner = LEARNERS[name](WIDE)
    few, more = columns(learner, 8_000), columns(learner, 8_000, 2)
    assert 1 <= len(few) < len(more) < 41
    assert not any(field.startswith("w") for field in few)
    assert set(few) <= set(more)
    assert len(columns(learner, 10**8, 2)) == 41


@pytest.mark.parametrize("name", LEARNERS)
def test_the_choice_is_made_of_the_schema_users_and_epsilon_alone(name: str) -> None:
    """Settled twice it is the same, and the plan shows it and asks about no other field."""
    learner = LEARNERS[name](WIDE)
    planned = plan(learner, NAT, 0.01, n_users=20_000)
    kept = columns(learner, 20_000)
    assert planned.settings == {"columns": ",".join(kept)}
    assert planned.fields == tuple(sorted([*kept, "y"]))
    assert columns(settled(learner, NAT, 0.01, 20_000), 20_000) == kept


@pytest.mark.parametrize("name", LEARNERS)
def test_fields_that_were_named_are_all_asked(name: str) -> None:
    named = LEARNERS[name](WIDE, columns=tuple(f"w{place}" for place in range(20)))
    assert plan(named, NAT, 0.01, n_users=1_000).settings == {}


def test_a_tolerance_or_an_unknown_population_leaves_all_fields() -> None:
    for learner, users in (
        (naive_bayes(WIDE, tau="1/5"), 1_000),
        (perceptron(WIDE, margin="1/2", accuracy="1/2"), 1_000),
        (naive_bayes(WIDE), None),
        (perceptron(WIDE), None),
    ):
        assert plan(learner, NAT, 0.01, n_users=users).settings == {}
