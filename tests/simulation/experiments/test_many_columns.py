"""Files of many columns: what a learner does with more fields than its users can pay for."""

from __future__ import annotations

import numpy as np
import pytest

import askance as ask
from askance_aggregator.learners import Learner, naive_bayes
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.queries import Category, Label, Schema
from askance_simulation.populations import Population

BITS, FIELDS, USERS, UNSEEN = 6, 60, 4_000, 4_000
SCHEMA = Schema.of(
    "wide",
    1,
    {
        **{f"z{place}": Category(range(16)) for place in range(FIELDS)},
        **{f"b{place}": Category(range(2)) for place in range(BITS)},
        "y": Label(["no", "yes"]),
    },
)


def rows(count: int, seed: int) -> EncodedColumns:
    """Fields that say nothing, bits that agree with the label in 4 of 5, a quarter of "yes"."""
    rng = np.random.default_rng(seed)
    columns = {f"z{place}": rng.integers(0, 16, count) for place in range(FIELDS)}
    labels = rng.random(count) < 0.25
    for place in range(BITS):
        columns[f"b{place}"] = (labels ^ (rng.random(count) < 0.2)).astype(int)
    return encode_columns(SCHEMA, {**columns, "y": np.where(labels, "yes", "no")})


def population() -> Population:
    asked, unseen = rows(USERS, 1), rows(UNSEEN, 2)
    return Population(
        "wide",
        SCHEMA,
        USERS,
        lambda start, stop: asked.take(slice(start, stop)),
        unseen=lambda count: unseen.take(slice(0, count)),
    )


def error(learner: Learner[object]) -> float:
    found = ask.simulate(
        ask.Study(learner, epsilon=1), population(), fleet="columns", trials=2, workers=1
    ).to_json()
    assert found["baseline"] == pytest.approx(0.25, abs=0.02)
    return float(found["error"]["mean"])


def test_columns_that_say_nothing_cost_less_than_if_all_were_asked_about() -> None:
    named = tuple(name for name in SCHEMA.fields if name != "y")
    assert error(naive_bayes(SCHEMA)) < error(naive_bayes(SCHEMA, columns=named)) - 0.05


def test_the_result_shows_the_columns_that_were_chosen() -> None:
    found = ask.simulate(
        ask.Study(naive_bayes(SCHEMA), epsilon=1), population(), fleet="columns", workers=1
    ).to_json()
    kept = found["settings"]["columns"].split(",")
    noise = [name for name in kept if name.startswith("z")]
    assert noise == [f"z{place}" for place in range(len(noise))]
    assert kept == [*noise, *(f"b{place}" for place in range(BITS))]
    assert len(kept) < FIELDS
    assert list(found["hypothesis"]["tables"]) == kept
