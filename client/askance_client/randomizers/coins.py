"""Sources of coins: uniform 64-bit words, passed in and never drawn on the side."""

from __future__ import annotations

import os
import struct
from typing import Protocol

from askance_client.errors import InvalidParameter

COIN_BITS = 64
COIN_SPACE = 1 << COIN_BITS


class Coins(Protocol):
    """A source of uniform 64-bit words."""

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        """Draw `count` independent uniform integers in 0..2^64-1.

        Args:
            request: the request's 32-byte digest: seeded coins are a function of it, which gives
                a simulation random access.
            count: how many words.
        """
        ...


class SystemCoins:
    """The operating system's randomness: what every device uses.

    Privacy: every call is fresh; nothing is derived from a stored secret, so nothing that is stolen
    later decodes an old report. A retry resends the stored report and does not come here.
    """

    __slots__ = ()

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        """Draw `count` fresh words; `request` plays no part."""
        if count < 0:
            raise InvalidParameter(f"a number of coins is 0 or more, found {count}")
        return struct.unpack(f"<{count}Q", os.urandom(8 * count))
