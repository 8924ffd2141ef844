"""Model of a study's lease with fencing tokens: two replicas, one database, and their clocks.

A replica acquires the lease, renews it, writes lines of the study's transcript under its token,
gives the lease back, dies and starts again under its name. A lease ends by the database's clock. A
replica that does nothing for a while is one that was paused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

from tests.models.checker import Operation

LENGTH = 2  # of a lease, in ticks
SKEW = (0, LENGTH + 1)  # of the replicas' own clocks, which no good rule reads

TAKEN, REFUSED, LOST, NOTHING = "taken", "refused", "lost", ""

STALE = "a write of a replica that has lost its lease"
STOLEN = "a lease that has not ended is taken"
MIXED = "a line after lines that its writer does not know"
UNFREE = "a lease that no process holds is refused"
UNNOTICED = "a renewal that leaves a lost lease held"
PROLONGED = "a renewal prolongs the lease of another"
REVIVED = "a lease that was given back is renewed"


@dataclass(frozen=True)
class Bounds:
    """Bounds of a search.

    Args:
        ticks: of the database's clock.
        lines: of the transcript.
        tokens: the highest one.
    """

    ticks: int = 6
    lines: int = 3
    tokens: int = 4


class Replica(NamedTuple):
    """Memory of a replica's process.

    Args:
        up: whether it runs.
        held: its token; 0: it holds no lease.
        known: number of lines of the transcript that it has read or written.
        checked: it has found its token to be the lease's, in a transaction before.
    """

    up: bool = True
    held: int = 0
    known: int = 0
    checked: bool = False


class LeaseState(NamedTuple):
    """State of the database and of the replicas.

    Args:
        now: the database's clock.
        holder: number of the replica that has the lease; -1: it was never taken.
        token: of the lease.
        ends: the time at which it ends.
        given_back: its holder has given it back.
        lines: tokens under which the transcript's lines were written.
        replicas: their memories.
        wrong: the promise that the last step broke.
    """

    now: int = 0
    holder: int = -1
    token: int = 0
    ends: int = 0
    given_back: bool = False
    lines: tuple[int, ...] = ()
    replicas: tuple[Replica, Replica] = (Replica(), Replica())
    wrong: str | None = None


class LeaseModel:
    """Transitions of the protocol (see `checker.Model`).

    Args:
        bounds: of the search.
        defects: rules that are left out.
    """

    def __init__(self, bounds: Bounds = Bounds(), *, defects: frozenset[str] = frozenset()) -> None:
        self._bounds = bounds
        self._defects = defects
        self.initial = LeaseState()

    def operations(self, state: LeaseState) -> Iterator[Operation]:
        """Yield what may happen."""
        if state.now < self._bounds.ticks:
            yield ("tick",)
        for number, replica in enumerate(state.replicas):
            if not replica.up:
                yield ("start", number)
                continue
            yield ("die", number)
            if "read before the lease" in self._defects and not replica.held:
                yield ("read", number)
            if state.token < self._bounds.tokens:
                yield ("acquire", number)
            if replica.held:
                yield ("renew", number)
                if len(state.lines) < self._bounds.lines:
                    if "token compared before" in self._defects and not replica.checked:
                        yield ("check", number)
                    else:
                        yield ("write", number)
                yield ("release", number)

    def apply(self, state: LeaseState, operation: Operation) -> tuple[LeaseState, object]:
        """Return the state after an operation, and what the replica is told."""
        name, *words = operation
        if name == "tick":
            return state._replace(now=state.now + 1), NOTHING
        steps: dict[Hashable, Callable[[LeaseState, int], tuple[LeaseState, object]]] = {
            "acquire": self._acquire,
            "renew": self._renew,
            "release": self._release,
            "write": self._write,
            "check": self._check,
            "read": self._read,
            "die": self._die,
            "start": self._start,
        }
        return steps[name](state, cast(int, words[0]))

    def broken(self, state: LeaseState) -> str | None:
        """Return the promise that the last step broke."""
        return state.wrong

    def has_ended(self, state: LeaseState) -> bool:
        """Return whether the lease has ended by the database's clock."""
        return state.ends <= state.now

    def _acquire(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        replica = state.replicas[number]
        if replica.held:
            return state, TAKEN
        now = state.now
        if "the replica's clock" in self._defects:
            now += SKEW[number]
        if state.ends > now and "an end that is not waited for" not in self._defects:
            held = any(one.up and one.held == state.token for one in state.replicas)
            gone = not state.replicas[state.holder].up  # it may be away for a moment
            return state._replace(wrong=None if held or gone else UNFREE), REFUSED
        alive = any(
            one.held == state.token and place != number for place, one in enumerate(state.replicas)
        )
        stolen = not self.has_ended(state) and state.token and alive
        token = state.token + ("a token that does not rise" not in self._defects or not state.token)
        known = replica.known if "read before the lease" in self._defects else len(state.lines)
        after = state._replace(
            holder=number,
            token=token,
            ends=state.now + LENGTH,
            given_back=False,
            wrong=STOLEN if stolen else None,
        )
        return _with(after, number, replica._replace(held=token, known=known)), TAKEN

    def _renew(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        replica = state.replicas[number]
        if replica.held == state.token or "renewed without the token" in self._defects:
            wrong = PROLONGED if state.holder != number else REVIVED if state.given_back else None
            return state._replace(ends=state.now + LENGTH, wrong=wrong), NOTHING
        if "a loss that is not noticed" in self._defects:
            return state._replace(wrong=UNNOTICED), NOTHING
        return _with(state, number, replica._replace(held=0, checked=False)), LOST

    def _release(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        replica = state.replicas[number]
        if replica.held == state.token:
            state = state._replace(ends=state.now, given_back=True)
        if "given back and held" in self._defects:
            return state, NOTHING
        return _with(state, number, replica._replace(held=0, checked=False)), NOTHING

    def _write(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        replica = state.replicas[number]
        unchecked = replica.checked or "token not compared" in self._defects
        if replica.held != state.token and not unchecked:
            return state, LOST
        wrong = None
        if replica.held != state.token or state.holder != number:
            wrong = STALE
        elif replica.known != len(state.lines):
            wrong = MIXED
        after = state._replace(lines=(*state.lines, replica.held), wrong=wrong)
        known = replica._replace(known=len(after.lines), checked=False)
        return _with(after, number, known), NOTHING

    def _check(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        replica = state.replicas[number]
        if replica.held != state.token:
            return state, LOST
        return _with(state, number, replica._replace(checked=True)), NOTHING

    def _read(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        replica = state.replicas[number]
        return _with(state, number, replica._replace(known=len(state.lines))), NOTHING

    def _die(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        return _with(state, number, Replica(up=False)), NOTHING

    def _start(self, state: LeaseState, number: int) -> tuple[LeaseState, object]:
        frees = "a predecessor's lease that is kept" not in self._defects
        if state.holder == number and frees:
            state = state._replace(ends=min(state.ends, state.now))
        return _with(state, number, Replica()), NOTHING


def _with(state: LeaseState, number: int, replica: Replica) -> LeaseState:
    first, second = state.replicas
    return state._replace(replicas=(replica, second) if number == 0 else (first, replica))


HOLDS = {"two replicas": Bounds()}
LARGER = {"two replicas, for longer": Bounds(ticks=7, tokens=5)}
PLANTED = {
    name: LeaseModel(defects=frozenset({name}))
    for name in (
        "token not compared",
        "token compared before",
        "the replica's clock",
        "an end that is not waited for",
        "a token that does not rise",
        "renewed without the token",
        "a loss that is not noticed",
        "given back and held",
        "a predecessor's lease that is kept",
        "read before the lease",
    )
}
"""Models with one defect each."""
