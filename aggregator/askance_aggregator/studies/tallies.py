"""Reports as integers: symbol counts, and a Merkle root over the members' reports.

The root is published with the counts, so every leaf is hashed with a salt of 256 secret bits: from
a root without salts, thirty one-bit answers are found by 2^30 hashes, since the users asked follow
from the study's digest (docs/adr/0103-leaves-are-salted.md). The salts of a group follow from a key
of the group, and that from the study's leaf key, which an aggregator keeps and deletes with the
reports. A reader of a group's reports can be given the group's key, from which no other follows.
"""

from __future__ import annotations

import hashlib
import hmac
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family_of
from askance_aggregator.studies.rounds import Group
from askance_client.errors import InvalidParameter
from askance_client.messages import Reason
from askance_client.randomizers import Randomizer

Packed = bytes | memoryview

CHUNK = 1 << 16  # ordinals a leaf
LEAF_KEY_BYTES = 32
_GROUP_DOMAIN = b"askance leaf key of a group v1\0"
_LEAF_DOMAIN = b"askance leaf salt v1\0"


@dataclass(frozen=True, slots=True)
class Tally:
    """The sufficient statistic of one group's answers.

    Args:
      counts: the randomizer's own tally of the symbols received.
      answered: how many answered; the rest of the group refused or stayed away.
      asked: how many were asked.
      root: the Merkle root over chunks of 2^16 ordinals and their reports (`leaf`).
      refusals: how many refused, by reason.
      reused: how many of the answers were given before, to another request, and charged then: they
        describe their users as of that time. As devices report it.
      salted: True if the root's leaves have secret salts; False: written by an earlier version, or
        there is no root.
    """

    counts: tuple[int, ...]
    answered: int
    asked: int
    root: bytes
    refusals: tuple[tuple[Reason, int], ...] = ()
    reused: int = 0
    salted: bool = False

    @property
    def guessable(self) -> bool:
        """True if single answers can be found from the root by hashing guesses."""
        return bool(self.root) and not self.salted


Where = int | NDArray[np.int64]
"""Position of one user among the members of a group, or different positions of any number.

A position alone stands for an array of it, whose operations take ten times as long.
"""


def count_of(where: Where) -> int:
    """Return the number of positions."""
    return 1 if isinstance(where, int) else len(where)


