"""States of a round and of a study in the hub: every event in every state."""

from __future__ import annotations

from enum import Enum
from itertools import product
from typing import Any

import pytest

from askance_aggregator.server.devices.states import (
    BEGUN,
    OVER,
    ROUND,
    STUDY,
    PhaseEvent,
    RoundEvent,
    RoundState,
    StudyPhase,
    StudyPhases,
)
from askance_aggregator.studies.waves import TRANSITIONS as WAVES
from askance_aggregator.studies.waves import WaveEvent, WaveState
from askance_aggregator.transitions import next_state
from askance_client.errors import LocalProtocolError

# For each machine, a row per state; for each event, in the order of its enum, the next state.
ROUNDS = """
                   BEGIN     COMPLETE         CLOSE            ABANDON          HOLD      GO_ON
RESUMING           ASKING    RESUMING_CLOSED    RESUMING_CLOSED    RESUMING_ABANDONED -         -
RESUMING_CLOSED    CLOSED    RESUMING_CLOSED    RESUMING_CLOSED    RESUMING_CLOSED    -         -
RESUMING_ABANDONED ABANDONED RESUMING_ABANDONED RESUMING_ABANDONED RESUMING_ABANDONED -         -
ASKING             -         CLOSED           CLOSED           ABANDONED        HELD      ASKING
HELD               -         CLOSED           CLOSED           ABANDONED        HELD      ASKING
CLOSED             -         CLOSED           CLOSED           CLOSED           CLOSED    CLOSED
ABANDONED          -         ABANDONED        ABANDONED        ABANDONED        ABANDONED ABANDONED
"""
STUDIES = """
            PREPARE  OPEN  RETIRE     SUSPEND    CANCEL     FORGET
IDLE        IDLE     OPEN  -          SUSPENDED  CANCELLED  IDLE
OPEN        -        -     IDLE       OPEN       CANCELLED  OPEN
SUSPENDED   IDLE     OPEN  -          SUSPENDED  CANCELLED  IDLE
CANCELLED   -        -     CANCELLED  CANCELLED  CANCELLED  IDLE
"""
WAVE = """
       NEXT   ENTER  GO_ON  FINISH
FIRST  FIRST  FIRST  LATER  DONE
LATER  LATER  LATER  LATER  DONE
DONE   -      -      -      -
"""
MACHINES: list[tuple[str, type[Enum], type[Enum], Any]] = [
    (ROUNDS, RoundState, RoundEvent, ROUND),
    (STUDIES, StudyPhase, PhaseEvent, STUDY),
    (WAVE, WaveState, WaveEvent, WAVES),
]


def cells(text: str) -> dict[tuple[str, str], str]:
    """Return the cells of a table by the names of their row and column."""
    header, *rows = (line.split() for line in text.strip("\n").splitlines())
    return {
        (row[0], event): cell for row in rows for event, cell in zip(header, row[1:], strict=True)
    }


@pytest.mark.parametrize(
    ("text", "state", "event", "transitions"),
    [
        (text, state, event, transitions)
        for text, states, events, transitions in MACHINES
        for state, event in product(states, events)
    ],
)
def test_every_event_in_every_state(
    text: str, state: Enum, event: Enum, transitions: dict[Enum, dict[Enum, Enum]]
) -> None:
    expected = cells(text)[state.name, event.name]
    if expected == "-":
        with pytest.raises(LocalProtocolError, match=f"when {state.name}, got {event.name}$"):
            next_state("machine", transitions, state, event)
    else:
        assert next_state("machine", transitions, state, event).name == expected


@pytest.mark.parametrize(("text", "states", "events"), [machine[:3] for machine in MACHINES])
def test_the_tables_here_have_every_state_and_event(
    text: str, states: type[Enum], events: type[Enum]
) -> None:
    named = {(state.name, event.name) for state, event in product(states, events)}
    assert cells(text).keys() == named


def test_a_round_that_is_over_stays_over() -> None:
    for state in OVER:
        assert set(ROUND[state].values()) <= OVER
    assert RoundState.ASKING in BEGUN - OVER
    assert BEGUN | OVER | {RoundState.RESUMING} == set(RoundState)


def test_an_illegal_event_is_told_with_those_that_are_legal() -> None:
    with pytest.raises(LocalProtocolError) as caught:
        next_state("study", STUDY, StudyPhase.CANCELLED, PhaseEvent.OPEN)
    assert str(caught.value) == (
        "study: expected RETIRE, SUSPEND, CANCEL, FORGET when CANCELLED, got OPEN"
    )


def test_an_illegal_event_changes_no_phase_and_idle_studies_take_no_memory() -> None:
    phases, study = StudyPhases(), bytes(32)
    phases.on(study, PhaseEvent.OPEN)
    with pytest.raises(LocalProtocolError, match="got OPEN"):
        phases.on(study, PhaseEvent.OPEN)
    assert (phases.of(study), len(phases)) == (StudyPhase.OPEN, 1)
    phases.on(study, PhaseEvent.RETIRE)
    assert (phases.of(study), len(phases)) == (StudyPhase.IDLE, 0)
