"""Rounds that not everybody is there for: over when all who are there have answered."""

from __future__ import annotations

import asyncio

from askance.aggregator.service import Hub
from askance.aggregator.service.observer import Silent
from askance.client.messages import Reason

_LOOK_AGAIN_S = 0.01  # until a round that has been opened is asked


class Attendance(Silent):
    """Closes a round when nobody is out any more but those who are not there.

    To be told of what the service does (`service.Observer`), in its event loop.
    """

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self._study = b""
        self._away = 0
        self._looking = False

    def expect(self, hub: Hub, study: bytes, away: int) -> None:
        """Before a round of a study opens: so many of its answers will not come."""
        self._hub, self._study, self._away = hub, study, away

    def round_opened(self) -> None:
        """Perhaps nobody is there at all."""
        self._look_soon()

    def charged(self, nano_nats: int) -> None:
        """An answer has come."""
        self._look_soon()

    def refused(self, reason: Reason) -> None:
        """A refusal has come."""
        self._look_soon()

    def _look_soon(self) -> None:
        """After the report is counted, and once for all that are counted now."""
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
