"""Families say what their matrix holds, and compute with it as the matrix would."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.synopsis import (
    Histogram,
    MarginalFamily,
    MatrixQueries,
    PredicateQueries,
    QueryFamily,
    Universe,
    column_ranges,
    random_queries,
    ranges,
)
from askance_papers.curator.synopsis.queries import family_squared_sensitivity

SMALL = Universe((2, 3, 2))


def families() -> list[QueryFamily]:
    rng = np.random.default_rng(1)
    return [
        MarginalFamily(SMALL, 1),
        MarginalFamily(SMALL, 2),
        MarginalFamily(SMALL, 3),
        MatrixQueries(SMALL, rng.integers(0, 2, (9, SMALL.cells))),
        MatrixQueries(SMALL, rng.random((9, SMALL.cells))),
        column_ranges(SMALL, 1),
        ranges(SMALL, [[0, 1, 0]], [[1, 2, 0]]),
        random_queries(SMALL, 20, key=7),
    ]


@pytest.mark.parametrize("family", families(), ids=lambda one: f"{type(one).__name__} {one.size}")
class TestEveryFamily:
    def test_sums_and_spread_are_the_matrix_and_its_transpose(self, family: QueryFamily) -> None:
        matrix = family.rows(np.arange(family.size))
        rng = np.random.default_rng(2)
        weights = rng.integers(0, 50, SMALL.cells).astype(np.float64)
        assert family.sums(weights).tolist() == (matrix @ weights).tolist()
        coefficients = rng.standard_normal(family.size)
        assert family.spread(coefficients) == pytest.approx(coefficients @ matrix)

    def test_replacing_a_record_moves_an_answer_by_at_most_the_scale(
        self, family: QueryFamily
    ) -> None:
        """All pairs of records; the squared distances are bounded too."""
        columns = family.rows(np.arange(family.size)).T.astype(np.int64)
        apart = columns[:, None] - columns[None, :]
        assert np.abs(apart).max() <= family.scale
        assert (apart**2).sum(axis=2).max() <= family_squared_sensitivity(family)

    def test_answers_count_records(self, family: QueryFamily) -> None:
        rng = np.random.default_rng(3)
        table = np.stack([rng.integers(0, size, 31) for size in SMALL.sizes], axis=1)
        cells = np.ravel_multi_index(tuple(table.T), SMALL.sizes)
        matrix = family.rows(np.arange(family.size))
        expected = matrix[:, cells].sum(axis=1)
        assert family.counts(Histogram.of(SMALL, table)).tolist() == expected.tolist()


class TestMarginals:
    def test_a_query_is_a_conjunction(self) -> None:
        family = MarginalFamily(SMALL, 2)
        expected = [
            ((one, a), (other, b))
            for one, other in combinations(range(3), 2)
            for a, b in product(range(SMALL.sizes[one]), range(SMALL.sizes[other]))
        ]
        assert [family.conjunction(query) for query in range(family.size)] == expected

    def test_their_squared_sensitivity_is_tight(self) -> None:
        """Records that agree nowhere share no cell of any table."""
        family = MarginalFamily(Universe.of_bits(12), 3)
        assert family.size == 1760
        assert family_squared_sensitivity(family) == 2 * 220

    @pytest.mark.parametrize("way", [0, 4])
    def test_there_are_so_many_columns(self, way: int) -> None:
        with pytest.raises(InvalidParameter, match=r"marginals: expected 1 \.\. 3 columns"):
            MarginalFamily(SMALL, way)


class TestBlocks:
    def test_a_family_larger_than_a_block_is_computed_by_blocks(self) -> None:
        universe = Universe((1 << 12,))
        seen: list[int] = []

        def rule(chosen: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
            seen.append(chosen.size * len(codes))
            return np.asarray(codes[:, 0][None, :] % 4096 <= chosen[:, None])

        family = PredicateQueries(universe, 4096, rule)
        assert family.sums(np.ones(4096)).tolist() == list(range(1, 4097))
        assert max(seen) <= 1 << 22
        assert sum(seen) == 2 * 4096 + 4096 * 4096

    def test_only_cells_with_a_record_are_looked_at(self) -> None:
        family = random_queries(Universe((1 << 16,)), 100_000, key=3)
        weights = np.zeros(1 << 16)
        weights[[5, 60_000]] = 1
        found = family.sums(weights)
        shares = [float((found == value).mean()) for value in (0, 1, 2)]
        assert shares == pytest.approx([1 / 4, 1 / 2, 1 / 4], abs=0.01)  # 6 sigma


class TestWhatIsRefused:
    @pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
    def test_values_outside_the_unit_interval(self, value: float) -> None:
        values = np.full((3, SMALL.cells), 0.5)
        values[1, 4] = value
        with pytest.raises(
            InvalidParameter, match=r"query 1, cell 4: expected a value in \[0, 1\]"
        ):
            MatrixQueries(SMALL, values)

    def test_an_empty_family(self) -> None:
        with pytest.raises(InvalidParameter, match=r"queries: expected 1 \.\. 262144, found 0"):
            MatrixQueries(SMALL, np.zeros((0, SMALL.cells)))

    def test_a_rule_that_answers_numbers(self) -> None:
        with pytest.raises(InvalidParameter, match="rule that answers booleans"):
            PredicateQueries(SMALL, 3, lambda chosen, codes: np.ones((len(chosen), len(codes))))  # type: ignore[arg-type, return-value]  # the point

    def test_a_rule_that_fails_on_some_queries_only(self) -> None:
        def rule(chosen: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
            return np.ones((min(len(chosen), 2), len(codes)), dtype=np.bool_)

        with pytest.raises(InvalidParameter, match="rule that answers booleans of shape"):
            PredicateQueries(SMALL, 3, rule)

    def test_values_of_another_universe(self) -> None:
        with pytest.raises(InvalidParameter, match="rows of 12 values"):
            MatrixQueries(SMALL, np.zeros((3, 5)))

    def test_a_range_that_is_none(self) -> None:
        with pytest.raises(InvalidParameter, match="range 0, column 1"):
            ranges(SMALL, [[0, 2, 0]], [[1, 1, 1]])

    def test_a_histogram_over_another_universe(self) -> None:
        histogram = Histogram.of(Universe((4,)), [[0]])
        with pytest.raises(InvalidParameter, match="histogram: expected one over"):
            MarginalFamily(SMALL, 1).counts(histogram)


class TestData:
    def test_a_table_becomes_its_histogram(self) -> None:
        histogram = Histogram.of(SMALL, [[1, 2, 0], [0, 0, 0], [1, 2, 0]])
        assert histogram.n == 3
        assert np.flatnonzero(histogram.counts).tolist() == [0, 10]
        assert SMALL.every_code()[10].tolist() == [1, 2, 0]

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (np.zeros((0, 3), dtype=int), "expected rows of 3 columns"),
            ([[0, 0]], "expected rows of 3 columns"),
            ([[0, 0, 0], [0, 3, 0]], r"row 1, column 1: expected a code 0 \.\. 2, found another"),
            ([[0, -1, 0]], r"row 0, column 1: expected a code 0 \.\. 2, found another"),
            ([[0.5, 0, 0]], "expected whole numbers, found float64"),
        ],
    )
    def test_what_is_no_table_is_refused(self, table: object, message: str) -> None:
        with pytest.raises(InvalidRecord, match=message):
            Histogram.of(SMALL, table)  # type: ignore[arg-type]  # the point

    def test_no_data_are_no_histogram(self) -> None:
        with pytest.raises(InvalidRecord, match="records, found 0"):
            Histogram(SMALL, np.zeros(12, dtype=np.int64))

    @pytest.mark.parametrize("sizes", [(), (2, 0), (1 << 17,)])
    def test_a_universe_has_columns_and_an_end(self, sizes: tuple[int, ...]) -> None:
        with pytest.raises(InvalidParameter, match="universe"):
            Universe(sizes)
