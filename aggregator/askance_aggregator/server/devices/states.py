"""States of a round that devices are asked, and of a study in the hub.

A round: its stored reports are entered first, while no device is asked; then devices are asked,
until it closes (all members have answered, the deadline has passed, or the operator closes it) or
is abandoned (its study is cancelled). It may end before it has been asked. While its
study is paused it is held: no device is asked, and reports that come are taken.

A study, as the hub sees it: rounds open and end, one at a time; between them it may be suspended,
and at any time cancelled. What is legal in a state, and what follows, stands in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from askance_aggregator.transitions import Transitions, next_state


class RoundState(Enum):
    """State of an open round."""

    RESUMING = auto()  # its stored reports are being entered; no device is asked
    RESUMING_CLOSED = auto()  # it closed meanwhile: no device will be asked
    RESUMING_ABANDONED = auto()
    ASKING = auto()
    HELD = auto()  # its study is paused: no device is asked, reports that come are taken
    CLOSED = auto()  # no more reports are taken; there is a tally
    ABANDONED = auto()  # no more reports are taken; there is no tally


class RoundEvent(Enum):
    """Event in the life of a round."""

    BEGIN = auto()  # all stored reports have been entered
    COMPLETE = auto()  # every member has answered or refused
    CLOSE = auto()  # the deadline has passed, the operator closed it, or the hub stops
    ABANDON = auto()  # its study was cancelled
    HOLD = auto()  # its study was paused
    GO_ON = auto()  # its study is paused no more


_ENDS = (RoundEvent.COMPLETE, RoundEvent.CLOSE, RoundEvent.ABANDON)
_LATER = (*_ENDS, RoundEvent.HOLD, RoundEvent.GO_ON)
_BEGUN: Mapping[RoundEvent, RoundState] = {
    RoundEvent.COMPLETE: RoundState.CLOSED,
    RoundEvent.CLOSE: RoundState.CLOSED,
    RoundEvent.ABANDON: RoundState.ABANDONED,
    RoundEvent.HOLD: RoundState.HELD,
    RoundEvent.GO_ON: RoundState.ASKING,
}

ROUND: Transitions[RoundState, RoundEvent] = {
    RoundState.RESUMING: {
        RoundEvent.BEGIN: RoundState.ASKING,
        RoundEvent.COMPLETE: RoundState.RESUMING_CLOSED,
        RoundEvent.CLOSE: RoundState.RESUMING_CLOSED,
        RoundEvent.ABANDON: RoundState.RESUMING_ABANDONED,
    },
    RoundState.ASKING: _BEGUN,
    RoundState.HELD: _BEGUN,
    # A round ends once: what comes later changes nothing. A commit that was under way may still
    # complete it, and its timer or the operator may be late.
    RoundState.RESUMING_CLOSED: {
        RoundEvent.BEGIN: RoundState.CLOSED,
        **dict.fromkeys(_ENDS, RoundState.RESUMING_CLOSED),
    },
    RoundState.RESUMING_ABANDONED: {
        RoundEvent.BEGIN: RoundState.ABANDONED,
        **dict.fromkeys(_ENDS, RoundState.RESUMING_ABANDONED),
    },
    RoundState.CLOSED: dict.fromkeys(_LATER, RoundState.CLOSED),
    RoundState.ABANDONED: dict.fromkeys(_LATER, RoundState.ABANDONED),
}

BEGUN = frozenset({RoundState.ASKING, RoundState.HELD, RoundState.CLOSED, RoundState.ABANDONED})
OVER = frozenset(RoundState) - {RoundState.RESUMING, RoundState.ASKING, RoundState.HELD}


class StudyPhase(Enum):
    """State of a study in the hub."""

    IDLE = auto()  # no round is open; one may be opened
    OPEN = auto()  # one round is open
    SUSPENDED = auto()  # no round is open, and only an operator can let the study go on
    CANCELLED = auto()  # no round is opened any more; the last may still be on its way out


class PhaseEvent(Enum):
    """Event in the life of a study, for the hub."""

    PREPARE = auto()  # a round is to be opened, and is noted in the store first
    OPEN = auto()  # the round is noted, and open
    RETIRE = auto()  # the open round has ended
    SUSPEND = auto()  # the study cannot go on
    CANCEL = auto()
    FORGET = auto()  # the study's end is durable


STUDY: Transitions[StudyPhase, PhaseEvent] = {
    StudyPhase.IDLE: {
        PhaseEvent.PREPARE: StudyPhase.IDLE,
        PhaseEvent.OPEN: StudyPhase.OPEN,
        PhaseEvent.SUSPEND: StudyPhase.SUSPENDED,
        PhaseEvent.CANCEL: StudyPhase.CANCELLED,
        PhaseEvent.FORGET: StudyPhase.IDLE,
    },
    StudyPhase.OPEN: {
        PhaseEvent.RETIRE: StudyPhase.IDLE,
        PhaseEvent.SUSPEND: StudyPhase.OPEN,  # submitted again before it was: it goes on after all
        PhaseEvent.CANCEL: StudyPhase.CANCELLED,
        PhaseEvent.FORGET: StudyPhase.OPEN,
    },
    StudyPhase.SUSPENDED: {
        PhaseEvent.PREPARE: StudyPhase.IDLE,
        PhaseEvent.OPEN: StudyPhase.OPEN,  # suspended while its round was noted
        PhaseEvent.SUSPEND: StudyPhase.SUSPENDED,
        PhaseEvent.CANCEL: StudyPhase.CANCELLED,
        PhaseEvent.FORGET: StudyPhase.IDLE,
    },
    StudyPhase.CANCELLED: {
        PhaseEvent.RETIRE: StudyPhase.CANCELLED,
        PhaseEvent.SUSPEND: StudyPhase.CANCELLED,
        PhaseEvent.CANCEL: StudyPhase.CANCELLED,
        PhaseEvent.FORGET: StudyPhase.IDLE,
    },
}


class StudyPhases:
    """Phases of the hub's studies, by digest; only those that are not idle take memory."""

    def __init__(self) -> None:
        self._phases: dict[bytes, StudyPhase] = {}

    def __len__(self) -> int:
        return len(self._phases)

    def of(self, study_digest: bytes) -> StudyPhase:
        """Return a study's phase."""
        return self._phases.get(study_digest, StudyPhase.IDLE)

    def on(self, study_digest: bytes, event: PhaseEvent) -> None:
        """Change a study's phase."""
        phase = next_state("study", STUDY, self.of(study_digest), event)
        if phase is StudyPhase.IDLE:
            self._phases.pop(study_digest, None)
        else:
            self._phases[study_digest] = phase
