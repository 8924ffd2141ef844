"""Numbers of NumPy, of `decimal` and of `fractions` in the calls of the public interface.

Each call gives the same with a number of any type as with Python's own.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow
import pytest

import askance as ask

SCHEMA = ask.Schema(
    "people",
    age=ask.Integer(0, 127),
    height=ask.Real(0, 2),
    town=ask.Category(("a", "b", "c")),
    sick=ask.Bit(),
    label=ask.Label(("n", "p")),
)
DRAWS = np.random.default_rng(0)
PEOPLE = ask.Population.from_columns(
    SCHEMA,
    {
        "age": DRAWS.integers(0, 127, 400),
        "height": DRAWS.random(400) * 2,
        "town": DRAWS.choice(["a", "b", "c"], 400),
        "sick": DRAWS.integers(0, 2, 400),
        "label": DRAWS.choice(["n", "p"], 400),
    },
)
FREQUENCY = ask.learners.frequency(SCHEMA["town"])
STUDY = ask.Study(FREQUENCY, SCHEMA, epsilon=1)
FRAME = pyarrow.table({"number": list(range(20))})
Call = Callable[[Any], object]


@ask.non_adaptive("share-above")
def share_above(age: ask.Expression, limit: int) -> tuple[ask.Batch, Callable[[Any], float]]:
    batch = ask.Batch([ask.Question(ask.predicate(age > limit))])
    return batch, lambda answers: answers[0].value


def parameters(learner: ask.Learner[Any]) -> dict[str, str]:
    return learner.parameters


def swept(**grid: Any) -> list[tuple[float, float]]:
    rows = ask.sweep("frequency", {"users": 300, **grid}).rows
    return [(row["epsilon"], row["error"]) for row in rows]


def conduct(**settings: Any) -> str:
    study = ask.Study(FREQUENCY, SCHEMA, epsilon=1, **settings)
    return repr((study.conduct, study.delta, study.most_answers))


learners = ask.learners
WHOLE: dict[str, Call] = {
    "version": lambda n: ask.Schema("a", n, b=ask.Bit()).digest,
    "bounds": lambda n: (ask.Integer(n, 9).canonical, ask.Real(n, 9).canonical),
    "an expression": lambda n: ask.predicate(SCHEMA["age"] > n).canonical,
    "steps": lambda n: ask.among_present(SCHEMA["height"], n).canonical,
    "k": lambda n: parameters(learners.k_means(SCHEMA, n, rounds=n)),
    "bins": lambda n: parameters(learners.naive_bayes(SCHEMA, bins=n)),
    "depth": lambda n: parameters(learners.decision_tree(SCHEMA, depth=n, cells=n)),
    "quantiles' steps": lambda n: parameters(learners.quantiles(SCHEMA, "age", steps=n)),
    "components": lambda n: parameters(learners.principal_components(SCHEMA, components=n - 2)),
    "one's own learner": lambda n: parameters(share_above(SCHEMA["age"], n)),
    "a generated schema": lambda n: learners.masked_parity_schema(n).digest,
    "epsilon": lambda n: ask.Study(FREQUENCY, SCHEMA, epsilon=n).nano_nats,
    "conduct": lambda n: conduct(round_deadline_s=n, least_answers=n, waves=n, most_answers=n),
    "users of a plan": lambda n: repr(STUDY.plan(n)),
    "a plan": lambda n: repr(ask.plan("frequency", epsilon=n, users=n, settings={"cells": n})),
    "a study by name": lambda n: ask.named("mean", epsilon=n, users=n).people(ask.Seed.of(n)).size,
    "trials": lambda n: [
        trial.transcript.digest
        for trial in ask.simulate(STUDY, PEOPLE, fleet="columns", seed=n, trials=n).trials
    ],
    "a population": lambda n: ask.Population.generated("categories", n, seed=n, cells=n).size,
    "rows of a frame": lambda n: ask.read(FRAME, users=n, seed=n).size,
    "a budget": lambda n: ask.budget(PEOPLE, epsilon=n, split_evenly_over=n, seed=n).parts,
    "a sweep": lambda n: swept(epsilon=[n], cells=n),
    "an epsilon to verify": lambda n: next(ask.verify([n])).nano_nats,
    "a randomizer": lambda n: (repr(ask.k_ary_response(n, 10**9)), repr(ask.best_for(n, 10**9))),
    "targets of liars": lambda n: ask.Misbehaviour(liars=1, targets=[n]).targets,
}
NUMBERS: dict[str, Call] = {
    "epsilon": lambda x: ask.Study(FREQUENCY, SCHEMA, epsilon=x).nano_nats,
    "beta": lambda x: conduct(beta=x, confidence=x, delta=x),
    "tau": lambda x: parameters(learners.frequency(SCHEMA["town"], x)),
    "a list": lambda x: parameters(learners.quantiles(SCHEMA, "age", [x, x / 2], tau=x)),
    "a promise": lambda x: parameters(learners.correlation(SCHEMA, ("age", "height"), present=x)),
    "a question": lambda x: ask.Question(ask.category(SCHEMA["town"]), tau=x, cell_mass=x).tau,
    "a plan": lambda x: repr(ask.plan("frequency", epsilon=x, beta=x, settings={"tau": x})),
    "a budget": lambda x: ask.budget(PEOPLE, epsilon=x).ask(FREQUENCY, epsilon=x).epsilon_spent.max,
    "a sweep": lambda x: swept(epsilon=[x], beta=x, tau=x),
    "an epsilon to verify": lambda x: next(ask.verify([x])).nano_nats,
    "faults": lambda x: ask.Faults(lost=x, slow=x),
    "noise": lambda x: PEOPLE.with_label_noise(x).notes,
    "a share of values": lambda x: ask.read(FRAME, most_outside=x).size,
}
MAKERS: dict[str, Callable[[str], Any]] = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "longdouble": np.longdouble,
    "Decimal": Decimal,
    "Fraction": Fraction,
}


@pytest.mark.parametrize("call", WHOLE.values(), ids=WHOLE)
def test_a_whole_number_of_numpy_is_pythons(call: Call) -> None:
    expected = call(4)
    assert call(np.int64(4)) == expected
    assert call(np.uint8(4)) == expected


@pytest.mark.parametrize("call", NUMBERS.values(), ids=NUMBERS)
def test_a_float_of_any_width_is_its_decimal(call: Call) -> None:
    expected = call(0.2)
    for name, make in MAKERS.items():
        assert call(make("0.2")) == expected, name
