"""State machines as tables: which event leads from which state to which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from askance_client.errors import LocalProtocolError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)
Transitions = Mapping[S, Mapping[E, S]]
"""For each state, the events that are legal in it, and the state that each leads to."""


def next_state(subject: str, transitions: Transitions[S, E], state: S, event: E) -> S:
    """Return the state that an event leads to."""
    legal = transitions[state]
    if event not in legal:
        names = ", ".join(known.name for known in legal) or "no event"
        raise LocalProtocolError(f"{subject}: expected {names} when {state.name}, got {event.name}")
    return legal[event]
