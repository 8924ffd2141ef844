"""Explicit-state checker: every state of a protocol's model within its bounds, breadth first.

A model has an initial state and, in each state, operations. All states that operations lead to are
visited once, so that an invariant that is never broken holds in all of them, and the first history
that breaks it has the fewest steps possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

S = TypeVar("S", bound=Hashable)
Operation = tuple[Hashable, ...]
"""A name, and what it is about: ("ask", 0, 1)."""

_CHECKED = 1 << 12  # states between two looks at the clock


class Model(Protocol[S]):
    """Protocol of processes and their disks, with the faults that may befall them."""

    @property
    def initial(self) -> S:
        """The first state."""
        ...

    def operations(self, state: S) -> Iterable[Operation]:
        """Return what may happen in a state, within the bounds."""
        ...

    def apply(self, state: S, operation: Operation) -> tuple[S, object]:
        """Return the state after an operation, and what a caller observes of it."""
        ...

    def broken(self, state: S) -> str | None:
        """Return the promise that a state breaks; None if it keeps all."""
        ...


class PastBounds(Exception):
    """More states, or more time, than the search was given: nothing is proved."""


@dataclass(frozen=True)
class Search:
    """Result of a search.

    Args:
        states: number of distinct states.
        steps: number of operations that were tried, from all of them.
        depth: steps from the initial state to the last one.
        broken: the promise that is broken; None: none is, in any state.
        history: the operations that lead there, as few as possible.
        names: names of all operations that were tried.
    """

    states: int
    steps: int
    depth: int
    broken: str | None
    history: tuple[Operation, ...]
    names: frozenset[str]

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.states:,} states, {self.steps:,} steps, depth {self.depth}: all hold"
        lines = [f"{self.broken} after {len(self.history)} steps ({self.states:,} states seen):"]
        lines += [f"  {number}. {told(step)}" for number, step in enumerate(self.history, 1)]
        return "\n".join(lines)


def told(operation: Operation) -> str:
    """Write an operation as one line."""
    return " ".join(str(word) for word in operation)


def explore(
    model: Model[S],
    *,
    most_states: int = 2_000_000,
    deadline_s: float = 600,
    now_s: Callable[[], float] = time.monotonic,
) -> Search:
    """Visit every state of a model, until one breaks a promise.

    Raises:
        PastBounds: more than `most_states` states, or `deadline_s` seconds.
    """
    until = now_s() + deadline_s
    initial = model.initial
    parents: dict[S, tuple[S, Operation] | None] = {initial: None}
    names: set[str] = set()
    layer, steps, depth = [initial], 0, 0

    def result(state: S | None, promise: str | None) -> Search:
        history: list[Operation] = []
        while state is not None and (found := parents[state]) is not None:
            state, operation = found
            history.append(operation)
        ordered = tuple(reversed(history))
        return Search(len(parents), steps, depth, promise, ordered, frozenset(names))

    promise = model.broken(initial)
    if promise is not None:
        return result(initial, promise)
    while layer:
        following: list[S] = []
        for state in layer:
            for operation in model.operations(state):
                steps += 1
                names.add(str(operation[0]))
                after = model.apply(state, operation)[0]
                if after in parents:
                    continue
                parents[after] = (state, operation)
                promise = model.broken(after)
                if promise is not None:
                    return result(after, promise)
                following.append(after)
                if len(parents) % _CHECKED == 0 and now_s() > until:
                    raise PastBounds(f"{len(parents):,} states in {deadline_s} s, and more")
                if len(parents) > most_states:
                    raise PastBounds(f"more than {most_states:,} states")
        layer = following
        depth += bool(following)
    return result(None, None)
