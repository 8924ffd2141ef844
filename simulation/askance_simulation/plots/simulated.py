"""The pictures of one simulation, by name, and of the result of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from askance_aggregator.learners.presentation import (
    Presentation,
    presentation_of,
    presentation_of_json,
)
from askance_aggregator.learners.shapes import NoShape, ResultShape, shape_on_rows
from askance_aggregator.names import unknown_name
from askance_simulation.plots.content import Content
from askance_simulation.plots.drawings import draw
from askance_simulation.plots.picture import Picture
from askance_simulation.plots.rounds import rounds
from askance_simulation.plots.spending import spending
from askance_simulation.plots.trials import beside_guess, trials

if TYPE_CHECKING:
    from askance_simulation.experiments.simulations import Simulation

_TESTED_ROWS = 20_000  # at most: a share of them is off by 0.004, one standard error


def picture(simulation: Simulation, kind: str | None = None) -> Picture:
    """Draw a picture of a simulation.

    Args:
      simulation: result of `simulate`.
      kind: "result" (the hypothesis of trial 0), "trials" (every trial's error), "spending" (how
        many users were asked for how much of their epsilon) or "rounds" (users, answers,
        tolerance); None: the trials if there are several, else the result.

    Raises:
      InvalidParameter: no such picture, or one that would say nothing.
    """
    chosen = kind or ("trials" if len(simulation.trials) > 1 else "result")
    if chosen not in PICTURES:
        raise unknown_name("plot", chosen, PICTURES)
    return PICTURES[chosen](simulation)


def result_picture(content: Mapping[str, Any]) -> Picture:
    """Draw the result of a study from its JSON, in which there is neither a truth nor a row.

    Args:
        content: as `askance study result --json` prints it.

    Raises:
        InvalidParameter: there is no hypothesis, or its picture would say nothing.
    """
    presentation = presentation_of_json(content["learner"], content["hypothesis"])
    epsilon = content["epsilon"]["budget"]
    run = _run(content["learner"], content["users"], epsilon)
    fields = content.get("fields") or ()
    return draw(presentation.shape, _content(presentation, run, content["confidence"], fields))


def _result(simulation: Simulation) -> Picture:
    first, hypothesis = simulation.trials[0], simulation.hypothesis
    presentation, people, shape = presentation_of(hypothesis), first.population, None
    content = _content(
        presentation,
        _of(simulation),
        float(simulation.study.confidence),
        tuple(simulation.study.fields),
        first.assessment.truth,
        _compared(first.assessment.error, first.assessment.baseline),
    )
    if people.unseen is not None:
        shape = shape_on_rows(hypothesis, people.unseen(_TESTED_ROWS), people.schema)
    shape = shape or presentation.shape
    return _own_or_error(shape, simulation, content)


def _own_or_error(shape: ResultShape | None, simulation: Simulation, content: Content) -> Picture:
    """Draw a shape; where there is none but the error of a hypothesis without rows, that."""
    assessment = simulation.trials[0].assessment
    drawn = shape is not None and type(shape) is not NoShape
    if drawn or content.rows or assessment.error is None:
        return draw(shape, content)
    return beside_guess(assessment, content)


def _trials(simulation: Simulation) -> Picture:
    content = Content(_of(simulation))
    return trials([trial.assessment for trial in simulation.trials], content)


def _spending(simulation: Simulation) -> Picture:
    return spending(simulation.transcript, simulation.study.epsilon, _of(simulation))


def _rounds(simulation: Simulation) -> Picture:
    return rounds(simulation.trials[0].rounds, _of(simulation))


def _content(
    presentation: Presentation,
    run: str,
    confidence: float,
    fields: Sequence[str],
    truth: tuple[float, ...] = (),
    remark: str = "",
) -> Content:
    return Content(
        run=run,
        rows=presentation.rows,
        truth=truth,
        shares=presentation.shares,
        ranked=presentation.ranked,
        subject=presentation.subject or (fields[0] if len(fields) == 1 else ""),
        confidence=confidence,
        remark=remark,
    )


def _compared(error: float | None, baseline: float | None) -> str:
    """Say the error, and a constant guess's."""
    if error is None:
        return ""
    guess = "" if baseline is None else f"; that of a constant guess: {baseline:.3g}"
    return f"error {error:.3g}{guess}"


def _of(simulation: Simulation) -> str:
    study = simulation.study
    return _run(study.learner.name, simulation.trials[0].population.size, study.epsilon)


def _run(learner: str, users: int, epsilon: float) -> str:
    return f"{learner}, {users:,} users, ε = {epsilon:g}"


PICTURES: Mapping[str, Callable[[Simulation], Picture]] = MappingProxyType(
    {"result": _result, "trials": _trials, "spending": _spending, "rounds": _rounds}
)
