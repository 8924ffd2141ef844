"""Every learner of the catalogue under every oracle, on its own people.

The distribution is uniform on the rows of a small world, so that what is promised can be held
against the truth exactly. Adversaries are off by almost tau wherever that hurts. A new learner is
found by its catalogue entry, which has its settings; here it has a promise if it makes one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Classifier,
    Regressor,
    find,
    hypothesis_from_json,
    hypothesis_json,
    learners,
)
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.heavy_hitters import census
from askance_aggregator.oracles import (
    expectations,
    learn,
)
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.studies.study import Study
from askance_client.queries import Category
from tests.kinds import BY_KIND
from tests.worlds import ORACLES, ROWS, World, world

NAMES = [entry.name for entry in learners()]


def wrong_share(of: World, hypothesis: Any) -> float:
    """Return the part of the world's rows that get another label."""
    label = of.label
    assert label is not None
    kind = of.people.schema.fields[label]
    assert isinstance(kind, Category)
    truth = np.array(kind.labels)[np.asarray(of.rows.values[label])]
    predicted = hypothesis.predict(decoded(of)).astype(str)
    return float((predicted != truth).mean())


def decoded(of: World) -> dict[str, Any]:
    """Return the bits x of the world's rows, as a user has them."""
    words = of.rows.values["x"]
    assert isinstance(words, tuple)
    width = of.people.schema["x"].width
    return {"x": np.stack([words[0] >> j & 1 for j in range(width)], axis=1)}


def below_the_accuracy(of: World, hypothesis: Any) -> None:
    assert wrong_share(of, hypothesis) < Fraction(find(of.learner.name).small.oracles["accuracy"])


def is_the_target(of: World, hypothesis: Any) -> None:
    assert hypothesis == of.people.target


def tau_of(of: World) -> float:
    return float(Fraction(find(of.learner.name).small.oracles["tau"]))


def shares_within_tau(of: World, hypothesis: Any) -> None:
    told = (
        [hypothesis.answer]
        if hasattr(hypothesis, "answer")
        else [table.answer for table in hypothesis.tables]
    )
    questions = next(of.learner.run()).questions
    for question, answer in zip(questions, told, strict=True):
        truth = np.array([float(share) for share in expectations(question, of.rows)])
        assert np.abs(np.array(answer.values) - truth).max() < tau_of(of)


def mean_within_tau(of: World, hypothesis: Any) -> None:
    (question,) = next(of.learner.run()).questions
    (truth,) = expectations(question, of.rows)
    assert abs(hypothesis.estimate - float(truth)) < tau_of(of)


def moments(of: World, names: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    columns = [number.of(of.rows) for number in names]
    stacked = np.stack([np.ones(ROWS), *columns], axis=1)
    return np.asarray(stacked.T @ stacked / ROWS)


def much_variance(of: World, hypothesis: Any) -> None:
    """Check for at least the best directions' variance less 2 k D (3 tau + tau^2)."""
    names, tau = numbers_of(hypothesis.schema), tau_of(of)
    matrix = moments(of, names)
    covariance = matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:])
    axes = hypothesis.components_
    assert axes @ axes.T == pytest.approx(np.eye(len(axes)), abs=1e-9)
    best = np.linalg.eigvalsh(covariance)[-len(axes) :].sum()
    held = np.trace(axes @ covariance @ axes.T)
    assert held <= best + 1e-12
    assert held > best - 2 * len(axes) * len(names) * (3 * tau + tau * tau)


def probabilities(of: World, hypothesis: Any) -> None:
    """Check the priors: means of class shares, each a sum of cells of tables with small errors."""
    table = hypothesis.predict_proba(of.rows)
    assert table.shape == (ROWS, 2)
    assert table.sum(axis=1) == pytest.approx(np.ones(ROWS))
    true = float(np.asarray(of.rows.values["y"]).mean())
    cells = max(len(part) for part in hypothesis.columns)
    slack = tau_of(of) * np.sqrt(cells) * np.sqrt(2 * cells + 1) + 0.01
    assert abs(hypothesis.priors[1] - true) < slack


def right_ranks(of: World, hypothesis: Any) -> None:
    values = np.ldexp(np.asarray(of.rows.values["number"], dtype=float), -16)
    for found in hypothesis.quantiles:
        assert (values < found.low).mean() < float(found.level) + tau_of(of)
        assert (values < found.high).mean() > float(found.level) - tau_of(of)


def little_error_in_all(of: World, hypothesis: Any) -> None:
    """Check all ranges: raw answers are within tau each, consistent ones no worse in all."""
    questions = next(of.learner.run()).questions
    truth = [[float(share) for share in expectations(asked, of.rows)] for asked in questions]

    def missed(levels: Any) -> float:
        pairs = zip(levels, truth, strict=True)
        return sum(float(np.square(np.array(one.values) - true).sum()) for one, true in pairs)

    assert missed(hypothesis.levels) <= missed(hypothesis.answers) + 1e-12
    assert missed(hypothesis.answers) < tau_of(of) ** 2 * sum(map(len, truth))


