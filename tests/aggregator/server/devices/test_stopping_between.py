"""A service that stops while a round is being opened ends no study: it is as if never asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.server.devices import AggregatorServer, ServiceStopped, Settings
from askance_aggregator.store import Deadline, RoundNote, SqliteStore

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

USERS = 3


class SlowStore(SqliteStore):
    """A disk that is still at work when the service stops."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.reached = threading.Event()
        self.released = threading.Event()

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
        epoch: int = 0,
    ) -> RoundNote:
        self.reached.set()
        assert self.released.wait(30)
        return super().open_round(study_digest, number, request_digests, deadline, epoch)


@pytest.mark.parametrize("late_s", [0.0, 0.5], ids=["before the disk", "after all calls"])
def test_a_round_that_was_being_opened_is_stopped_and_not_failed(
    late_s: float, world: World
) -> None:
    store = SlowStore.in_memory()
    world.enrol(store, USERS)
    round_ = world.broadcast(USERS)
    store.add_study(round_.study_digest, world.study)
    server = AggregatorServer.start(store, settings=Settings(stop_grace_s=0))
    with ThreadPoolExecutor(2) as threads:
        asked = threads.submit(server.fleet.ask, round_, world.accounts(USERS))
        assert store.reached.wait(30)
        release = threading.Timer(late_s, store.released.set)
        release.start()
        threads.submit(server.stop).result(30)
        with pytest.raises(ServiceStopped):
            asked.result(30)
