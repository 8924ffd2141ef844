"""CM08 Figure 3: test error against epsilon, on uniform points with a margin of 0.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from askance_papers.reproduce.cm08 import curves, trials
from askance_papers.reproduce.cm08.data import Problem, drawn_folds, problems
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting

NAME = "logistic-figure-3"
PRINTED = ("0.01", "0.02", "0.05", "0.1", "0.15", "0.2")  # the paper's range
CORRECTED = (*PRINTED, "0.5", "1", "2", "4")


def reproduce(setting: Setting) -> Reproduction:
    """Run five folds and some restarts at every epsilon."""
    problem = problems(setting)[0][0]
    measured = _measured(problem, setting)
    rows = list(_rows(problem, measured))
    return Reproduction(
        name=NAME,
        source="CM08, section 6, Figure 3",
        statement=(
            "Both algorithms' errors fall with eps, and at every eps objective perturbation errs"
            " less than output perturbation."
        ),
        differs_from_print=(
            "Corrected, the curves keep their order and their shape, and lie some ten to twenty"
            " times to the right. " + curves.NOT_PRIVATE
        ),
        rows=tuple(rows),
        also=trials.noises_agree(measured.values()),
        notes=(
            "Objective perturbation is claimed to err at most as often as output perturbation at"
            f" the same eps (at_most), but for {curves.SLACK:g} standard errors of the difference.",
            curves.NOISE,
        ),
        draw=lambda figure: _draw(figure, rows, problem),
    )


def _measured(problem: Problem, setting: Setting) -> dict[trials.Algorithm, trials.Errors]:
    repeats, restarts = (1, 3) if setting.quick else (5, 10)
    seed = setting.seed / NAME
    splits = drawn_folds(problem, seed, repeats)
    found = {}
    for version, epsilons in (
        (trials.Version.PRINTED, PRINTED),
        (trials.Version.CORRECTED, CORRECTED),
    ):
        for algorithm in (one for epsilon in epsilons for one in trials.pair(version, epsilon)):
            found[algorithm] = trials.measure(
                algorithm, problem.regularisation, splits, restarts, seed
            )
        setting.progress(str(version))
    return found


def _rows(problem: Problem, measured: Mapping[trials.Algorithm, trials.Errors]) -> Iterator[Row]:
    size, found = problem.sizes[-1], list(measured.items())
    for (output, theirs), (objective, ours) in zip(found[::2], found[1::2], strict=True):
        yield curves.curve_row(problem.name, size, output, theirs)
        row = curves.curve_row(problem.name, size, objective, ours, at_most=theirs.mean)
        yield {**row, "holds": row["holds"] and not trials.exceeds(ours, theirs, curves.SLACK)}


def _draw(figure: Any, rows: Sequence[Row], problem: Problem) -> None:
    axes = figure.subplots()
    curves.draw_curves(axes, rows, "epsilon")
    axes.set_xscale("log")
    axes.set_xlabel("ε")
    curves.title(axes, f"{problem.title}, d = {problem.dimension}, n = {rows[0]['n']}")
    curves.legend_below(figure, axes)
