"""Atoms of one frozen question: users with one pattern of inclusion over all its releases.

Theorems 3 and 4 of docs/math/two_guarantees.md. Memory of a question is a bit per ordinal, and four
bytes per user once there are two atoms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family_of
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer

MOST_CHOICES = 10**60
"""Choices of a later release that are told apart; more leave the local epsilon."""
_MOST_SYMBOLS = 64

Users = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InclusionAtom:
    """Users of one question whom the same releases include.

    Args:
        size: users, or answers that hide each other's; 1: each user is alone.
        first: size of the atom that they were released in first.
        choices: V of Theorem 4: values of tallies by which it may have been divided.
        seen: values that the tallies with it can have taken, in all.
        divisions: how often it was divided.
    """

    size: int
    first: int
    choices: int = 1
    seen: int = 1
    divisions: int = 0


ALONE = InclusionAtom(1, 1)
"""Users who answered this question before the account knew of it: none hides another."""


def tally_values(randomizer: Randomizer, answers: int) -> int:
    """Return a bound of the number of values that a tally can take, `MOST_CHOICES` at most."""
    symbols = 0
    for _ in family_of(randomizer).alphabet():
        symbols += 1
        if symbols > _MOST_SYMBOLS:
            return MOST_CHOICES
    return min(comb(answers + symbols - 1, symbols - 1), MOST_CHOICES)


class Charged(NamedTuple):
    """Atoms at one time, and the place of each user's among them."""

    atoms: tuple[InclusionAtom, ...]
    labels: NDArray[np.int64]


class Atoms:
    """Atoms of one question, release by release."""

    def __init__(self, randomizer: Randomizer) -> None:
        self.randomizer = randomizer
        self._bits = np.zeros(0, np.uint8)  # of each ordinal, packed
        self._labels: NDArray[np.int32] | int = 0  # an atom for all of them, or one for each
        self._atoms: list[InclusionAtom] = [ALONE]

    @property
    def users(self) -> Users:
        """Users of any release, sorted."""
        return np.flatnonzero(np.unpackbits(self._bits)).astype(np.int64)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Place of each of these users' atoms in `atoms`."""
        if isinstance(self._labels, int):
            return np.full(int(np.bitwise_count(self._bits).sum()), self._labels, np.int64)
        return self._labels.astype(np.int64)

    @property
    def atoms(self) -> Sequence[InclusionAtom]:
        """All atoms; the first is `ALONE`."""
        return self._atoms

    def charged(self) -> Charged:
        """Return the atoms as they are now, which later releases do not change."""
        return Charged(tuple(self._atoms), self.labels)

    def release(self, users: Users, unknown: Users) -> Users:
        """Enter the release of a tally; return the users who have drawn a second answer.

        These are users of an earlier release who do not say that they had answered before: their
        ledger was lost. Which of their answers later releases count is not known. So they stand
        alone from then on, and hide no other user.

        Args:
            users: whose answers it counts, sorted, each once.
            unknown: those of them who say that they had answered before; who is in no earlier
                release here stands alone.

        Raises:
            InvalidParameter: users that are not sorted, or given twice; nothing was changed.
        """
        if np.any(users[1:] <= users[:-1]):
            raise InvalidParameter("release: expected users in rising order, each once")
        known, known_labels = self.users, self.labels
        labels = _labels_of(users, known, known_labels)
        drawn = users[(labels >= 0) & ~np.isin(users, unknown, assume_unique=True)]
        if len(drawn):
            self._set_alone(drawn)
            known_labels = self.labels
            labels = _labels_of(users, known, known_labels)
        values = tally_values(self.randomizer, len(users))
        counts = np.bincount(labels[labels >= 0], minlength=len(self._atoms))
        moved = np.arange(len(self._atoms))
        for label in np.flatnonzero(counts):
            atom, inside = self._atoms[label], int(counts[label])
            if label == 0:
                continue
            seen = min(atom.seen * values, MOST_CHOICES)
            if inside == atom.size:
                self._atoms[label] = InclusionAtom(
                    atom.size, atom.first, atom.choices, seen, atom.divisions
                )
                continue
            rest = atom.size - inside
            parts = atom.first, atom.seen
            self._atoms[label] = InclusionAtom(rest, *parts, atom.seen, atom.divisions + 1)
            moved[label] = len(self._atoms)
            self._atoms.append(InclusionAtom(inside, *parts, seen, atom.divisions + 1))
        old = known.searchsorted(users[labels >= 0])
        known_labels[old] = moved[labels[labels >= 0]]
        new = users[labels < 0]
        added = self._add(new, unknown, values)
        everybody = np.concatenate((known, new))
        order = np.argsort(everybody, kind="stable")
        self._keep(everybody[order], np.concatenate((known_labels, added))[order])
        return drawn

    def held(self) -> list[InclusionAtom]:
        """Return the atoms that have any user, each once."""
        return [self._atoms[label] for label in np.unique(self.labels)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all as arrays, for `restored`."""
        rows = [[a.size, a.first, a.choices, a.seen, a.divisions] for a in self._atoms]
        text = np.frombuffer(json.dumps(rows).encode(), np.uint8)  # choices pass 64 bits
        return {"bits": self._bits, "labels": np.array(self._labels, np.int32), "atoms": text}

    @classmethod
    def restored(cls, randomizer: Randomizer, state: Mapping[str, NDArray[Any]]) -> Atoms:
        """Return atoms from their `state`."""
        made, labels = cls(randomizer), state["labels"]
        made._bits = state["bits"]
        made._labels = labels if labels.ndim else int(labels)
        made._atoms = [InclusionAtom(*row) for row in json.loads(state["atoms"].tobytes())]
        return made

    def _set_alone(self, drawn: Users) -> None:
        """Take users out of their atoms, whose others are hidden among fewer (Lemma 1)."""
        # A divided atom does not know which others were in its first one: it may have had them all.
        known, labels = self.users, self.labels
        places = known.searchsorted(drawn)
        counts = np.bincount(labels[places], minlength=len(self._atoms)).tolist()
        counted = list(zip(self._atoms, counts, strict=True))
        divided = sum(count for atom, count in counted if atom.divisions)
        for label, (atom, count) in enumerate(counted[1:], 1):
            size = atom.size - count
            first = max(size, atom.first - (divided if atom.divisions else count))
            self._atoms[label] = replace(atom, size=size, first=first)
        labels[places] = 0
        self._keep(known, labels)

    def _add(self, new: Users, unknown: Users, values: int) -> NDArray[np.int64]:
        """Return the labels of users of no earlier release: one atom, and those who are alone."""
        alone = np.isin(new, unknown, assume_unique=True)
        fresh = int(len(new) - alone.sum())
        if fresh:
            self._atoms.append(InclusionAtom(fresh, fresh, 1, values))
        return np.where(alone, 0, len(self._atoms) - 1)

    def _keep(self, users: Users, labels: NDArray[np.int64]) -> None:
        held = np.zeros(int(users[-1]) + 1 if len(users) else 0, np.bool_)
        held[users] = True
        self._bits = np.packbits(held)
        alike = not len(labels) or bool((labels == labels[0]).all())
        self._labels = int(labels[0]) if alike and len(labels) else labels.astype(np.int32)


def _labels_of(users: Users, known: Users, known_labels: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(known):
        return np.full(len(users), -1, np.int64)
    places = np.minimum(known.searchsorted(users), len(known) - 1)
    return np.where(known[places] == users, known_labels[places], -1)
