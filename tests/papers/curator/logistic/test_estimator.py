"""The estimator is scikit-learn's kind of estimator, and refuses before it draws."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402  # after the importorskip
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import cross_val_score  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from askance_aggregator.composition import Pure  # noqa: E402
from askance_client.errors import InvalidParameter, InvalidRecord  # noqa: E402
from askance_papers.curator.logistic import (  # noqa: E402
    Examples,
    LongRows,
    ObjectivePerturbation,
)
from askance_papers.curator.logistic.estimator import PrivateLogisticRegression  # noqa: E402
from askance_simulation.randomness import Seed, SeededWords  # noqa: E402


class NoWords:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("a word was drawn")


class ClassesFromTheLabels(PrivateLogisticRegression):
    """scikit-learn's checks state no classes: here, and nowhere else, the labels tell them."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803  # scikit-learn's name
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        classes = np.unique(np.asarray(y))
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. Unknown label type: {len(classes)} kinds"
            )
        stated = tuple(classes) if len(classes) == 2 else (-1, 1)
        told = PrivateLogisticRegression(**(self.get_params() | {"classes": stated})).fit(X, y)
        self.__dict__.update({name: value for name, value in vars(told).items() if name[-1] == "_"})
        return self


def _never(estimator: Any) -> dict[str, str]:
    return {
        "check_fit_idempotent": "each fit is a release of its own, with noise of its own",
    }


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    [
        ClassesFromTheLabels(1000, regularisation=1e-3, mechanism=mechanism, norm=10, longer="clip")
        for mechanism in ("objective", "output")
    ],
    expected_failed_checks=_never,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def points(count: int = 400) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows = np.random.default_rng(4).uniform(-0.5, 0.5, (count, 3))
    return rows, np.where(rows[:, 0] > 0, 1, -1)


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


class TestAFit:
    def test_it_releases_what_the_mechanism_does(self) -> None:
        rows, labels = points()
        model = PrivateLogisticRegression(2, regularisation="0.01", words=words("fit"))
        mechanism = ObjectivePerturbation.of(2, "0.01")
        expected = mechanism.release(Examples.of(rows, labels), words("fit"))
        assert model.fit(rows, labels).coef_.tolist() == [expected.tolist()]
        assert model.event_ == Pure(Fraction(2))
        assert model.privacy_.startswith("2-differentially private by objective perturbation")
        assert model.n_features_in_ == 3
        assert model.intercept_.tolist() == [0]
        assert model.score(rows, labels) > 0.9

    def test_coefficients_are_in_the_rows_own_units(self) -> None:
        rows, labels = points()
        one, ten = (
            PrivateLogisticRegression(1, norm=size, words=words("units")).fit(rows * size, labels)
            for size in (1, 10)
        )
        assert np.allclose(one.coef_, ten.coef_ * 10)
        assert np.allclose(one.predict_proba(rows), ten.predict_proba(rows * 10))

    def test_long_rows_are_clipped_by_themselves(self) -> None:
        rows, labels = points()
        rows[:5] *= 100
        model = PrivateLogisticRegression(2, longer="clip", words=words("clip")).fit(rows, labels)
        examples = Examples.of(rows, labels, longer=LongRows.CLIP)
        mechanism = ObjectivePerturbation.of(2, "0.01")
        assert np.array_equal(model.coef_[0], mechanism.release(examples, words("clip")))

    def test_classes_are_stated(self) -> None:
        rows, labels = points()
        named = np.where(labels > 0, "well", "ill")
        model = PrivateLogisticRegression(5, classes=("ill", "well"), words=words("named"))
        assert model.fit(rows, named).classes_.tolist() == ["ill", "well"]
        assert model.score(rows, named) > 0.9
        shares = model.predict_proba(rows)
        assert np.allclose(shares.sum(axis=1), 1)
        assert ((shares[:, 1] > 0.5) == (model.predict(rows) == "well")).all()

    def test_one_label_only_is_no_error_for_that_would_tell(self) -> None:
        rows, _ = points()
        model = PrivateLogisticRegression(5, words=words("one")).fit(rows, np.ones(len(rows)))
        assert model.classes_.tolist() == [-1, 1]

    @pytest.mark.parametrize("calibration", ["rank-one", "jmlr", "joint"])
    def test_it_is_cloned_pickled_and_cross_validated(self, calibration: str) -> None:
        rows, labels = points()
        model = PrivateLogisticRegression(50, calibration=calibration, words=words("cv"))
        assert clone(model).get_params().keys() == model.get_params().keys()
        assert clone(model).calibration == calibration
        assert cross_val_score(model, rows, labels).mean() > 0.9
        fitted = model.fit(rows, labels)
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(again.predict(rows), fitted.predict(rows))

    def test_by_itself_it_takes_the_systems_randomness(self) -> None:
        rows, labels = points()
        one, two = (PrivateLogisticRegression(1).fit(rows, labels).coef_ for _ in range(2))
        assert not np.array_equal(one, two)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"epsilon": 0}, "epsilon"),
            ({"epsilon": float("nan")}, "epsilon"),
            ({"regularisation": -1}, "regularisation"),
            ({"mechanism": "guess"}, "mechanism: expected one of objective, output"),
            ({"calibration": "guess"}, "calibration: expected one of rank-one, jmlr, joint"),
            ({"norm": 0}, "norm"),
            ({"longer": "guess"}, "longer: expected one of refuse, clip"),
            ({"classes": (1, 1)}, "classes: expected two different labels"),
            ({"classes": (1, 2, 3)}, "classes"),
        ],
    )
    def test_a_bad_parameter(self, changed: dict[str, Any], told: str) -> None:
        model = PrivateLogisticRegression(1, words=NoWords()).set_params(**changed)
        with pytest.raises(InvalidParameter, match=told):
            model.fit(*points())
        assert not hasattr(model, "coef_")

    @pytest.mark.parametrize(
        ("row", "value", "told"),
        [
            (7, 3.0, "row 7: expected at most the stated norm"),
            (7, np.nan, "row 7: expected finite numbers"),
            (7, -np.inf, "row 7: expected finite numbers"),
        ],
    )
    def test_a_bad_row(self, row: int, value: float, told: str) -> None:
        rows, labels = points()
        rows[row, 1] = value
        with pytest.raises(InvalidRecord, match=told):
            PrivateLogisticRegression(1, words=NoWords()).fit(rows, labels)

    def test_a_label_that_was_not_stated(self) -> None:
        rows, labels = points()
        labels[3] = 777
        with pytest.raises(InvalidRecord, match="row 3: expected a label of classes") as error:
            PrivateLogisticRegression(1, words=NoWords()).fit(rows, labels)
        assert "777" not in str(error.value)

    @pytest.mark.parametrize("shape", [(0, 3), (5, 0)])
    def test_no_data(self, shape: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match=r"0 (sample|feature)"):
            PrivateLogisticRegression(1, words=NoWords()).fit(np.zeros(shape), np.ones(shape[0]))

    def test_nothing_is_predicted_before_a_fit(self) -> None:
        with pytest.raises(NotFittedError):
            PrivateLogisticRegression(1).predict([[0.1]])
