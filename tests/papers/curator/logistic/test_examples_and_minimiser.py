"""Rows are bounded one by one, and the minimiser is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.logistic import GRADIENT, Examples, LongRows, minimise

rng = np.random.default_rng(1)


class TestRows:
    def test_short_rows_stay_as_they_are(self) -> None:
        rows = [[0.6, 0.0], [0.0, -0.25], [0.0, 0.0]]
        found = Examples.of(rows, [1, -1, 1])
        assert np.allclose(found.signed, [[0.6, 0.0], [0.0, 0.25], [0.0, 0.0]], rtol=1e-15, atol=0)
        assert (found.count, found.dimension) == (3, 2)

    @pytest.mark.parametrize("size", [1.0, 3.0, 1e6, 1e200, 1e308])
    def test_a_clipped_row_is_not_longer_than_1_and_points_where_it_did(self, size: float) -> None:
        row = rng.standard_normal(20)
        row *= size / np.abs(row).max()
        (found,) = Examples.of([row], [1], longer=LongRows.CLIP).signed
        assert 1 - 1e-9 < np.linalg.norm(found) <= 1
        assert np.allclose(found * np.abs(row).max(), row * np.abs(found).max())

    def test_clipping_a_row_is_no_matter_of_the_others(self) -> None:
        rows = rng.standard_normal((5, 3)) * 4
        together = Examples.of(rows, np.ones(5), longer=LongRows.CLIP).signed
        for row, found in zip(rows, together, strict=True):
            alone = Examples.of([row], [1], longer=LongRows.CLIP).signed[0]
            assert np.array_equal(alone, found)

    def test_rows_are_in_units_of_the_norm(self) -> None:
        found = Examples.of([[3.0, 4.0]], [-1], norm=10)
        assert np.allclose(found.signed, [[-0.3, -0.4]])

    def test_a_row_scaled_to_1_in_floats_is_let_in_and_made_short_enough(self) -> None:
        rows = rng.standard_normal((200, 7))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        signed = Examples.of(rows * (1 + 5e-10), np.ones(200)).signed
        assert (np.linalg.norm(signed, axis=1) <= 1).all()

    @pytest.mark.parametrize(
        ("rows", "labels", "told"),
        [
            ([[0.1], [1.1]], [1, 1], "row 1: expected at most the stated norm"),
            ([[0.1], [np.nan]], [1, 1], "row 1: expected finite numbers"),
            ([[np.inf]], [1], "row 0: expected finite"),
            ([[0.1], [0.1], [0.1]], [1, -1, 0], r"row 2: expected a label of \+1 or -1"),
            ([[0.1]], [np.nan], r"row 0: expected a label"),
            ([[0.1]], [1, 1], "labels: expected 1, one a row, found 2"),
            (np.zeros((0, 3)), [], "at least one row"),
            (np.zeros((3, 0)), [1, 1, 1], "one column"),
            ([0.1], [1], "rows: expected 2 dimensions, found 1"),
            ([[0.1]], [[1]], "labels: expected 1 dimensions, found 2"),
            ([["a"]], [1], "rows: expected real numbers"),
            ([[1j]], [1], "rows: expected real numbers"),
        ],
    )
    def test_a_bad_row_is_named_by_its_place(self, rows: Any, labels: Any, told: str) -> None:
        with pytest.raises(InvalidRecord, match=told):
            Examples.of(rows, labels)

    @pytest.mark.parametrize("signed", [[[0.1], [1.1]], [[0.1], [np.nan]], [[]], [0.1]])
    def test_no_other_way_leads_past_the_norm(self, signed: Any) -> None:
        with pytest.raises(InvalidRecord, match=r"row 1: expected a norm|rows: expected at least"):
            Examples(np.array(signed))

    @pytest.mark.parametrize("norm", [0, -1, float("nan"), float("inf"), "x", 1e-200])
    def test_a_norm_is_a_number_above_0(self, norm: Any) -> None:
        with pytest.raises(InvalidParameter, match="norm"):
            Examples.of([[0.1]], [1], norm)


def examples(count: int, dimension: int, separable: bool) -> Examples:
    rows = rng.standard_normal((count, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    by = rows[:, 0] if separable else rng.standard_normal(count)
    return Examples.of(rows, np.where(by > 0, 1, -1))


def gradient(
    data: Examples, strength: float, tilt: NDArray[np.float64], point: NDArray[np.float64]
) -> NDArray[np.float64]:
    pulls = data.signed.T @ expit(-data.signed @ point)
    found: NDArray[np.float64] = strength * point + (tilt - pulls) / data.count
    return found


class TestTheMinimiser:
    @pytest.mark.parametrize("strength", [1e-9, 1e-6, 1e-3, 1.0, 1e6])
    @pytest.mark.parametrize("separable", [True, False])
    @pytest.mark.parametrize("tilted", [0.0, 3.0, 300.0])
    def test_its_gradient_vanishes(self, strength: float, separable: bool, tilted: float) -> None:
        data = examples(300, 6, separable)
        tilt = tilted * rng.standard_normal(6)
        point = minimise(data, strength, tilt)
        assert np.linalg.norm(gradient(data, strength, tilt, point)) <= 1.01 * GRADIENT

    @pytest.mark.parametrize("strength", [1e-8, 1e-6])
    @pytest.mark.parametrize("count", [10, 100])
    def test_it_finds_its_way_along_a_loss_of_straight_pieces(
        self, strength: float, count: int
    ) -> None:
        """Coefficients are 10^5 and more, by a tilt against as many rows.

        A row's probability is 0 or 1 nearly everywhere. From 0 alone, Newton's method would not
        converge.
        """
        corners = rng.choice([-1.0, 1.0], (count, 10)) * 0.3
        data, tilt = Examples(corners), count / 8 * rng.standard_normal(10)
        point = minimise(data, strength, tilt)
        assert np.linalg.norm(gradient(data, strength, tilt, point)) <= 2 * GRADIENT

    def test_a_general_solver_finds_the_same(self) -> None:
        data, tilt = examples(100, 4, separable=False), np.array([5.0, 0.0, -5.0, 1.0])

        def loss(point: NDArray[np.float64]) -> float:
            mean = np.log1p(np.exp(-data.signed @ point)).mean()
            return float(0.05 * point @ point + tilt @ point / 100 + mean)

        general = minimize(loss, np.zeros(4), method="Nelder-Mead", options={"fatol": 1e-13})
        assert np.allclose(minimise(data, 0.1, tilt), general.x, atol=1e-4)

    def test_one_row_in_closed_form(self) -> None:
        """With x = (1), strength s: s w = 1 / (1 + e^w); at w = 1 that is s = 1 / (1 + e)."""
        data = Examples(np.array([[1.0]]))
        assert minimise(data, 1 / (1 + np.e))[0] == pytest.approx(1, abs=1e-9)

    def test_the_tilt_is_divided_by_n(self) -> None:
        """Rows of zeros: strength w = -tilt / n."""
        data = Examples(np.zeros((8, 2)))
        assert minimise(data, 0.5, np.array([4.0, -8.0])) == pytest.approx([-1, 2])

    @pytest.mark.parametrize("strength", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_strength_is_above_0(self, strength: float) -> None:
        with pytest.raises(InvalidParameter, match="strength"):
            minimise(Examples(np.zeros((1, 1))), strength)
