"""Rounds with absent devices: closed when all present devices have answered."""

from __future__ import annotations

import asyncio

from askance_aggregator.server.devices import Hub
from askance_aggregator.server.devices.observer import Observer
from askance_client.messages import Reason

_LOOK_AGAIN_S = 0.01  # until a round that has been opened is asked


class Attendance(Observer):
    """Observer that closes a round when only the absent devices have not answered.

    It observes the service in its event loop.
    """

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self._study = b""
        self._away = 0
        self._looking = False

    def expect(self, hub: Hub, study: bytes, away: int) -> None:
        """Set the number of answers that will not come, before a round of a study opens."""
        self._hub, self._study, self._away = hub, study, away

    def round_opened(self) -> None:
        """Schedule a check, since all devices may be absent."""
        self._look_soon()

    def charged(self, nano_nats: int) -> None:
        """Schedule a check after an answer."""
        self._look_soon()

    def refused(self, reason: Reason) -> None:
        """Schedule a check after a refusal."""
        self._look_soon()

    def _look_soon(self) -> None:
        """Schedule one check, after the report and all others that are counted now."""
        if self._away and not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        assert self._hub is not None
        asked, answered = self._hub.progress(self._study)
        if not asked:  # what the store holds of it is being entered
            self._looking = True
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look)
        elif asked - answered <= self._away:
            self._hub.close_round(self._study)