class Places:
    """Positions of users among the members of a group; groups with the same members share it."""

    def __init__(self, members: NDArray[np.int64]) -> None:
        self._members = np.ascontiguousarray(members, np.int64).data
        self._ordinal = -1  # the last one that was looked up: a message's reports are one user's
        self._place: int | None = None
        self._first = int(members[0]) if len(members) else 0
        # Of all users, or of none: no search.
        self._range = not len(members) or int(members[-1]) - self._first == len(members) - 1

    @property
    def members(self) -> NDArray[np.int64]:
        """The members, sorted."""
        return np.frombuffer(self._members, np.int64)

    def of(self, ordinal: int) -> int | None:
        """Return the position of this user among the members, if any."""
        if self._range:
            place = ordinal - self._first
            return place if 0 <= place < len(self._members) else None
        if ordinal != self._ordinal:
            members = self._members
            place = bisect_left(members, ordinal)
            found = place < len(members) and members[place] == ordinal
            self._place = place if found else None
            self._ordinal = ordinal
        return self._place

    def among(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of those of these users that are members, in their order."""
        return self.find(ordinals)[1]

    def find(self, ordinals: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of these users are members, and the positions of those."""
        members = self.members
        places = members.searchsorted(ordinals)
        inside = places < len(members)
        inside[inside] = members[places[inside]] == ordinals[inside]
        return inside, places[inside]


class SymbolTable:
    """The symbols of one group, in ordinal order, as they arrive in any order."""

    def __init__(self, group: Group) -> None:
        members, width = group.cohort.size, group.randomizer.width
        self._group = group
        self._symbols = np.zeros((members, width), np.uint8)
        self._answered = np.zeros(members, np.bool_)
        self._again = np.zeros(members, np.bool_)  # answered before, as the device says
        self._refusals: dict[Reason, int] = {}
        self._settled = np.zeros(members, np.bool_)
        self.open = members  # that have neither answered nor refused

    def settled(self, index: int) -> bool:
        """Return whether this member's answer or refusal has been entered."""
        return bool(self._settled[index])

    def open_places(self) -> NDArray[np.bool_]:
        """Return for each member whether it has neither answered nor refused, at this moment."""
        return ~self._settled

    def lacks(self, where: Where) -> bool | NDArray[np.bool_]:
        """Return for each of these members whether it has neither answered nor refused."""
        if isinstance(where, int):
            return not self._settled[where]
        return ~self._settled[where]

    def write(self, where: Where, symbol: bytes, *, reused: bool = False) -> None:
        """Enter the symbol of members; the caller has checked it and that none is settled."""
        self._symbols[where] = np.frombuffer(symbol, np.uint8)
        self._answered[where] = True
        self._again[where] = reused
        self._settle(where)

    def refuse(self, where: Where, reason: Reason) -> None:
        """Enter the refusal of members, of which none is settled."""
        self._refusals[reason] = self._refusals.get(reason, 0) + count_of(where)
        self._settle(where)

    def _settle(self, where: Where) -> None:
        self._settled[where] = True
        self.open -= count_of(where)

    def answers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the users who answered, and those of them who had before; both sorted."""
        members = self._group.cohort.members
        return members[self._answered], members[self._again]

    def _leaves(self) -> Iterable[bytes]:
        group, key = self._group, self._group.salting_key
        edges = np.arange(0, group.population + CHUNK, CHUNK, dtype=np.int64)
        cuts = group.cohort.members.searchsorted(edges)
        for chunk, (start, stop) in enumerate(pairwise(cuts)):
            answered = self._answered[start:stop]
            symbols = self._symbols[start:stop][answered]
            yield leaf(key, chunk, packed_who(answered), packed_what(group.randomizer, symbols))

    def tally(self) -> Tally:
        """Close the table and return its tally."""
        group = self._group
        received = self._symbols[self._answered]
        return Tally(
            counts=tuple(int(count) for count in family_of(group.randomizer).tally(received)),
            answered=len(received),
            asked=group.cohort.size,
            root=merkle_root(self._leaves()),
            refusals=tuple(sorted(self._refusals.items())),
            reused=int(self._again.sum()),
            salted=True,
        )


def group_leaf_key(study_key: bytes, request_digest: bytes) -> bytes:
    """Return the key of a group's salts: HMAC-SHA256 of its request's digest by the study's key."""
    if len(study_key) != LEAF_KEY_BYTES:
        raise InvalidParameter(f"leaf_key: expected {LEAF_KEY_BYTES} bytes, got {len(study_key)}")
    return hmac.digest(study_key, _GROUP_DOMAIN + request_digest, "sha256")


def leaf(key: bytes, chunk: int, who: Packed = b"", what: Packed = b"") -> bytes:
    """Return the salted hash of a chunk: the ordinals that answered, of 2^16, and their symbols."""
    # The salt, 32 bytes, is HMAC-SHA256 of the chunk's number by the group's key
    # (`group_leaf_key`). The users asked follow from the cohort's seed and range, which the
    # transcript holds. How many symbols there are follows from the bits before them, so no two
    # different chunks hash the same. `who` is as of `packed_who`, `what` as of `packed_what`.
    number = chunk.to_bytes(8, "big")
    # 0, 1 and 2 begin a leaf of earlier versions, an inner node and the root of nothing.
    digest = hashlib.sha256(b"\3" + hmac.digest(key, _LEAF_DOMAIN + number, "sha256") + number)
    digest.update(who)
    digest.update(what)
    return digest.digest()


def packed_who(answered: NDArray[np.bool_]) -> Packed:
    """A bit for each of those asked, in ordinal order, from the highest of a byte down."""
    return np.packbits(answered).data


def packed_what(randomizer: Randomizer, symbols: NDArray[np.uint8]) -> Packed:
    """The symbols of those who answered: of a table of two a bit each, else as they are.

    `symbols` are in ordinal order, shape (those who answered, randomizer.width).
    """
    if family_of(randomizer).packs_bits:
        return np.packbits(symbols).data
    return np.ascontiguousarray(symbols).reshape(-1).data


class MerkleTree:
    """Binary tree over leaves in order, for its root; an odd one is carried up.

    Only the roots of the full subtrees so far are kept, one for each 1 in the number of leaves.
    """

    def __init__(self) -> None:
        self._leaves = 0
        self._roots: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        """Add the next leaf."""
        self._leaves += 1
        self._roots.append(leaf)
        full = self._leaves
        while full % 2 == 0:  # two subtrees of equal height are one
            right = self._roots.pop()
            self._roots.append(_inner(self._roots.pop(), right))
            full //= 2

    @property
    def root(self) -> bytes:
        """The root over the leaves so far."""
        if not self._roots:
            return hashlib.sha256(b"\2").digest()
        return reduce(lambda right, left: _inner(left, right), reversed(self._roots))


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def merkle_root(leaves: Iterable[bytes]) -> bytes:
    """The root over the leaves in order."""
    tree = MerkleTree()
    for each in leaves:
        tree.add(each)
    return tree.root
