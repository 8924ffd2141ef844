"""Standing of devices and gateways in the register, as a serving process knows it.

The register's standing number is read several times a second; when it has risen, the states that
changed are read, and the streams of devices that are out are ended. A message that arrives in
between is judged by what was read last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import Store
from askance_aggregator.store.register import DeviceState, StandingChanges
from askance_client.errors import AskanceError, StoreError

_LOGGER = logging.getLogger(__name__)
_LOOK_S = 0.3  # between two looks: an operator's command is in force within a second
_SEEN_LOOKS = 20  # looks between two writes of the days on which devices called
_DAY_S = 86_400
_NOTED_AT_ONCE = 10_000  # devices of one transaction
_OTHERS = 255  # number of all software of a day after the first 254


LAST_WORDS = {
    DeviceState.REVOKED: "expected one that may take part, got a revoked one (ask the operator)",
    DeviceState.FORGOTTEN: "expected one that may take part, got a forgotten one (enrol it anew)",
}
"""Texts of the status that a device or a gateway gets."""


class Revoked(AskanceError):
    """A device or gateway that proved its identity and may not take part."""


class Standings:
    """Devices and gateways that are out; for use in one event loop.

    Args:
      now_s: the time in Unix seconds, for the day on which a device called.
      connected: returns the ordinals of the devices that hold a stream open.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        now_s: Callable[[], int],
        connected: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self._register = store.register
        self._run = InExecutor(executor)
        self._now_s = now_s
        self._connected = connected
        self._staying_day = now_s() // _DAY_S  # on which those who stay connected were noted
        self._number = 0
        self._devices: dict[int, DeviceState] = {}  # without those that may take part
        self._gateways: dict[int, DeviceState] = {}
        self._day = 0
        self._seen = bytearray()  # per ordinal: number of its software; 0: no call on this day
        self._software: dict[str, int] = {}  # numbers of this day
        self._calling: dict[int, str] = {}  # software of devices that were seen, not noted yet

    def bars(self, ordinal: int) -> bool:
        """Return whether a device may not take part."""
        return ordinal in self._devices

    def check_device(self, ordinal: int) -> None:
        """Raise Revoked if a device is revoked or forgotten."""
        if ordinal in self._devices:
            raise Revoked(f"device: {LAST_WORDS[self._devices[ordinal]]}")

    def check_gateway(self, number: int) -> None:
        """Raise Revoked if a gateway is revoked."""
        if number in self._gateways:
            raise Revoked(f"gateway: {LAST_WORDS[self._gateways[number]]}")

    def saw(self, ordinal: int, software: str) -> None:
        """Remember that a device called, to be noted once a day, and when its software changes.

        Software is what it stated; empty: none. A caller may state a new one at each call, so the
        first 254 of a day have numbers, and all others of that day count as one.
        """
        day = self._now_s() // _DAY_S
        if day != self._day:
            self._day, self._seen, self._software = day, bytearray(), {}
        if ordinal >= len(self._seen):
            self._seen.extend(bytes(ordinal + 1 - len(self._seen) + len(self._seen) // 8))
        number = self._software.get(software, _OTHERS)
        if number == _OTHERS and len(self._software) < _OTHERS - 1:
            number = self._software[software] = len(self._software) + 1
        if self._seen[ordinal] != number:
            self._seen[ordinal] = number
            self._calling[ordinal] = software

    async def load(self) -> None:
        """Read the register as it is."""
        await self._refresh()

    async def watch(self, on_change: Callable[[StandingChanges], None]) -> None:
        """Follow the register for as long as the task runs."""
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_S)
            looks += 1
            try:
                changes = await self._refresh()
                if changes is not None:
                    on_change(changes)
                if looks % _SEEN_LOOKS == 0:
                    await self._note_seen()
            except StoreError as error:  # a store that cannot be read takes no reports either
                _LOGGER.warning("the register cannot be read", exc_info=error)

    async def _refresh(self) -> StandingChanges | None:
        """Read what has changed; None if nothing has."""
        number = await self._run(self._register.standing)
        if number == self._number:
            return None
        since = self._number
        changes = await self._run(self._register.changes, since)
        _enter(self._devices, dict(changes.devices))
        _enter(self._gateways, dict(changes.gateways))
        self._number = changes.number
        return changes

    async def _note_staying(self) -> None:
        """Note once per day the devices that stay connected: they need not call to be there."""
        day = self._now_s() // _DAY_S
        if day == self._staying_day:
            return
        staying = self._connected()
        for start in range(0, len(staying), _NOTED_AT_ONCE):  # reports are stored in between
            part = staying[start : start + _NOTED_AT_ONCE]
            await self._run(self._register.note_seen, part, day, None)
        self._staying_day = day

    async def _note_seen(self) -> None:
        await self._note_staying()
        if not self._calling:
            return
        calling, self._calling = self._calling, {}
        by_software: dict[str, list[int]] = {}
        for ordinal, software in calling.items():
            by_software.setdefault(software, []).append(ordinal)
        day, note = self._day, self._register.note_seen

        def note_all() -> None:
            for software, ordinals in by_software.items():
                note(ordinals, day, software)

        await self._run(note_all)


def _enter(known: dict[int, DeviceState], changed: dict[int, DeviceState]) -> None:
    for number, state in changed.items():
        if state is DeviceState.ACTIVE:
            known.pop(number, None)
        else:
            known[number] = state