def frequent_within_tau(of: World, hypothesis: Any) -> None:
    shares, threshold = census("word", of.people), hypothesis.threshold
    tau = Fraction(find(of.learner.name).small.oracles["tau"])
    found = {item.value: item.estimate for item in hypothesis.found}
    assert {value for value, share in shares.items() if share >= threshold + tau} <= set(found)
    for value, estimate in found.items():
        assert shares[value] > threshold - tau
        assert abs(estimate - float(shares[value])) < tau


def difference_within_tau(of: World, hypothesis: Any) -> None:
    means = [float(expectations(asked, of.rows)[0]) for asked in next(of.learner.run()).questions]
    assert abs(hypothesis.estimate - (means[1] - means[0])) < tau_of(of)


def epochs_within_tau(of: World, hypothesis: Any) -> None:
    for name, estimate in zip(hypothesis.epochs, hypothesis.estimates, strict=True):
        assert abs(estimate - float(np.asarray(of.rows.values[name]).mean())) < tau_of(of)


PROMISES: dict[str, Callable[[World, Any], None]] = {
    "association": lambda of, hypothesis: shares_within_tau(of, hypothesis.table),
    "conjunctions": below_the_accuracy,
    "decision-lists": below_the_accuracy,
    "difference": difference_within_tau,
    "disjunctions": below_the_accuracy,
    "frequency": shares_within_tau,
    "heavy-hitters": frequent_within_tau,
    "literal-conjunctions": below_the_accuracy,
    "marginals": shares_within_tau,
    "masked-parity": is_the_target,
    "mean": mean_within_tau,
    "naive-bayes": probabilities,
    "pca": much_variance,
    "quantiles": right_ranks,
    "ranges": little_error_in_all,
    "trend": epochs_within_tau,
}


# Their devices draw from codebooks, milliseconds each; columns have the same transcripts, as
# `simulation/fleets/test_fleets.py` shows.
OF_CODEBOOKS = {
    *("gaussian-mixture", "huber-regression", "k-means", "linear-regression"),
    *("linear-svm", "logistic-regression", "pca", "random-features"),
    "ridge-regression",
}


def on_oracle(name: str, oracle: str) -> Any:
    local = oracle.startswith("local")
    slow = local and (name not in BY_KIND or (name, oracle) == ("trend", "local, objects"))
    return pytest.param(name, oracle, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        on_oracle(name, oracle)
        for name in NAMES
        for oracle in ORACLES
        if oracle != "local, objects" or name not in OF_CODEBOOKS
    ],
)
def test_what_is_promised_holds_under_every_oracle(name: str, oracle: str) -> None:
    of = world(name)
    if oracle == "noisy labels" and of.label is None:
        pytest.skip("no label of two values to be flipped")
    with ORACLES[oracle](of) as answers:
        hypothesis = learn(of.learner, answers)
    if name in PROMISES:
        PROMISES[name](of, hypothesis)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_is_saved_loaded_and_told(name: str) -> None:
    of = world(name)
    hypothesis = learn(of.learner, of.exact())
    written = json.loads(json.dumps(hypothesis_json(hypothesis), allow_nan=False, sort_keys=True))
    again = hypothesis_from_json(name, written)
    assert hypothesis_json(again) == hypothesis_json(hypothesis)
    assert str(hypothesis)
    assert "0x" not in str(hypothesis)  # an object's address: it has no text of its own


@pytest.mark.parametrize("name", NAMES)
def test_a_prediction_is_one_a_row_whatever_is_missing(name: str) -> None:
    of = world(name)
    hypothesis = learn(of.learner, of.exact())
    if not isinstance(hypothesis, Classifier | Regressor):
        pytest.skip("it predicts nothing")
    nobody = {key: np.zeros(ROWS, np.bool_) for key in of.rows.present}
    for rows in (of.rows, EncodedColumns(of.rows.values, nobody, ROWS)):
        predicted = hypothesis.predict(rows)
        assert predicted.shape == (ROWS,)
        if isinstance(hypothesis, Classifier):
            assert set(predicted.tolist()) <= set(hypothesis.classes_.tolist())
        else:
            assert np.isfinite(predicted).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_covers_what_is_asked_when_it_is_run(name: str) -> None:
    """No more values than were rehearsed, so the plan's beta holds for the run."""
    of = world(name)
    asked = 0

    class Counted:
        def answer(self, batch: Any) -> Any:
            nonlocal asked
            asked += batch.values
            return of.exact().answer(batch)

    learn(of.learner, Counted())
    plan = Study(of.learner, of.people.schema, epsilon=1).plan()
    assert asked <= round(plan.beta / plan.beta_per_value)
