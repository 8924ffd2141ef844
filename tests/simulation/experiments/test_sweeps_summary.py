"""Summaries of a cell's trials: bands by hand, tables of rows."""

from __future__ import annotations

from math import isclose
from typing import Any

import pytest

from askance_client.errors import InvalidParameter
from askance_papers.reproduce import Reproduction
from askance_simulation import frames
from askance_simulation.experiments import named, simulate
from askance_simulation.experiments.sweeps import Sweep
from askance_simulation.summaries import Band, mean_band, rate_band


def row(cell: str = "a", trial: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a row as `sweep` writes it."""
    return {
        "cell": cell, "trial": trial, "seed": 1, "learner": "mean", "population": None,
        "data": None, "data_digest": None, "label": None, "epsilon": 1.0, "beta": 0.01,
        "users": 100, "randomizer": "best", "settings": {}, "fleet": "columns",
        "users_needed": 90, "hoeffding_users": 200, "lower_bound": 30, "refused": None,
        "success": True, "error": 0.1, "users_used": 90, "queries": 1, "rounds": 1,
        "answers": 90, "refusals": 0, "epsilon_spent": 1.0, "seconds": 0.5,
        "transcript": "sha256:00", "version": "0",
    } | changes  # fmt: skip


class TestBands:
    def test_a_mean_s_is_student_s_t(self) -> None:
        """For 1, 2, 3, 4, 5: s = sqrt(2.5), and t at 97.5% with 4 degrees of freedom is 2.77645."""
        band = mean_band([1.0, 2.0, 3.0, 4.0, 5.0], 0.95)
        assert band.low is not None
        assert band.high is not None
        half = 2.7764451 * (2.5 / 5) ** 0.5
        assert isclose(band.low, 3 - half, rel_tol=1e-6)
        assert isclose(band.high, 3 + half, rel_tol=1e-6)

    def test_no_error_is_below_zero(self) -> None:
        assert mean_band([0.0, 0.0, 0.3], 0.95).low == 0.0

    @pytest.mark.parametrize("errors", [[0.5], [0.0, 0.0, 0.0]])
    def test_errors_that_do_not_vary_have_none(self, errors: list[float]) -> None:
        assert mean_band(errors, 0.95) == Band(errors[0], None, None)

    def test_a_rate_s_is_clopper_pearson_s(self) -> None:
        """For n of n, the low end solves p^n = 2.5%."""
        band = rate_band(20, 20, 0.95)
        assert (band.value, band.high) == (1.0, 1.0)
        assert band.low is not None
        assert isclose(band.low**20, 0.025, rel_tol=1e-9)


class TestSummary:
    def test_refused_trials_are_counted_apart(self) -> None:
        nothing: dict[str, Any] = dict.fromkeys(("success", "error", "users_used", "answers"))
        rows = [row(), row(trial=1, success=False, error=0.3)]
        rows.append(row(trial=2, refused="too few", **nothing))
        (cell,) = Sweep(tuple(rows)).summary()
        assert (cell.trials, cell.refused, cell.reason) == (3, 1, "too few")
        assert cell.error is not None
        assert cell.success is not None
        assert (cell.error.value, cell.success.value) == (0.2, 0.5)
        assert (cell.users_used, cell.answers, cell.seconds) == (90.0, 90.0, 0.5)

    def test_what_cannot_be_judged_has_no_band(self) -> None:
        (cell,) = Sweep((row(success=None, error=None),)).summary()
        assert (cell.error, cell.success) == (None, None)

    def test_cells_come_by_number_and_not_by_letter(self) -> None:
        rows = [row(cell=d, settings={"d": d}) for d in ("16", "8", "1/2", "128")]
        found = Sweep(tuple(rows)).summary()
        assert [cell.at["d"] for cell in found] == [0.5, 8, 16, 128]
        assert found.axes == ("d",)

    def test_a_setting_that_some_cells_lack_is_an_axis(self) -> None:
        rows = (row(cell="a", settings={"d": "8"}), row(cell="b", learner="frequency"))
        found = Sweep(rows)
        assert found.axes == ("learner", "d")
        assert [line.split()[:2] for line in str(found.summary()).splitlines()[1:]] == [
            ["frequency", "-"],
            ["mean", "8"],
        ]

    @pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
    def test_a_confidence_is_between_0_and_1(self, confidence: float) -> None:
        with pytest.raises(InvalidParameter, match="confidence: expected a number between"):
            Sweep((row(),)).summary(confidence)


class TestTables:
    def test_settings_become_columns_and_numbers(self) -> None:
        rows = [row(settings={"d": "8", "tau": "1/8"}), row(settings={"d": "16", "eta": "0.5"})]
        flat = frames.flat(rows)
        assert [one["settings.d"] for one in flat] == [8, 16]
        assert [one["settings.tau"] for one in flat] == ["1/8", None]
        assert [one["settings.eta"] for one in flat] == [None, 0.5]
        assert [list(one) for one in flat] == [list(flat[0])] * 2
        assert "settings" not in flat[0]

    def test_a_sweep_is_an_arrow_table(self) -> None:
        rows = tuple(
            row(d, settings={"d": d}, error=error) for d, error in (("4", None), ("8", 0.1))
        )
        table = Sweep(rows).to_arrow()
        assert table.to_pylist() == frames.flat(rows)
        assert table.column("error").to_pylist() == [None, 0.1]

    def test_so_are_its_cells_and_a_simulation_s_trials(self) -> None:
        cells = Sweep((row(), row(trial=1, error=0.3))).summary()
        assert cells.to_arrow().column("error.value").to_pylist() == [0.2]
        made = named("mean", epsilon=1, users=50)
        found = simulate(made.study, made.people, trials=2)
        digests = [trial.outcome.transcript for trial in found.trials]
        assert found.trials_to_arrow().column("transcript").to_pylist() == digests

    def test_so_is_a_reproduction(self) -> None:
        rows = ({"n": 100, "holds": True}, {"n": 200, "holds": False})
        toy = Reproduction("toy", "a paper", "it holds", None, rows, (), lambda _: None)
        assert toy.to_arrow().to_pylist() == list(rows)

    def test_a_column_has_one_kind_of_values(self) -> None:
        rows: list[dict[str, Any]] = [
            {"n": 1, "what": "a"},
            {"n": 0.5, "what": 2},
            {"n": None, "what": None},
        ]
        table = frames.to_arrow(rows)
        assert table.column("n").to_pylist() == [1.0, 0.5, None]
        assert table.column("what").to_pylist() == ["a", "2", None]

    def test_pandas_is_asked_for_where_it_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(frames, "find_spec", lambda name: None)
        with pytest.raises(InvalidParameter, match="to_pandas: expected pandas installed"):
            Sweep((row(),)).to_pandas()

    def test_a_data_frame_has_a_row_a_trial(self) -> None:
        pytest.importorskip("pandas")
        frame = Sweep((row(), row(trial=1, error=0.3))).to_pandas()
        assert frame["error"].tolist() == [0.1, 0.3]
        assert frame["learner"].tolist() == ["mean", "mean"]
