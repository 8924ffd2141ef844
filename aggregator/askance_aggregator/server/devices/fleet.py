"""Real devices as a fleet: the session's blocking view of a hub in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from askance_aggregator.server.devices.asked_users import AskedUsers
from askance_aggregator.server.devices.hub import Hub, ServiceStopped
from askance_aggregator.store import Store
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally

P = ParamSpec("P")
T = TypeVar("T")


class ServiceFleet:
    """The devices enrolled in a store, reached through a hub (see `studies.Fleet`).

    To be used from any thread but the hub's.
    """

    def __init__(self, hub: Hub, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._hub = hub
        self._store = store
        self._loop = loop

    @property
    def population(self) -> int:
        """Number of enrolled devices."""
        return self._store.population()

    def ask(
        self, round_: Round, accounts: Accounts, left_ms: Callable[[], int] | None = None
    ) -> tuple[Tally, ...]:
        """Ask every member of every group; return when all have replied or the deadline passes.

        `left_ms` returns the milliseconds until the end of the round's epoch (see `Hub.open`).
        """
        with self._hub.round_span(round_):
            return self._call(self._hub.open(round_, accounts, left_ms))

    def recall(self, round_: Round, accounts: Accounts) -> None:
        """Replay the store's reports of a closed round into the accounts; send no request.

        Raises:
          ServiceStopped: the service was stopped. StoreError: the store cannot be read.
        """
        self._call(self._hub.recall(round_, accounts))

    def progress(self, study_digest: bytes) -> tuple[int, int]:
        """Return the answers that a study's open round asks for, and the answers received."""
        return self._hub.progress(study_digest)

    def cancel(self, study_digest: bytes) -> None:
        """Stop asking devices for this study."""
        self._soon(self._hub.cancel, study_digest)

    def suspend(self, study_digest: bytes) -> None:
        """Refuse reports of an open study that cannot go on (see `Hub.suspend`)."""
        self._soon(self._hub.suspend, study_digest)

    def pause(self, study_digest: bytes) -> None:
        """Ask no device for this study until `unpause` (see `Hub.pause`)."""
        self._soon(self._hub.pause, study_digest)

    def unpause(self, study_digest: bytes) -> None:
        """Ask again for a study that was paused."""
        self._soon(self._hub.unpause, study_digest)

    def forget(self, study_digest: bytes) -> None:
        """Drop what is kept of a study whose end is durable."""
        self._soon(self._hub.forget, study_digest)

    def follow(self, rounds: Sequence[tuple[Round, Accounts, int]]) -> None:
        """Ask these rounds, of these ages, which other replicas drive (see `Hub.follow`)."""
        for round_, accounts, age_s in rounds:
            self._soon(self._hub.follow, round_, accounts, age_s)

    def asked_users(self) -> list[AskedUsers]:
        """Return the users of the open rounds (see `Hub.asked_users`)."""
        return self._hub.asked_users()

    def followed(self, study_digest: bytes) -> tuple[int, int] | None:
        """Return epoch and number of the round that is followed of a study."""
        return self._hub.followed(study_digest)

    def keep_followed(self, rounds: Mapping[bytes, tuple[int, int]]) -> None:
        """Leave every followed round but these (see `Hub.keep_followed`)."""
        self._soon(self._hub.keep_followed, rounds)

    def release(self, study_digest: bytes) -> None:
        """Drive a study no more, whose lease is another replica's."""
        self._soon(self._hub.release, study_digest)

    def look(self) -> None:
        """Enter what other replicas have stored of the open rounds."""
        self._soon(self._hub.look)

    def _soon(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        with suppress(RuntimeError):  # a loop that is closed keeps nothing
            self._loop.call_soon_threadsafe(lambda: work(*args, **kwargs))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the hub's loop and wait for it."""
        try:
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise ServiceStopped("fleet: expected a running service, got none") from None
        try:
            return running.result()
        except CancelledError:
            raise ServiceStopped(
                "fleet: expected a running service, got one that was stopped"
            ) from None
        except RuntimeError:
            # What a loop on its way out answers to work that it had begun: the executor is gone.
            if self._hub.stopped:
                raise ServiceStopped("fleet: expected a running service, got none") from None
            raise
        except BaseException:
            running.cancel()
            raise
