"""The seam: who stays away from a round, who lies, and what liars say.

All of it is a pure function of the study, the round and the ordinal, with chances from a seed of
its own: the same devices stay away, and the same lies are told, on every fleet and in any order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance.client.queries import Query
from askance.client.randomizers import Randomizer

Ordinals = NDArray[np.int64]
Which = NDArray[np.bool_]


class Behaviour(Protocol):
    """What the devices of a fleet do besides what they should."""

    @property
    def absences(self) -> bool:
        """Whether anybody may stay away from a round; a fleet that knows nobody does asks less."""
        ...

    @property
    def lies(self) -> bool:
        """Whether anybody may lie."""
        ...

    def absent(self, study: bytes, round_number: int, ordinals: Ordinals) -> Which:
        """Who of these is not there for a whole round of a study (its digest): asked, and silent.

        Who is absent is charged nothing and keeps nothing of the round.
        """
        ...

    def lying(self, ordinals: Ordinals) -> Which:
        """Who of these lies, always."""
        ...

    def lie(
        self, request: bytes, ordinal: int, query: Query, randomizer: Randomizer, level: int
    ) -> bytes:
        """What a liar answers in place of its honest report to a request (its digest).

        A report of the alphabet, or nobody would count it. The liar's ledger is charged as if it
        had told the truth, and keeps the lie: asked the same question by another request, it says
        again what it said to the first. `level` is its true one.
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
        raise AssertionError("nobody lies")


PRESENT_AND_HONEST: Behaviour = _PresentAndHonest()
