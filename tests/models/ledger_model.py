"""Model of a device's ledger: charge, commit, mark, counter, send, echo, crash, put back, accept.

A device answers requests, each with a fresh draw that costs one unit of a life budget. On its disk
are the rows of the ledger and the mark; outside the folder there may be a counter. Mark and counter
are modelled by the rows up to their place, as the code's hash chain has them; a command's counter
by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

from tests.models.checker import Operation

Row = tuple[int, int]
"""An answer: its request, and the number of the draw (0 is a request's first)."""
LOSS: Row = (-1, 0)  # an accepted loss
GAP: Row = (-2, 0)  # a place without a row, up to a command's number
LOSS_STEP = 1 << 32  # of sequence numbers
MOST_DRAWS = 2  # of one request
_FEW = 5  # more rows than a ledger has within the bounds
GOOD_ORDER = ("commit", "mark", "count", "send")

REFUSED_AT_START = "refused: the ledger is behind"
REFUSED_ECHO = "refused: the aggregator is ahead"
REFUSED_BUDGET = "refused: past the life budget"
STARTED, DIED, NOTHING = "started", "died", ""

TWICE = "two answers to one request"
PAST_LIFE = "more answers than the life budget pays for"
UNCHARGED = "sent, and not charged"
INTACT_REFUSED = "an intact ledger is refused"
PROMISES = frozenset({TWICE, PAST_LIFE, UNCHARGED, INTACT_REFUSED})


@dataclass(frozen=True)
class World:
    """Bounds of a search, and what may befall a device in it.

    Args:
        requests: number of distinct requests.
        life: answers that the life budget pays for.
        folder: the whole folder may be copied and put back.
        file: the ledger file alone may be put back, or lose its last rows.
        loses: reports may be lost or under way; False: each arrives when it is sent.
        understates: the aggregator is restored, or lies: its number may be lower than it was.
        counter: "file", "number" (a command's) or None.
        copies: copies of the folder that are kept at one time.
        accepts: the owner may accept a loss, once.
    """

    requests: int = 2
    life: int = 1
    folder: bool = False
    file: bool = True
    loses: bool = True
    understates: bool = True
    counter: str | None = None
    copies: int = 1
    accepts: bool = False


class LedgerState(NamedTuple):
    """State of a device, its copies, its network and its aggregator.

    Args:
        rows: committed rows of the ledger file.
        mark: the rows up to the mark's place.
        counter: as the mark, or a number; () without a counter.
        up: whether the process runs.
        todo: steps that are left of the answer, or of the start.
        answer: the row that is being answered.
        copies: folders that were copied, as (rows, mark); the oldest makes room for a new one.
        under_way: reports in the network, as (row, sequence number).
        echo: the highest sequence number that the aggregator has acknowledged.
        left: all rows whose reports ever left.
        drawn: committed draws of each request.
        put_back: whether any file was ever put back.
        accepted: whether a loss was accepted.
    """

    rows: tuple[Row, ...] = ()
    mark: tuple[Row, ...] = ()
    counter: tuple[Row, ...] | int = ()
    up: bool = False
    todo: tuple[str, ...] = ()
    answer: Row | None = None
    copies: tuple[tuple[tuple[Row, ...], tuple[Row, ...]], ...] = ()
    under_way: frozenset[tuple[Row, int]] = frozenset()
    echo: int = 0
    left: frozenset[Row] = frozenset()
    drawn: tuple[int, ...] = ()
    put_back: bool = False
    accepted: bool = False


class LedgerModel:
    """Transitions of the protocol (see `checker.Model`).

    Args:
        world: the bounds.
        order: the steps of an answer; the good one is `GOOD_ORDER`.
        defects: rules that are left out.
        promises: the promises that are looked at.
    """

    def __init__(
        self,
        world: World,
        *,
        order: tuple[str, ...] = GOOD_ORDER,
        defects: frozenset[str] = frozenset(),
        promises: frozenset[str] = PROMISES,
    ) -> None:
        self._world = world
        self._order = tuple(s for s in order if s != "count" or world.counter is not None)
        self._defects = defects
        self._promises = promises

    @property
    def initial(self) -> LedgerState:
        """A new folder, whose device has not started."""
        counter: tuple[Row, ...] | int = 0 if self._world.counter == "number" else ()
        return LedgerState(counter=counter, drawn=(0,) * self._world.requests)

    def operations(self, state: LedgerState) -> Iterator[Operation]:
        """Yield what may happen."""
        world = self._world
        if state.up:
            yield ("crash",)
            if state.todo:
                yield (state.todo[0],)
            else:
                for request in self._asked(state):
                    for echo in self._echoes(state):
                        yield ("ask", request, echo)
        else:
            yield ("start",)
            for number, _ in enumerate(state.copies):
                if world.folder:
                    yield ("put back the folder", number)
                if world.file:
                    yield ("put back the file", number)
            if world.accepts and not state.accepted:
                yield ("accept a loss",)
        if (world.folder or world.file) and (state.rows, state.mark) not in state.copies:
            yield ("copy the folder",)
        for row, sequence in sorted(state.under_way):
            yield ("deliver", row, sequence)
            yield ("lose", row, sequence)

    def apply(self, state: LedgerState, operation: Operation) -> tuple[LedgerState, object]:
        """Return the state after an operation, and what the device says."""
        name, *words = operation
        if name in ("deliver", "lose"):
            return self._arrive(state, operation), NOTHING
        if name in ("copy the folder", "put back the folder", "put back the file"):
            return self._copied(state, operation), NOTHING
        if name == "ask":
            return self._ask(state, *cast(tuple[int, int], words))
        steps: dict[Hashable, Callable[[LedgerState], tuple[LedgerState, object]]] = {
            "commit": self._commit,
            "mark": self._mark,
            "count": self._count,
            "send": self._send,
            "crash": self._crash,
            "start": self._start,
            "accept a loss": self._accept,
        }
        return steps[name](state)

    def broken(self, state: LedgerState) -> str | None:
        """Return a promise that is broken."""
        found = set()
        requests = [request for request, _ in state.left]
        if len(set(requests)) < len(requests):
            found.add(TWICE)
        if len(state.left) > self._world.life:
            found.add(PAST_LIFE)
        if not state.put_back and not state.left <= set(state.rows):
            found.add(UNCHARGED)
        if not state.put_back and not state.up and self._is_behind(state):
            found.add(INTACT_REFUSED)
        return min(found & self._promises, default=None)

    def _asked(self, state: LedgerState) -> list[int]:
        """Return the requests that may be asked.

        Requests that left no trace differ by their names alone: of them the first stands for all.
        """
        traced = {request for request, _ in state.left}
        asked: list[int] = []
        for request, draws in enumerate(state.drawn):
            if self._row(state, request) or draws < MOST_DRAWS:
                asked.append(request)
            if not draws and request not in traced:
                break
        return asked

    def _echoes(self, state: LedgerState) -> list[int]:
        """Return the numbers that an aggregator may echo: its own, or lower ones."""
        if not self._world.understates:
            return [state.echo]
        numbers = [start + step for start in (0, LOSS_STEP) for step in range(_FEW)]
        return [number for number in numbers if number <= state.echo]

    def _ask(self, state: LedgerState, request: int, echo: int) -> tuple[LedgerState, object]:
        if echo > sequence(state.rows) and "echo ignored" not in self._defects:
            return state, REFUSED_ECHO
        row = self._row(state, request)
        if row is not None and "a retry drawn anew" not in self._defects:
            return state._replace(todo=("send",), answer=row), NOTHING
        if row is None and self._spent(state.rows) >= self._world.life:
            return state, REFUSED_BUDGET
        if state.drawn[request] >= MOST_DRAWS:
            return state, NOTHING
        fresh = (request, state.drawn[request])
        return state._replace(todo=self._order, answer=fresh), NOTHING

    def _row(self, state: LedgerState, request: int) -> Row | None:
        return next((row for row in reversed(state.rows) if row[0] == request), None)

    def _spent(self, rows: tuple[Row, ...]) -> int:
        if LOSS in rows and "a loss charged nothing" not in self._defects:
            return self._world.life
        return sum(row[0] >= 0 for row in rows)

    def _arrive(self, state: LedgerState, operation: Operation) -> LedgerState:
        name, row, number = cast(tuple[str, Row, int], operation)
        echo = max(state.echo, number) if name == "deliver" else state.echo
        return state._replace(under_way=state.under_way - {(row, number)}, echo=echo)

    def _copied(self, state: LedgerState, operation: Operation) -> LedgerState:
        if operation[0] == "copy the folder":
            kept = state.copies[len(state.copies) + 1 - self._world.copies :]
            return state._replace(copies=(*kept, (state.rows, state.mark)))
        rows, mark = state.copies[cast(int, operation[1])]
        if operation[0] == "put back the file":
            mark = state.mark
        return state._replace(rows=rows, mark=mark, put_back=True)

    def _commit(self, state: LedgerState) -> tuple[LedgerState, object]:
        assert state.answer is not None
        request, draw = state.answer
        drawn = (*state.drawn[:request], draw + 1, *state.drawn[request + 1 :])
        return self._next(state)._replace(rows=(*state.rows, state.answer), drawn=drawn), NOTHING

    def _mark(self, state: LedgerState) -> tuple[LedgerState, object]:
        return self._next(state)._replace(mark=self._reached(state)), NOTHING

    def _count(self, state: LedgerState) -> tuple[LedgerState, object]:
        return self._next(state)._replace(counter=self._place(self._reached(state))), NOTHING

    def _reached(self, state: LedgerState) -> tuple[Row, ...]:
        """Return the rows up to the place that mark and counter are moved to."""
        if "commit" in state.todo:  # a defect: they run ahead
            assert state.answer is not None
            return (*state.rows, state.answer)
        return state.rows

    def _send(self, state: LedgerState) -> tuple[LedgerState, object]:
        row = state.answer
        assert row is not None
        rows = state.rows if row in state.rows else (*state.rows, row)
        number = sequence(rows[: rows.index(row) + 1])
        after = self._next(state)._replace(left=state.left | {row})
        if self._world.loses:
            after = after._replace(under_way=state.under_way | {(row, number)})
        else:
            after = after._replace(echo=max(state.echo, number))
        return after, (row, number)

    def _next(self, state: LedgerState) -> LedgerState:
        todo = state.todo[1:]
        return state._replace(todo=todo, answer=state.answer if todo else None)

    def _crash(self, state: LedgerState) -> tuple[LedgerState, object]:
        rows = state.rows
        if "a charge taken back at a crash" in self._defects and "send" in state.todo and rows:
            rows = rows[:-1]
        return state._replace(rows=rows, up=False, todo=(), answer=None), DIED

    def _is_behind(self, state: LedgerState) -> bool:
        place = len(state.mark)
        same = state.rows[:place] == state.mark
        if "a mark without its hash" in self._defects:
            same = len(state.rows) >= place
        if not same and "mark not compared" not in self._defects:
            return True
        if self._world.counter is None or "counter not compared" in self._defects:
            return False
        if isinstance(state.counter, int):
            return len(state.rows) < state.counter
        return state.rows[: len(state.counter)] != state.counter

    def _start(self, state: LedgerState) -> tuple[LedgerState, object]:
        if self._is_behind(state):
            return state, REFUSED_AT_START
        todo: list[str] = []
        if "no settling at the start" not in self._defects:
            if len(state.rows) > len(state.mark):
                todo.append("mark")
            if self._world.counter is not None and self._place(state.rows) != state.counter:
                todo.append("count")
        return state._replace(up=True, todo=tuple(todo)), STARTED

    def _place(self, rows: tuple[Row, ...]) -> tuple[Row, ...] | int:
        return len(rows) if self._world.counter == "number" else rows

    def _accept(self, state: LedgerState) -> tuple[LedgerState, object]:
        counted = state.counter if isinstance(state.counter, int) else 0
        gap = (GAP,) * (counted - len(state.rows) if self._is_behind(state) else 0)
        rows = (*state.rows, *gap, LOSS)
        counter = () if self._world.counter is None else self._place(rows)
        return state._replace(rows=rows, mark=rows, counter=counter, accepted=True), NOTHING


def sequence(rows: tuple[Row, ...]) -> int:
    """Return the sequence number of the last row."""
    return sum(LOSS_STEP if row == LOSS else row != GAP for row in rows)


_COUNTED = World(folder=True, accepts=True, counter="file")
HOLDS = {
    "no counter, no folder put back": World(requests=3, life=2, accepts=True),
    "no counter, every report arrives, an honest aggregator": World(
        requests=3, life=2, folder=True, loses=False, understates=False, accepts=True
    ),
    "a counter in a file, anything": World(
        requests=3, life=2, folder=True, accepts=True, counter="file"
    ),
    "a counter in a file, two copies": World(folder=True, counter="file", copies=2),
    "a command's counter, one copy": World(
        requests=3, life=2, folder=True, accepts=True, counter="number"
    ),
}
"""Searches that find no broken promise, by what may befall the device."""
LARGER = {
    "a counter in a file, two copies, two answers": World(
        life=2, folder=True, counter="file", copies=2
    ),
}
LEFT_OPEN = {
    "a report lost or under way, the folder put back: two answers": (
        World(folder=True, understates=False),
        TWICE,
        13,
    ),
    "a report lost or under way, the folder put back: the budget": (
        World(folder=True, understates=False),
        PAST_LIFE,
        13,
    ),
    "the aggregator restored, or lying, the folder put back": (
        World(folder=True, loses=False),
        TWICE,
        13,
    ),
    "a command's counter, two copies": (
        World(folder=True, counter="number", copies=2),
        TWICE,
        19,
    ),
    "a counter in a file, two copies, a loss accepted": (
        World(folder=True, accepts=True, counter="file", copies=2),
        TWICE,
        19,
    ),
}
"""Searches that find what ADR 22 says is left open: the bounds, the promise, the fewest steps."""


def _planted(world: World, *defects: str, order: tuple[str, ...] = GOOD_ORDER) -> LedgerModel:
    return LedgerModel(world, order=order, defects=frozenset(defects))


PLANTED = {
    "sent before the commit": _planted(World(), order=("send", "commit", "mark")),
    "sent before the mark": _planted(World(), order=("commit", "send", "mark")),
    "the mark before the commit": _planted(World(), order=("mark", "commit", "send")),
    "sent before the counter": _planted(_COUNTED, order=("commit", "mark", "send", "count")),
    "the counter before the commit": _planted(_COUNTED, order=("count", "commit", "mark", "send")),
    "the echo ignored": _planted(
        World(folder=True, loses=False, understates=False), "echo ignored"
    ),
    "the mark not compared": _planted(World(), "mark not compared"),
    "the mark compared without its hash": _planted(World(copies=2), "a mark without its hash"),
    "the counter not compared": _planted(_COUNTED, "counter not compared"),
    "no settling at the start": _planted(World(), "no settling at the start"),
    "a retry drawn anew": _planted(World(life=2), "a retry drawn anew"),
    "a charge taken back at a crash": _planted(World(), "a charge taken back at a crash"),
    "an accepted loss that charges nothing": _planted(_COUNTED, "a loss charged nothing"),
}
"""Models with one defect each."""
EQUIVALENT = {
    "the counter before the mark": _planted(_COUNTED, order=("commit", "count", "mark", "send"))
}
"""Changes that break no promise."""
