"""Releases of tallies, on every store: durable, once per request, by the study's driver alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.store import Conclusion, KeptAccount, OuterRelease, Store, StudyState
from tests.aggregator.store.test_contract import FIRST, STUDY, store

__all__ = ["store"]


def release(request: int, users: range, again: range = range(0)) -> OuterRelease:
    digests = bytes([request]) * 32, bytes([99]) * 32
    return OuterRelease(*digests, b"a randomizer", np.array(users), np.array(again, np.int64))


def enrolled(store: Store, devices: int) -> Store:
    store.enrol((f"d{n}".encode(), bytes(32)) for n in range(devices))
    store.add_study(FIRST, STUDY)
    return store


def kept(store: Store) -> list[tuple[int, int, list[int], list[int]]]:
    return [
        (number, one.request[0], one.users.tolist(), one.again.tolist())
        for number, one in store.outer.releases()
    ]


def test_releases_are_kept_in_order_with_their_users(store: Store) -> None:
    enrolled(store, 5).outer.record(
        FIRST, [release(1, range(3)), release(2, range(1, 4), range(2, 3))], delta_for
    )
    store.outer.record(FIRST, [release(3, range(300, 310))], delta_for)
    assert kept(store) == [
        (1, 1, [0, 1, 2], []),
        (2, 2, [1, 2, 3], [2]),
        (3, 3, list(range(300, 310)), []),
    ]
    assert [number for number, _ in store.outer.releases(after=2)] == [3]
    assert [number for number, _ in store.outer.releases(most=1)] == [1]
    assert store.outer.number() == 3


def test_a_round_that_closes_again_after_a_crash_replaces_its_releases(store: Store) -> None:
    """Reports had become durable meanwhile; the number is new, also where it was the last."""
    enrolled(store, 5).outer.record(FIRST, [release(1, range(3)), release(2, range(2))], delta_for)
    store.outer.record(FIRST, [release(1, range(4))], delta_for)
    assert kept(store) == [(2, 2, [0, 1], []), (3, 1, [0, 1, 2, 3], [])]
    store.outer.record(FIRST, [release(1, range(5))], delta_for)
    assert kept(store) == [(2, 2, [0, 1], []), (4, 1, [0, 1, 2, 3, 4], [])]


def test_delta_is_fixed_by_the_devices_at_the_first_release(store: Store) -> None:
    outer = enrolled(store, 20_000).outer
    assert outer.terms() is None
    outer.record(FIRST, [], delta_for)
    assert outer.terms() is None
    outer.record(FIRST, [release(1, range(3))], delta_for)
    terms = outer.terms()
    assert terms is not None
    assert terms.delta == Fraction(1, 2_000_000)
    store.enrol((f"e{n}".encode(), bytes(32)) for n in range(5))
    outer.record(FIRST, [release(2, range(3))], delta_for)
    assert outer.terms() == terms


def test_an_account_is_replaced_only_if_it_is_the_one_that_was_read(store: Store) -> None:
    outer = enrolled(store, 5).outer
    outer.record(FIRST, [release(1, range(3)), release(2, range(3))], delta_for)
    first = outer.account()
    assert first == KeptAccount("", 0, 0, b"")
    assert outer.figures() is None
    one = KeptAccount("1.1", 1, 1, b"one")
    assert outer.keep_account(first, one, {bytes(32): b"a"}, None)
    assert outer.figures() is None
    both = KeptAccount("1.1", 2, 2, b"both")
    assert outer.keep_account(one, both, {bytes(32): b"b", b"q" * 32: b"c"}, '{"users": 3}')
    assert not outer.keep_account(one, one, {bytes(32): b"x"}, '{"users": 2}')  # it was behind
    assert (outer.account(), outer.figures()) == (both, {"users": 3})
    assert [outer.question_state(q) for q in (bytes(32), b"q" * 32, b"r" * 32)] == [
        b"b",
        b"c",
        None,
    ]
    anew = KeptAccount("2.1", 1, 1, b"anew")
    assert outer.keep_account(both, anew, {b"r" * 32: b"d"}, None, is_anew=True)
    assert [outer.question_state(q) for q in (bytes(32), b"r" * 32)] == [None, b"d"]
    assert outer.figures() == {"users": 3}


def test_curves_are_kept_to_the_last_bit(store: Store) -> None:
    epsilons, deltas = (0.0, 0.1 + 2**-55, 1.0), (0.5, 1e-300, 0.0)
    assert store.outer.curve(b"r", 10) is None
    store.outer.keep_curve(b"r", 10, epsilons, deltas)
    store.outer.keep_curve(b"r", 10, (0.0,), (0.0,))  # the first stays
    assert store.outer.curve(b"r", 10) == (epsilons, deltas)
    assert store.outer.curve(b"r", 11) is None


def test_releases_outlive_the_reports_and_results_of_their_study(store: Store) -> None:
    enrolled(store, 5).outer.record(FIRST, [release(1, range(3))], delta_for)
    store.conclude(FIRST, Conclusion(StudyState.DONE, "done", "", "{}"))
    store.retention.delete_results(FIRST, 99)
    assert kept(store) == [(1, 1, [0, 1, 2], [])]


def test_replaced_releases_are_not_among_those_up_to_a_number(store: Store) -> None:
    outer = enrolled(store, 5).outer
    outer.record(FIRST, [release(1, range(3)), release(2, range(3))], delta_for)
    assert [outer.number_up_to(last) for last in (0, 1, 2)] == [0, 1, 2]
    outer.record(FIRST, [release(1, range(4))], delta_for)
    assert [outer.number_up_to(last) for last in (1, 2, 3)] == [0, 1, 2]


def test_releases_of_a_question_are_found_by_one_of_its_requests(store: Store) -> None:
    other = OuterRelease(bytes([3]) * 32, bytes(32), b"r", np.arange(2), np.arange(0))
    outer = enrolled(store, 5).outer
    outer.record(FIRST, [release(1, range(3)), other, release(2, range(2))], delta_for)
    assert [one.request[0] for one in outer.of_question(bytes([2]) * 32)] == [1, 2]
    assert outer.of_question(bytes([9]) * 32) == []
