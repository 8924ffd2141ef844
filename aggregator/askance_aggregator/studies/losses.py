"""Answers that devices were charged for after a backup and that the restored store has not.

A device numbers its charged answers from 1, and every report has its number. In a store that was
restored, a number above the highest one of the backup is either in a stored report or lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from askance_aggregator.store import Store
from askance_aggregator.studies.transcript import Asked, Transcript
from askance_client.codec import decode_report, decode_study, digest_of


@dataclass(frozen=True, slots=True)
class RestorationLosses:
    """Losses by the last restoration of a store.

    Args:
      backup_unix_s: the time of the backup; 0: no backup was restored.
      devices: how many were charged for an answer that the store has not.
      answers: how many such answers there are. A device that has not answered since counts none.
    """

    backup_unix_s: int
    devices: int
    answers: int


def losses(store: Store) -> RestorationLosses:
    """Count the lost answers: of each device, the numbers after the backup that no report has.

    Answers that came too late for their round are among them, and so are those of studies whose
    reports were deleted since the restoration. All reports are read.
    """
    restores = store.restores()
    if not restores:
        return RestorationLosses(0, 0, 0)
    before = store.restored_sequences()
    found: Counter[int] = Counter()
    for digest, signed in store.studies().items():
        repeat = decode_study(signed.study).repeat
        for epoch in (0,) if repeat is None else repeat.indices:
            for request in _requests(store, digest, epoch):
                for ordinal, data in store.reports(request):
                    if decode_report(data).sequence > before.get(ordinal, 0):
                        found[ordinal] += 1
    highest = store.acknowledged_sequences(list(found))
    lost = {
        ordinal: now - before.get(ordinal, 0) - found[ordinal]
        for ordinal, now in zip(found, highest, strict=True)
    }
    return RestorationLosses(
        restores[-1].backup_unix_s, sum(one > 0 for one in lost.values()), sum(lost.values())
    )


def _requests(store: Store, digest: bytes, epoch: int) -> list[bytes]:
    """Return the digests of the requests that a study, or one of its epochs, has asked."""
    events = Transcript(store.log(digest, epoch)).recorded
    rounds = [event for event in events if isinstance(event, Asked)]
    return [digest_of(group.payload) for round_ in rounds for group in round_.groups]
