"""The classifier keeps scikit-learn's conventions, and refuses before anything is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from askance_aggregator.composition import Pure
from askance_client.errors import AskanceError
from askance_papers.curator.boosting_classifier import PrivateBoostingClassifier
from askance_simulation.randomness import Seed, SeededWords

RNG = np.random.default_rng(9)
X = RNG.uniform(-1, 1, (600, 2))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


class Untouched:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")


def classifier(**given: Any) -> PrivateBoostingClassifier:
    settings: dict[str, Any] = {
        "epsilon": 20,
        "bounds": [(-1, 1), (-1, 1)],
        "classes": ("no", "yes"),
        "words": SeededWords(Seed.of(1)),
    }
    return PrivateBoostingClassifier(**{**settings, **given})


def test_it_learns_and_says_what_it_cost() -> None:
    fitted = classifier().fit(X, Y)
    assert fitted.score(X, Y) > 0.85
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.n_features_in_ == 2
    assert fitted.events_ == (Pure(fitted.events_[0].epsilon),) * 30
    assert sum(event.epsilon for event in fitted.events_) == 20
    assert set(fitted.predict(X)) == {"no", "yes"}
    decided = fitted.decision_function(X)
    assert np.abs(decided).max() <= 1
    assert ((decided >= 0) == (fitted.predict(X) == "yes")).all()


def test_parameters_are_got_set_and_cloned() -> None:
    one = classifier(rounds=5)
    assert one.get_params()["rounds"] == 5
    other = clone(one).set_params(epsilon=7)
    assert (other.epsilon, one.epsilon) == (7, 20)
    assert clone(one).fit(X, Y).predict(X).tolist() == one.fit(X, Y).predict(X).tolist()


def test_it_stands_in_pipelines_and_cross_validation() -> None:
    assert make_pipeline(FunctionTransformer(), classifier()).fit(X, Y).score(X, Y) > 0.8
    assert cross_val_score(classifier(), X, Y, cv=3).mean() > 0.8


def test_before_it_is_fitted_it_predicts_nothing() -> None:
    with pytest.raises(NotFittedError):
        classifier().predict(X)


@pytest.mark.parametrize(
    ("given", "x", "y", "what"),
    [
        ({"epsilon": 0}, X, Y, "epsilon"),
        ({"bounds": ()}, X, Y, "class"),
        ({"bounds": [(0, 1)]}, X, Y, "features"),
        ({"bounds": [(1, 0), (0, 1)]}, X, Y, "cuts"),
        ({"cuts": 0}, X, Y, "cuts"),
        ({"classes": ("no", "no")}, X, Y, "classes"),
        ({"classes": ("no", "maybe")}, X, Y, "row"),
        ({}, np.full_like(X, np.nan), Y, "features"),
        ({}, X[:0], Y[:0], "0 sample"),
    ],
)
def test_what_is_not_as_stated_is_refused(given: dict[str, Any], x: Any, y: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        classifier(words=Untouched(), **given).fit(x, y)


def test_its_errors_are_the_houses() -> None:
    with pytest.raises(AskanceError):
        classifier(words=Untouched(), rounds=0).fit(X, Y)
