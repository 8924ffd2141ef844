"""Content of pictures; their look needs a human reader."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import Assessment
from askance_aggregator.learners.presentation import EstimateRow
from askance_aggregator.learners.shapes import Intervals
from askance_aggregator.planning import EpsilonCurve, StudyPlan
from askance_aggregator.studies import MemoryLog, Transcript
from askance_aggregator.studies.transcript import Asked, AskedGroup, Header
from askance_client.errors import InvalidParameter
from askance_simulation.experiments import Simulation, named, simulate
from askance_simulation.experiments.sweeps import Sweep, sweep
from askance_simulation.plots import curves, epsilon_curve, needs
from askance_simulation.plots.drawings import draw
from askance_simulation.plots.picture import Content
from askance_simulation.plots.runs import asked_for, beside_guess


def row(epsilon: float, users: int, error: float | None, **changes: Any) -> dict[str, Any]:
    """Return a trial of a cell, as far as pictures look."""
    return {
        "cell": f"{epsilon} {users} {changes}", "trial": 0, "seed": 1, "learner": "mean",
        "population": None, "epsilon": epsilon, "beta": 0.01, "users": users,
        "randomizer": "best", "settings": {}, "users_needed": 100, "hoeffding_users": 200,
        "lower_bound": 30, "refused": None, "success": True, "error": error,
        "users_used": users, "answers": users, "seconds": 0.5,
    } | changes  # fmt: skip


def axes_of(picture: Any) -> Any:
    (axes,) = picture.figure.axes
    return axes


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


class TestEpsilonCurve:
    def plan(self, points: tuple[tuple[int, int | None], ...], users: int) -> StudyPlan:
        """Return a plan of 3 nats with these points."""
        curve = EpsilonCurve(points, users, "1 to 4 by 1")
        return StudyPlan(True, 50, users, (), None, 0.01, 0.01, 3 * 10**9, 1, (), {}, curve)

    def test_users_are_drawn_with_what_is_enough_from_there_on(self) -> None:
        points = ((10**9, None), (2 * 10**9, 80), (3 * 10**9, 50), (4 * 10**9, 60))
        axes = axes_of(epsilon_curve(self.plan(points, 70), "mean"))
        enough, planned, users, least = axes.get_lines()
        assert planned.get_xdata().tolist() == [2, 3, 4]
        assert planned.get_ydata().tolist() == [80, 50, 60]
        assert enough.get_ydata().tolist() == [80, 60, 60]
        assert set(users.get_ydata()) == {70}
        assert set(least.get_xdata()) == {3}
        assert axes.get_title(loc="left") == "users that mean needs by epsilon"

    def test_a_plan_of_a_given_epsilon_has_no_curve(self) -> None:
        with pytest.raises(InvalidParameter, match="expected a plan without a given epsilon"):
            epsilon_curve(replace(self.plan((), 70), curve=None))
        with pytest.raises(InvalidParameter, match="an epsilon at which there is a plan"):
            epsilon_curve(self.plan(((10**9, None),), 70))


class TestCurves:
    def test_a_line_for_every_value_of_the_other_axes(self) -> None:
        rows = [row(eps, n, eps / n) for eps in (1.0, 2.0) for n in (100, 1000)]
        axes = axes_of(curves(Sweep(tuple(rows)).summary(), "users"))
        assert labels(axes) == ["1", "2"]
        first = axes.get_lines()[0]
        assert first.get_xdata().tolist() == [100, 1000]
        assert first.get_ydata().tolist() == [0.01, 0.001]
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")

    @pytest.mark.parametrize(("power", "drawn"), [(0.5, True), (0.45, True), (1.0, False)])
    def test_the_reference_is_drawn_where_it_fits_and_below(
        self, power: float, drawn: bool
    ) -> None:
        rows = [row(1.0, n, n**-power) for n in (100, 1000, 10_000)]
        axes = axes_of(curves(Sweep(tuple(rows)).summary(), "users"))
        assert (axes.get_legend() is not None) == drawn
        if drawn:
            assert labels(axes) == ["$n^{-1/2}$"]
            errors, reference = (line.get_ydata() for line in axes.get_lines())
            assert reference[0] / reference[-1] == pytest.approx(10.0)
            assert reference[0] < errors[0]
            assert reference[-1] < errors[-1]

    def test_errors_of_zero_are_not_lost_on_a_logarithmic_axis(self) -> None:
        rows = (row(1.0, 100, 0.5), row(1.0, 1000, 0.0))
        axes = axes_of(curves(Sweep(rows).summary(), "users"))
        assert axes.get_yscale() == "linear"
        assert axes.get_ylim()[0] < 0

    def test_a_band_is_as_wide_as_its_summary_says(self) -> None:
        rows = [
            row(1.0, n, error, trial=t) for n in (10, 1000) for t, error in enumerate((1, 2, 3))
        ]
        summary = Sweep(tuple({**one, "cell": one["users"]} for one in rows)).summary()
        axes = axes_of(curves(summary, "users"))
        (bars,) = [one for one in axes.collections if len(one.get_paths()) == 2]
        for path, cell in zip(bars.get_paths(), summary, strict=True):
            assert cell.error is not None
            assert path.vertices[:, 1].tolist() == [cell.error.low, cell.error.high]

    def test_refused_cells_are_missing_and_told_of(self) -> None:
        rows = (row(1.0, 10, None, refused="too few", success=None), row(1.0, 1000, 0.1))
        picture = curves(Sweep(rows).summary(), "users")
        assert "of 2 cells 1 are missing" in picture.figure.texts[0].get_text()

    @pytest.mark.parametrize(
        ("x", "y", "complaint"),
        [
            ("shoe", "error", "expected an axis of learner, .*, got 'shoe'"),
            ("learner", "error", "expected an axis of numbers, got 'learner'"),
            ("users", "shoe", "expected one of error, success, got 'shoe'"),
        ],
    )
    def test_what_is_not_there_is_refused(self, x: str, y: str, complaint: str) -> None:
        with pytest.raises(InvalidParameter, match=complaint):
            curves(Sweep((row(1.0, 10, 0.1),)).summary(), x, y)

    def test_where_every_plan_was_refused_the_reason_is_told(self) -> None:
        rows = (row(1.0, 10, None, refused="it needs 99", success=None),)
        with pytest.raises(InvalidParameter, match="every plan refused: it needs 99"):
            curves(Sweep(rows).summary(), "users")

    def test_no_more_lines_than_can_be_told_apart(self) -> None:
        rows = tuple(row(eps / 10, n, 0.1) for eps in range(1, 10) for n in (10, 20))
        found = Sweep(rows)
        with pytest.raises(InvalidParameter, match="expected at most 8 lines, got 9"):
            found.picture()
        assert axes_of(found.where(epsilon=0.3).picture()).get_legend() is None

    def test_without_an_axis_there_is_no_picture(self) -> None:
        with pytest.raises(InvalidParameter, match="expected an axis with two numbers"):
            Sweep((row(1.0, 10, 0.1),)).picture()


class TestUsersNeeded:
    def test_enough_is_the_least_n_that_worked(self) -> None:
        """At d = 2: 10 is refused, 20 is wrong once in two trials, 40 is right."""
        at: dict[str, Any] = {"settings": {"d": "2"}}
        refused: dict[str, Any] = {"refused": "too few", "success": None}
        rows = [
            row(1.0, 10, None, **at, **refused),
            *(row(1.0, 20, 0.1, **at, trial=t, cell="20", success=t == 0) for t in (0, 1)),
            row(1.0, 40, 0.0, **at),
            row(1.0, 80, 0.0, **at),
            row(1.0, 10, None, settings={"d": "4"}, **refused),
        ]
        axes = axes_of(needs(Sweep(tuple(rows)).summary(), "d"))
        points = [line for line in axes.get_lines() if line.get_marker() == "o"]
        (found,) = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in points]
        assert found == ([2.0], [40.0])
        (down,) = axes.collections
        assert down.get_paths()[0].vertices.tolist() == [[2.0, 20.0], [2.0, 40.0]]

    def test_plans_and_bounds_are_drawn_as_they_are(self) -> None:
        found = sweep("masked-parity", {"epsilon": 8, "users": 20, "d": [2, 4, 8]})
        planned, bound = (
            line.get_ydata() for line in axes_of(found.picture("d", "users")).get_lines()
        )
        assert planned.tolist() == [one["users_needed"] for one in found.rows]
        assert bound.tolist() == [one["lower_bound"] for one in found.rows]


class TestSpending:
    def test_charges_of_a_user_are_added_up(self) -> None:
        """Positions 0..3 pay 5, 2..5 pay 7 more, 6 and 7 nothing."""
        transcript = Transcript(MemoryLog())
        transcript.append(Header(b"s", "l", 1, 8, b"c", Fraction(1, 100), Fraction(95, 100)))
        groups = (AskedGroup(b"a", 0, 0, 4, 5), AskedGroup(b"b", 1, 2, 6, 7))
        transcript.append(Asked(0, (b"q",), "fresh", groups))
        assert asked_for(transcript) == {5: 2, 12: 2, 7: 2, 0: 2}

    def test_it_is_what_devices_say_they_spent(self) -> None:
        made = named("masked-parity", epsilon=8, users=400, settings={"d": "2"})
        (trial,) = simulate(made.study, made.people, seed=3).trials
        levels = asked_for(trial.transcript)
        assert sum(levels.values()) == 400
        spent = trial.outcome.spending
        assert sum(nano * users for nano, users in levels.items()) == spent.total_spent
        assert max(levels) == spent.max_spent


@pytest.fixture(scope="module")
def found() -> Simulation:
    made = named("masked-parity", epsilon=8, users=400, settings={"d": "2"})
    return simulate(made.study, made.people, fleet="columns", trials=2)


class TestOfASimulation:
    def test_rounds_are_what_was_asked_and_answered(self, found: Simulation) -> None:
        trial = found.trials[0]
        assert sum(one.users for one in trial.rounds) == trial.outcome.users_used
        assert sum(one.answers for one in trial.rounds) == trial.outcome.answers
        assert sum(one.queries for one in trial.rounds) == trial.outcome.queries
        above, below = found.picture("rounds").figure.axes
        heights = [bar.get_height() for bars in above.containers for bar in bars]
        assert heights == [
            *(one.users for one in trial.rounds),
            *(one.answers for one in trial.rounds),
        ]
        assert below.get_lines()[0].get_ydata().tolist() == [one.tau for one in trial.rounds]

    def test_a_notebook_is_shown_a_picture(self, found: Simulation) -> None:
        assert found.picture()._repr_png_().startswith(b"\x89PNG")

    def test_trials_are_told_by_whole_numbers_beside_a_constant_guess(
        self, found: Simulation
    ) -> None:
        drawn = axes_of(found.picture())
        low, high = drawn.get_xlim()
        assert [tick for tick in drawn.get_xticks() if low <= tick <= high] == [1, 2]
        (line,) = [one for one in drawn.get_lines() if one.get_label() == "a constant guess"]
        assert line.get_ydata()[0] == pytest.approx(
            np.mean([trial.assessment.baseline for trial in found.trials])
        )

    def test_one_trial_is_drawn_beside_a_constant_guess(self) -> None:
        made = named("masked-parity", epsilon=8, users=400, settings={"d": "2"})
        alone = simulate(made.study, made.people, fleet="columns")
        drawn = axes_of(alone.picture())
        assessment = alone.trials[0].assessment
        assert [bar.get_width() for bar in drawn.patches] == [
            assessment.error,
            assessment.baseline,
        ]

    def test_one_error_with_nothing_beside_it_is_refused_with_what_helps(self) -> None:
        with pytest.raises(InvalidParameter, match="--trials"):
            beside_guess(Assessment(True, 0.25), Content("title"))

    def test_an_estimate_is_drawn_within_its_interval_the_greatest_on_top(self) -> None:
        rows = (
            EstimateRow("rare", -0.02, 0.0, 0.03, projected=0.0),
            EstimateRow("frequent", 0.7, 0.6, 0.8),
        )
        drawn = axes_of(
            draw(Intervals(), Content("run", rows=rows, truth=(0.01, 0.72), shares=True))
        )
        estimates, truth = drawn.get_lines()
        assert list(estimates.get_xdata()) == [0.0, 0.7]
        assert list(truth.get_xdata()) == [0.01, 0.72]
        assert [label.get_text() for label in drawn.get_yticklabels()] == ["rare", "frequent"]
        assert drawn.get_xlabel() == "share of users"

    def test_another_picture_or_file_is_refused(self, found: Simulation, tmp_path: Path) -> None:
        with pytest.raises(InvalidParameter, match="expected one of result, trials, spending"):
            found.picture("ships")
        with pytest.raises(InvalidParameter, match=r"expected a file named \*.png or \*.svg"):
            found.plot(tmp_path / "picture.pdf")
