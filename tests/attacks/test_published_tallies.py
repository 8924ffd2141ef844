"""Attacks by readers of published tallies: guesses are hashed and compared with a root."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

import askance as ask
from askance_aggregator.studies import SymbolTable, Tally
from askance_aggregator.studies.tallies import leaf
from askance_aggregator.studies.transcript import Closed

USERS = 18
SCHEMA = ask.Schema("people", 1, smokes=ask.Bit())
HALF = SCHEMA.smokes == 1
SEED = 5
Hash = Callable[[bytes, bytes], bytes]
"""Hash of a leaf: of the bits of who answered, and of their symbols."""


def leaf_without_salt(who: bytes, what: bytes) -> bytes:
    """Return the leaf of chunk 0 as versions before salts hashed it."""
    return hashlib.sha256(b"\0" + bytes(8) + who + what).digest()


def packed(ones: tuple[int, ...], bits: int) -> bytes:
    number = sum(1 << (bits - 1 - place) for place in ones)
    return (number << -bits % 8).to_bytes(-(-bits // 8), "big")


def guessed(tally: Tally, hashed: Hash) -> Iterator[tuple[int, ...]]:
    """Guess the answers of users who all answered one bit; yield those with the tally's root.

    Everything that is used is published: the counts, the root, and that all who were asked
    answered.
    """
    assert tally.answered == tally.asked
    who = packed(tuple(range(tally.asked)), tally.asked)
    for ones in combinations(range(tally.asked), tally.counts[1]):
        if hashed(who, packed(ones, tally.asked)) == tally.root:
            yield ones


@dataclass(frozen=True)
class Published:
    """A study's only tally as its transcript has it, and what its users answered."""

    tally: Tally
    answers: tuple[int, ...]
    leaf_key: bytes


@pytest.fixture(scope="module")
def published() -> Published:
    """Run a study of 18 users, on device objects; note who of them sent a one."""
    sent: list[NDArray[np.uint8]] = []
    keys: list[bytes] = []

    def closing(table: SymbolTable) -> Tally:
        sent.append(table._symbols[:, 0].copy())
        keys.append(table._group.salting_key)
        return close(table)

    close = SymbolTable.tally
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SymbolTable, "tally", closing)
        records = [place % 2 for place in range(USERS)]
        people = ask.Population.from_columns(SCHEMA, {"smokes": records})
        study = ask.Study(asking(), SCHEMA, epsilon=4)
        result = ask.simulate(study, people, fleet="objects", seed=SEED)
    (closed,) = [event for event in result.transcript.recorded if isinstance(event, Closed)]
    (symbols,), (key,) = sent, keys
    return Published(closed.tallies[0], tuple(np.flatnonzero(symbols).tolist()), key)


def asking() -> ask.Learner[float]:
    @ask.adaptive("asking")
    def learner() -> ask.Learning[float]:
        (share,) = yield ask.Batch([ask.Question(ask.predicate(HALF))])
        return float(share.value)

    return learner()


def test_no_answer_is_found_from_a_published_root(published: Published) -> None:
    """Before leaves were salted, all of them were found in a tenth of a second."""
    assert list(guessed(published.tally, leaf_without_salt)) == []
    assert not published.tally.guessable


def test_the_guesses_find_every_answer_where_leaves_have_no_salt(published: Published) -> None:
    """The attack works, on the leaf as versions before hashed it; so do its guesses."""
    who, what = packed(tuple(range(USERS)), USERS), packed(published.answers, USERS)
    before = replace(published.tally, root=leaf_without_salt(who, what), salted=False)
    assert before.guessable
    assert list(guessed(before, leaf_without_salt)) == [published.answers]


def test_whoever_has_the_key_can_check_guesses(published: Published) -> None:
    """A leaf key is worth the reports: it is deleted with them, and disclosed only with them."""
    found = guessed(published.tally, lambda who, what: leaf(published.leaf_key, 0, who, what))
    assert list(found) == [published.answers]
