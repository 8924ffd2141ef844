"""Atoms of a frozen question: who hides whom, whatever is released of it, how often and to whom."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from askance_aggregator.amplification.atoms import (
    MOST_CHOICES,
    Atoms,
    InclusionAtom,
    Users,
    tally_values,
)
from askance_aggregator.families import best_for
from askance_client.errors import InvalidParameter

NANO = 10**9
BIT = best_for(2, NANO)
NONE = np.empty(0, np.int64)


def users(ordinals: Iterable[int]) -> Users:
    return np.array(sorted(ordinals), np.int64)


def released(*sets: Iterable[int]) -> Atoms:
    """Release tallies of users who say that they had answered, if they have."""
    atoms, before = Atoms(BIT), set[int]()
    for ordinals in map(set, sets):
        atoms.release(users(ordinals), users(ordinals & before))
        before |= ordinals
    return atoms


def atom_of(atoms: Atoms, user: int) -> InclusionAtom:
    place = atoms.users.tolist().index(user)
    return atoms.atoms[int(atoms.labels[place])]


def test_answers_released_again_whole_are_one_atom() -> None:
    atoms = released(range(10), range(10), range(10))
    assert atom_of(atoms, 3).size == 10
    assert atom_of(atoms, 3).choices == 1


def test_two_releases_that_differ_in_one_user_make_an_atom_of_one() -> None:
    atoms = released(range(10), range(9))
    assert (atom_of(atoms, 0).size, atom_of(atoms, 9).size) == (9, 1)
    # The first tally of ten bits had one of 11 values, by which the second may have been chosen.
    assert (atom_of(atoms, 0).choices, atom_of(atoms, 9).choices) == (11, 11)


def test_the_increment_of_a_wave_is_an_atom_and_not_the_prefix() -> None:
    atoms = released(range(900), range(1000))
    assert (atom_of(atoms, 0).size, atom_of(atoms, 950).size) == (900, 100)
    assert (atom_of(atoms, 0).choices, atom_of(atoms, 950).choices) == (1, 1)  # none was divided


def test_tallies_by_tag_and_of_all_show_the_users_with_both_tags() -> None:
    atoms = released(range(6), range(5, 10), range(10))
    assert [atom_of(atoms, user).size for user in (0, 5, 9)] == [5, 1, 4]


def test_a_later_division_follows_all_tallies_before_it() -> None:
    atoms = released(range(10), range(10), range(4))
    assert atom_of(atoms, 0) == InclusionAtom(4, 10, 11 * 11, 11 * 11 * 5, 1)
    assert atom_of(atoms, 9) == InclusionAtom(6, 10, 11 * 11, 11 * 11, 1)


def test_answers_from_before_the_account_hide_none() -> None:
    atoms = Atoms(BIT)
    atoms.release(users(range(10)), users([8, 9]))
    assert [atom_of(atoms, user).size for user in (0, 8, 9)] == [8, 1, 1]
    atoms.release(users(range(10)), users(range(10)))  # reused by now: the account knows them
    assert [atom_of(atoms, user).size for user in (0, 8, 9)] == [8, 1, 1]


def test_a_second_answer_is_known_from_then_on() -> None:
    """Users 0 to 4 are in tallies 1 and 3; 0 has drawn anew in tally 2, which has it too."""
    atoms = released(range(10))
    drawn = atoms.release(users([0, *range(5, 10)]), users(range(5, 10)))
    assert drawn.tolist() == [0]
    assert atoms.release(users(range(10)), users(range(10))).tolist() == []
    assert [atom_of(atoms, user).size for user in (0, 1, 9)] == [1, 4, 5]
    assert atom_of(atoms, 1).first == 9


def test_who_has_drawn_anew_hides_none_of_the_earlier_tally() -> None:
    """Users 1 to 4 hide each other: user 0 was in their tally, and has drawn anew."""
    atoms = released(range(5))
    atoms.release(users([0, *range(5, 10)]), NONE)
    assert atom_of(atoms, 1) == InclusionAtom(4, 4, 1, 6, 0)


def test_who_has_drawn_anew_hides_none_of_the_other_part_of_a_divided_atom() -> None:
    """Ten are divided into 0 to 3 and 4 to 9; then 0 draws anew: nine were in the first tally."""
    atoms = released(range(10), range(4))
    atoms.release(users([0]), NONE)
    assert [atom_of(atoms, user).size for user in (0, 1, 9)] == [1, 3, 6]
    assert [atom_of(atoms, user).first for user in (1, 9)] == [9, 9]


def test_atoms_are_the_users_with_equal_patterns() -> None:
    draw = random.Random(5)
    for _ in range(30):
        sets = [{u for u in range(40) if draw.random() < share} for share in (0.9, 0.5, 0.9)]
        atoms = released(*sets)
        pattern = {u: tuple(u in each for each in sets) for u in range(40)}
        for user in range(40):
            if not any(pattern[user]):
                assert user not in atoms.users
                continue
            alike = sum(pattern[other] == pattern[user] for other in range(40))
            assert atom_of(atoms, user).size == alike


def test_users_in_no_order_are_refused_and_nothing_is_entered() -> None:
    atoms = released(range(3))
    with pytest.raises(InvalidParameter, match="rising order"):
        atoms.release(np.array([2, 1]), NONE)
    assert list(atoms.users) == [0, 1, 2]


def test_values_of_a_tally() -> None:
    assert tally_values(BIT, 10) == 11
    assert tally_values(best_for(3, 4 * NANO), 2) == 6  # pairs of three symbols, without order
    assert tally_values(best_for(1024, NANO), 10**6) == MOST_CHOICES
