"""Interface of disturbances: absent devices, lying devices and their reports.

All of it is a pure function of the study, the round and the ordinal, with chances from a seed of
its own: the same devices are absent, and the same lies are sent, on every fleet and in any order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.queries import Query
from askance_client.randomizers import Randomizer

Ordinals = NDArray[np.int64]
Which = NDArray[np.bool_]


class Behaviour(Protocol):
    """Behaviour of a fleet's devices beyond the protocol."""

    @property
    def absences(self) -> bool:
        """True if a device may be absent; a fleet without absences does less work."""
        ...

    @property
    def lies(self) -> bool:
        """True if a device may lie."""
        ...

    def absent(self, study: bytes, round_number: int, ordinals: Ordinals) -> Which:
        """Return which of these devices are absent from a whole round of a study (its digest).

        An absent device is asked and does not answer. It is charged nothing and keeps
        nothing of the round.
        """
        ...

    def lying(self, ordinals: Ordinals) -> Which:
        """Return which of these devices lie in every answer."""
        ...

    def lie(
        self, request: bytes, ordinal: int, query: Query, randomizer: Randomizer, level: int
    ) -> bytes:
        """Return a liar's report in place of its honest one to a request (its digest).

        The report belongs to the alphabet, since it would not be counted otherwise. The
        liar's ledger is charged as for an honest report, and keeps the lie: asked the same
        question by another request, the device repeats its first report. `level` is its
        true one.
        """
        ...


class _PresentAndHonest:
    """Devices that are always there and do what they should."""

    @property
    def absences(self) -> bool:
        return False

    @property
    def lies(self) -> bool:
        return False

    def absent(self, study: bytes, round_number: int, ordinals: Ordinals) -> Which:
        return np.zeros(len(ordinals), np.bool_)

    def lying(self, ordinals: Ordinals) -> Which:
        return np.zeros(len(ordinals), np.bool_)

    def lie(
        self, request: bytes, ordinal: int, query: Query, randomizer: Randomizer, level: int
    ) -> bytes:
        raise AssertionError("no device lies")


PRESENT_AND_HONEST: Behaviour = _PresentAndHonest()
