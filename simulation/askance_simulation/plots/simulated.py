"""The pictures of one simulation, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from askance_aggregator.learners.presentation import presentation_of
from askance_aggregator.names import unknown_name
from askance_simulation.plots.picture import Picture
from askance_simulation.plots.rounds import rounds
from askance_simulation.plots.spending import spending
from askance_simulation.plots.trials import result

if TYPE_CHECKING:
    from askance_simulation.experiments.simulations import Simulation


def picture(simulation: Simulation, kind: str) -> Picture:
    """Draw a picture of trial 0.

    Args:
      simulation: result of `simulate`.
      kind: "result" (estimates beside the truth, or every trial's error), "spending" (how many
        users were asked for how much of their epsilon) or "rounds" (users, answers, tolerance).

    Raises:
      InvalidParameter: no such picture, or nothing to draw.
    """
    if kind not in PICTURES:
        raise unknown_name("plot", kind, PICTURES)
    return PICTURES[kind](simulation)


def _result(simulation: Simulation) -> Picture:
    return result(
        presentation_of(simulation.hypothesis),
        [trial.assessment for trial in simulation.trials],
        float(simulation.study.confidence),
        _title(simulation),
    )


def _spending(simulation: Simulation) -> Picture:
    return spending(simulation.transcript, simulation.study.epsilon, _title(simulation))


def _rounds(simulation: Simulation) -> Picture:
    return rounds(simulation.trials[0].rounds, _title(simulation))


def _title(simulation: Simulation) -> str:
    users = simulation.trials[0].population.size
    study, subject = simulation.study, presentation_of(simulation.hypothesis).subject
    of = f" of {subject}" if subject else ""
    return f"{study.learner.name}{of}, {users:,} users, ε = {study.epsilon:g}"


PICTURES: Mapping[str, Callable[[Simulation], Picture]] = MappingProxyType(
    {"result": _result, "spending": _spending, "rounds": _rounds}
)
