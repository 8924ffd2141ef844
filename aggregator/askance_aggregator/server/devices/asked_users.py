"""Users of a round by what they owe, and by the tags of their devices: counts, and no answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.store import RoundAnswers

SHOWN_TAGS = 100
"""Tags that are shown, those of the most devices; with more, figures by tag would crowd a page."""
_NOT_ASKED, _ANSWERED, _SILENT, _AWAY = range(4)
_STANDINGS = 4


@dataclass(frozen=True, slots=True)
class AskedUsers:
    """Users of a round: sorted ordinals of those asked, and of those who owe an answer.

    `connected` has those who hold a stream open in this process, asked or not, sorted.
    """

    study_digest: bytes
    epoch: int
    number: int
    age_s: float
    asked: NDArray[np.int64]
    owing: NDArray[np.int64]
    connected: NDArray[np.int64]


def answers_by_tag(
    rounds: Sequence[AskedUsers], tagged: Iterable[Sequence[tuple[str, int]]], most_tags: int
) -> tuple[RoundAnswers, ...]:
    """Return devices in each round by what they owe: all, then those of each tag."""
    if not rounds:
        return ()
    standing = [_standings(one) for one in rounds]
    by_tag: dict[str, NDArray[np.int64]] = {}
    for part in tagged:
        names = list(dict.fromkeys(tag for tag, _ in part))
        numbers = {tag: number for number, tag in enumerate(names)}
        tags = np.array([numbers[tag] for tag, _ in part], np.int64)
        ordinals = np.array([ordinal for _, ordinal in part], np.int64)
        counts = np.stack([_counts(one, ordinals, tags, len(names)) for one in standing], axis=1)
        for tag, number in numbers.items():
            by_tag[tag] = by_tag.get(tag, np.int64(0)) + counts[number]
    rows = []
    for number, (one, of_all) in enumerate(zip(rounds, standing, strict=True)):
        rows.append(_row(one, "", np.bincount(of_all, minlength=_STANDINGS)))
        own = [_row(one, tag, counts[number]) for tag, counts in by_tag.items()]
        own.sort(key=lambda row: (-row.asked, row.tag))
        rows += [row for row in own[:most_tags] if row.asked]
    return tuple(rows)


def _standings(users: AskedUsers) -> NDArray[np.int64]:
    """Return the standing of each user in a round, by ordinal."""
    last = max((int(some[-1]) for some in (users.asked, users.owing) if len(some)), default=-1)
    standing = np.full(last + 1, _NOT_ASKED)
    standing[users.asked] = _ANSWERED
    standing[users.owing] = _AWAY
    standing[np.intersect1d(users.owing, users.connected, assume_unique=True)] = _SILENT
    return standing


def _counts(
    standing: NDArray[np.int64], ordinals: NDArray[np.int64], tags: NDArray[np.int64], most: int
) -> NDArray[np.int64]:
    """Count users per tag and standing, shape (tags, standings)."""
    known = ordinals < len(standing)
    keys = tags[known] * _STANDINGS + standing[ordinals[known]]
    return np.bincount(keys, minlength=most * _STANDINGS).reshape(most, _STANDINGS)


def _row(users: AskedUsers, tag: str, counts: NDArray[np.int64]) -> RoundAnswers:
    answered, silent, away = (int(counts[n]) for n in (_ANSWERED, _SILENT, _AWAY))
    of = (users.study_digest.hex()[:16], users.epoch, users.number)
    return RoundAnswers(*of, tag, answered + silent + away, answered, silent)
