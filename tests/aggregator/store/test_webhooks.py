"""Queue of webhooks, on every store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain

import pytest

from askance_aggregator.store import (
    Conclusion,
    PostgresqlLocation,
    Receiving,
    Store,
    StudyState,
    WebhookClaim,
)
from askance_client.errors import StoreError
from askance_client.messages import SignedStudy
from tests.aggregator.store.test_contract import FIRST, SECOND, STUDY, store
from tests.postgresql import PostgresqlServer

__all__ = ["store"]
OTHER = SignedStudy(b"another study", b"another key", b"a signature")
DONE = Conclusion(StudyState.DONE, "done", "", '{"users": 3}')
FAILED = Conclusion(StudyState.FAILED, "plan-refused", "too few", "{}")
LONG_S = 1_000


def queue_of(store: Store, *receivers: Receiving) -> Store:
    store.webhooks.announce_to(receivers or (Receiving("a"),))
    store.add_study(FIRST, STUDY)
    store.add_study(SECOND, OTHER)
    return store


def claimed(store: Store, receiver: str = "a") -> WebhookClaim:
    found = store.webhooks.claim(receiver, LONG_S)
    assert found is not None
    return found


def test_an_end_is_queued_once_with_what_it_says(store: Store) -> None:
    queue_of(store)
    assert store.webhooks.claim("a", LONG_S) is None
    for _ in range(2):
        store.conclude(FIRST, DONE)
    found = claimed(store)
    assert (found.receiver, found.digest, found.study, found.epoch, found.attempt) == (
        *("a", FIRST, STUDY.study, 0, 1),
    )
    assert (found.state, found.reason, found.message, found.result_json) == (
        *(StudyState.DONE, "done", "", '{"users": 3}'),
    )
    assert store.webhooks.claim("a", LONG_S) is None  # until the claim ends
    assert store.webhooks.delivered(found)
    assert store.webhooks.claim("a", LONG_S) is None


def test_an_end_that_was_not_stored_is_not_queued(store: Store) -> None:
    queue_of(store)
    store.conclude(FIRST, DONE)
    assert store.webhooks.delivered(claimed(store))
    with pytest.raises(Exception, match="expected no other conclusion"):
        store.conclude(FIRST, FAILED)
    assert store.webhooks.claim("a", LONG_S) is None


def test_an_end_and_its_row_are_stored_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_of(store)

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(store.webhooks, "note_end", fail)
        with pytest.raises(StoreError):
            store.conclude(FIRST, DONE)
    assert store.conclusion(FIRST) is None
    store.conclude(FIRST, DONE)
    assert claimed(store).digest == FIRST


def test_ends_of_a_study_come_one_at_a_time_and_in_order(store: Store) -> None:
    queue_of(store)
    for epoch in (20, 21):
        store.conclude(FIRST, DONE, epoch)
    store.conclude(FIRST, DONE)
    store.conclude(SECOND, FAILED)
    first, other = claimed(store), claimed(store)
    assert {(first.digest, first.epoch), (other.digest, other.epoch)} == {(FIRST, 20), (SECOND, 0)}
    assert store.webhooks.claim("a", LONG_S) is None  # epoch 21 waits for epoch 20
    epoch_20 = first if first.digest == FIRST else other
    assert store.webhooks.delivered(epoch_20)
    epoch_21 = claimed(store)
    assert epoch_21.epoch == 21
    assert store.webhooks.delivered(epoch_21)
    assert claimed(store).epoch == 0


def test_a_claim_that_has_ended_is_another_ones(store: Store) -> None:
    queue_of(store)
    store.conclude(FIRST, DONE)
    paused = store.webhooks.claim("a", 0)
    assert paused is not None
    again = claimed(store)
    assert (again.attempt, again.message_id) == (2, paused.message_id)
    assert not store.webhooks.delivered(paused)
    assert not store.webhooks.failed(paused, "late", 0, LONG_S)
    assert store.webhooks.delivered(again)
    assert not store.webhooks.failed(again, "late", 0, LONG_S)  # what is delivered stays so


@pytest.mark.parametrize(
    ("wait_s", "try_for_s", "pending", "failed"), [(10, 100, 1, 0), (10, 9, 0, 1)]
)
def test_a_failure_is_tried_again_or_given_up(
    store: Store, wait_s: int, try_for_s: int, pending: int, failed: int
) -> None:
    queue_of(store)
    store.conclude(FIRST, DONE)
    claim = claimed(store)
    assert store.webhooks.failed(claim, "expected 200, got 500", wait_s, try_for_s)
    (found,) = store.webhooks.figures()
    assert (found.pending, found.failed, found.delivered) == (pending, failed, 0)
    assert found.last_error == "expected 200, got 500"
    assert store.webhooks.claim("a", LONG_S) is None
    assert store.webhooks.retry("a") == 1
    again = claimed(store)
    assert store.webhooks.delivered(again)
    (found,) = store.webhooks.figures()
    assert (found.pending, found.failed, found.delivered, found.last_error) == (0, 0, 1, "")


def test_one_that_is_given_up_lets_the_next_pass(store: Store) -> None:
    queue_of(store)
    for epoch in (20, 21):
        store.conclude(FIRST, DONE, epoch)
    assert store.webhooks.failed(claimed(store), "no", 0, -1)
    assert claimed(store).epoch == 21


def test_receivers_have_queues_of_their_own(store: Store) -> None:
    queue_of(store, Receiving("a"), Receiving("one", OTHER.public_key))
    store.conclude(FIRST, DONE)
    store.conclude(SECOND, DONE)
    assert claimed(store, "one").digest == SECOND
    assert store.webhooks.claim("one", LONG_S) is None
    assert {claimed(store).digest, claimed(store).digest} == {FIRST, SECOND}
    assert [(one.receiver, one.pending) for one in store.webhooks.figures()] == [
        ("a", 2),
        ("one", 1),
    ]
    assert store.webhooks.forget("a") == 2
    assert [(one.receiver, one.pending) for one in store.webhooks.figures()] == [
        ("a", 0),
        ("one", 1),
    ]


def test_replicas_claim_each_end_once(postgresql: PostgresqlServer) -> None:
    """Four threads of two replicas; an end that one has claimed is passed over by the others."""
    location = PostgresqlLocation(postgresql.new_store())
    digests = [bytes([number]) * 32 for number in range(40)]
    with closing(location.open()) as first, closing(location.open()) as second:
        first.webhooks.announce_to([Receiving("a")])
        for digest in digests:
            first.add_study(digest, STUDY)
            first.conclude(digest, DONE)

        def claim_all(store: Store) -> list[bytes]:
            claims = iter(lambda: store.webhooks.claim("a", LONG_S), None)
            return [one.digest for one in claims if store.webhooks.delivered(one)]

        with ThreadPoolExecutor(4) as threads:
            parts = list(threads.map(claim_all, (first, second, first, second)))
        (figures,) = second.webhooks.figures()
    assert sorted(chain(*parts)) == digests
    assert (figures.pending, figures.delivered) == (0, 40)


def test_without_a_receiver_nothing_is_queued(store: Store) -> None:
    store.add_study(FIRST, STUDY)
    store.conclude(FIRST, DONE)
    store.webhooks.announce_to([Receiving("a")])
    assert store.webhooks.claim("a", LONG_S) is None
    assert [(one.receiver, one.pending) for one in store.webhooks.figures()] == [("a", 0)]


def test_deleted_results_are_not_delivered(store: Store) -> None:
    queue_of(store)
    store.conclude(FIRST, DONE)
    store.retention.delete_results(FIRST, 1)
    assert claimed(store).result_json == ""


@pytest.mark.parametrize(
    "other",
    [
        lambda: (SECOND, 0, ("DONE", "done", "", "{}")),
        lambda: (FIRST, 1, ("DONE", "done", "", "{}")),
        lambda: (FIRST, 0, ("DONE", "done", "", "{1}")),
        lambda: (FIRST, 0, ("DONE", "done{}", "", "")),
    ],
)
def test_ids_differ_with_what_they_are_of(
    other: Callable[[], tuple[bytes, int, tuple[str, ...]]],
) -> None:
    from askance_aggregator.store.webhooks import message_id

    one = message_id(FIRST, 0, ("DONE", "done", "", "{}"))
    assert one == message_id(FIRST, 0, ("DONE", "done", "", "{}"))
    assert one.startswith("msg_")
    assert one != message_id(*other())
