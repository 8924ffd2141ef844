"""Device with chosen coins and an empty ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from askance_client.device import Device, Examiner, Policy
from askance_client.messages import SignedStudy
from askance_client.queries import Schema
from askance_simulation.fleets.memory_ledger import MemoryLedger

LIFE = 10**12
NOW_S = 1_700_000_000


class GivenCoins:
    """The words it was given, once."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = tuple(words)

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        assert count == len(self._words)
        return self._words


def answer(
    study: SignedStudy,
    schema: Schema,
    record: Mapping[str, Any],
    coins: Sequence[int],
    payload: bytes,
) -> bytes:
    """The report of a device that has just met the study."""
    device = Device(
        schema=schema,
        record=schema.encode(record),
        policy=Policy(frozenset({study.public_key}), LIFE),
        ledger=MemoryLedger(),
        coins=GivenCoins(coins),
        now_s=lambda: NOW_S,
        examiner=Examiner(),
    )
    refusal = device.introduce(study)
    assert refusal is None, refusal
    return device.answer(payload)
