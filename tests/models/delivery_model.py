"""Model of delivery: devices send a report until it is acknowledged, and each counts exactly once.

Two replicas take the reports of one round into one database. Each message is taken, committed and
acknowledged in steps of its own, and a replica may die in between. One replica, the driver, closes
the round and counts what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.models.checker import Operation

ACCEPTED, DUPLICATE, LATE, NOTHING = "accepted", "duplicate", "late", ""
DRIVER = 0
_TALLIED = frozenset(
    {
        "a duplicate counted",
        "duplicates known to one process",
        "own reports counted alone",
        "stored reports added to those counted",
    }
)

TWICE = "a report counts twice"
NOT_STORED = "a report is acknowledged and not stored"
NOT_COUNTED = "a stored report is not counted, or a counted one is not stored"
NEW_TWICE = "a report is accepted twice"
GIVEN_UP = "a device has given up a report that is neither stored nor late"


@dataclass(frozen=True)
class Bounds:
    """Bounds of a search.

    Args:
        devices: that answer the round.
        replicas: that take their reports.
        messages: of one device to one replica that are on their way at one time.
        deaths: of replicas, in all.
    """

    devices: int = 2
    replicas: int = 2
    messages: int = 2
    deaths: int = 2


class Taking(NamedTuple):
    """Memory of a replica's process.

    Args:
        up: whether it runs.
        taken: messages of each device that were taken and are not committed.
        looked: of these, those for which the round was found open before their transaction.
        tally: count of each device by the reports that it took itself, if a defect counts by it.
    """

    up: bool = True
    taken: tuple[int, ...] = ()
    looked: tuple[int, ...] = ()
    tally: tuple[int, ...] = ()


class DeliveryState(NamedTuple):
    """State of devices, replicas and database.

    Args:
        rows: stored reports of each device.
        closed: whether the round is closed, in the database.
        result: count of each device; () before the round was counted.
        waiting: whether each device keeps its report.
        said: all acknowledgements, as (device, status), which may arrive at any time, or never.
        accepted: acknowledgements as new of each device, by all replicas.
        replicas: their memories.
        deaths: of replicas so far.
    """

    rows: tuple[int, ...]
    closed: bool
    result: tuple[int, ...]
    waiting: tuple[bool, ...]
    said: frozenset[tuple[int, str]]
    accepted: tuple[int, ...]
    replicas: tuple[Taking, ...]
    deaths: int


class DeliveryModel:
    """Transitions of the protocol (see `checker.Model`).

    Args:
        bounds: of the search.
        defects: rules that are left out.
    """

    def __init__(self, bounds: Bounds = Bounds(), *, defects: frozenset[str] = frozenset()) -> None:
        self._bounds = bounds
        self._defects = defects
        none = (0,) * bounds.devices
        self._new = Taking(True, none, none, none)
        self.initial = DeliveryState(
            none,
            False,
            (),
            (True,) * bounds.devices,
            frozenset(),
            none,
            (self._new,) * bounds.replicas,
            0,
        )

    def operations(self, state: DeliveryState) -> Iterator[Operation]:
        """Yield what may happen."""
        for number, replica in enumerate(state.replicas):
            if not replica.up:
                yield ("start", number)
                continue
            yield from self._messages(state, number, replica)
            if state.deaths < self._bounds.deaths:
                yield ("die", number)
        for device, status in sorted(state.said):
            if state.waiting[device]:
                yield ("acknowledge", device, status)
        if state.replicas[DRIVER].up and not state.result:
            early = "counted before the round is closed" in self._defects
            if not state.closed:
                yield ("close",)
            if state.closed or early:
                yield ("count",)

    def _messages(self, state: DeliveryState, number: int, replica: Taking) -> Iterator[Operation]:
        for device in range(self._bounds.devices):
            if state.waiting[device] and replica.taken[device] < self._bounds.messages:
                yield ("send", number, device)
            if replica.taken[device]:
                looks = self._looks and not replica.looked[device]
                yield ("look" if looks else "commit", number, device)

    @property
    def _looks(self) -> bool:
        return "the round looked at before the transaction" in self._defects

    def apply(self, state: DeliveryState, operation: Operation) -> tuple[DeliveryState, object]:
        """Return the state after an operation, and the status that a replica has for a report."""
        name, *words = operation
        steps: dict[Hashable, Callable[..., tuple[DeliveryState, object]]] = {
            "send": self._send,
            "look": self._look,
            "commit": self._commit,
            "acknowledge": self._acknowledge,
            "die": self._die,
            "start": self._start,
            "close": self._close,
            "count": self._count,
        }
        return steps[name](state, *words)

    def broken(self, state: DeliveryState) -> str | None:
        """Return a promise that is broken."""
        if any(count > 1 for count in state.result):
            return TWICE
        if any(count > 1 for count in state.accepted):
            return NEW_TWICE
        if any(status != LATE and not state.rows[device] for device, status in state.said):
            return NOT_STORED
        if state.result and any(
            bool(count) != bool(rows) for count, rows in zip(state.result, state.rows, strict=True)
        ):
            return NOT_COUNTED
        late = {device for device, status in state.said if status == LATE}
        for device, waiting in enumerate(state.waiting):
            if not waiting and not state.rows[device] and device not in late:
                return GIVEN_UP
        return None

    def _send(self, state: DeliveryState, number: int, device: int) -> tuple[DeliveryState, object]:
        replica = state.replicas[number]
        replica = replica._replace(taken=_changed(replica.taken, device, 1))
        if "acknowledged before the commit" in self._defects:
            status = DUPLICATE if state.rows[device] else ACCEPTED
            state = state._replace(said=state.said | {(device, status)})
        waiting = state.waiting
        if "given up when it is sent" in self._defects:
            waiting = tuple(kept and place != device for place, kept in enumerate(waiting))
        return _with(state._replace(waiting=waiting), number, replica), NOTHING

    def _look(self, state: DeliveryState, number: int, device: int) -> tuple[DeliveryState, object]:
        replica = state.replicas[number]
        if state.closed:
            return self._answered(state, number, device, LATE), LATE
        looked = _changed(replica.looked, device, 1)
        return _with(state, number, replica._replace(looked=looked)), NOTHING

    def _commit(
        self, state: DeliveryState, number: int, device: int
    ) -> tuple[DeliveryState, object]:
        replica = state.replicas[number]
        closed = state.closed and not replica.looked[device]
        if "a close that only its process knows" in self._defects and number != DRIVER:
            closed = False
        known = bool(state.rows[device])
        if "duplicates known to one process" in self._defects:
            known = bool(replica.tally[device])
        if known and "a duplicate stored again" not in self._defects:
            status = DUPLICATE
        elif closed:
            late = "a late report called accepted" not in self._defects
            status = LATE if late else ACCEPTED
        else:
            status = ACCEPTED
            state = state._replace(rows=_changed(state.rows, device, 1))
        counts = status == ACCEPTED or "a duplicate counted" in self._defects
        if counts and status != LATE and self._defects & _TALLIED:
            tally = _changed(replica.tally, device, 1)
            state = _with(state, number, replica._replace(tally=tally))
        return self._answered(state, number, device, status), status

    def _answered(
        self, state: DeliveryState, number: int, device: int, status: str
    ) -> DeliveryState:
        replica = state.replicas[number]
        replica = replica._replace(
            taken=_changed(replica.taken, device, -1),
            looked=_changed(replica.looked, device, -replica.looked[device]),
        )
        state = state._replace(said=state.said | {(device, status)})
        if status == ACCEPTED:
            state = state._replace(accepted=_changed(state.accepted, device, 1))
        return _with(state, number, replica)

    def _acknowledge(
        self, state: DeliveryState, device: int, status: str
    ) -> tuple[DeliveryState, object]:
        waiting = tuple(kept and place != device for place, kept in enumerate(state.waiting))
        return state._replace(waiting=waiting), NOTHING

    def _die(self, state: DeliveryState, number: int) -> tuple[DeliveryState, object]:
        dead = self._new._replace(up=False)
        return _with(state._replace(deaths=state.deaths + 1), number, dead), NOTHING

    def _start(self, state: DeliveryState, number: int) -> tuple[DeliveryState, object]:
        tally = state.rows if self._defects & _TALLIED else self._new.tally
        return _with(state, number, self._new._replace(tally=tally)), NOTHING

    def _close(self, state: DeliveryState) -> tuple[DeliveryState, object]:
        return state._replace(closed=True), NOTHING

    def _count(self, state: DeliveryState) -> tuple[DeliveryState, object]:
        result = state.rows
        own = state.replicas[DRIVER].tally
        if "own reports counted alone" in self._defects or "a duplicate counted" in self._defects:
            result = own
        if "stored reports added to those counted" in self._defects:
            result = tuple(a + b for a, b in zip(own, state.rows, strict=True))
        return state._replace(result=result), result


def _changed(counts: tuple[int, ...], place: int, by: int) -> tuple[int, ...]:
    return (*counts[:place], counts[place] + by, *counts[place + 1 :])


def _with(state: DeliveryState, number: int, replica: Taking) -> DeliveryState:
    replicas = state.replicas
    return state._replace(replicas=(*replicas[:number], replica, *replicas[number + 1 :]))


_SMALL = Bounds(devices=1, deaths=1)
HOLDS = {
    "two devices, two replicas": Bounds(),
    "three devices, one process": Bounds(devices=3, replicas=1),
}
LARGER = {"three devices, two replicas": Bounds(devices=3, messages=1, deaths=1)}
PLANTED = {
    name: DeliveryModel(_SMALL, defects=frozenset({name}))
    for name in (
        "acknowledged before the commit",
        "a duplicate stored again",
        "a duplicate counted",
        "duplicates known to one process",
        "counted before the round is closed",
        "the round looked at before the transaction",
        "own reports counted alone",
        "stored reports added to those counted",
        "given up when it is sent",
        "a late report called accepted",
        "a close that only its process knows",
    )
}
"""Models with one defect each."""
