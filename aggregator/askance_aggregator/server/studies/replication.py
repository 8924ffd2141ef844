"""Work of one replica among others: it renews leases, takes over studies, follows rounds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from askance_aggregator.encoding import read_terms
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.studies.runs import Run
from askance_aggregator.store import SharedStudy, Store
from askance_aggregator.studies import Accounts, Round
from askance_aggregator.studies.recorded_rounds import last_round
from askance_client.errors import AskanceError, StoreError

_LOGGER = logging.getLogger(__name__)
_STOP_S = 1.0


class Replication:
    """Look at what other replicas do, in threads of its own; in a store of one process, nothing.

    Args:
      lock: held while a study is paused or begun here.
      run_of: returns the run of a study in this process; None: it has none.
      take_over: begins a study whose lease is free.
    """

    def __init__(
        self,
        store: Store,
        fleet: ServiceFleet,
        lock: threading.Lock,
        *,
        run_of: Callable[[bytes], Run | None],
        take_over: Callable[[bytes], None],
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._lock = lock
        self._run_of = run_of
        self._take_over = take_over
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in ((self._renew, "askance-leases"), (self._look, "askance-replicas"))
        ]

    def start(self) -> None:
        """Begin to renew leases and to look, if it has not begun."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def stop(self) -> None:
        """Look no more; leases that are not given back end by themselves."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_STOP_S)

    def _renew(self) -> None:
        for lost in self._store.replicas.renewals(self._stopping):
            for digest in lost:
                _LOGGER.warning("a lease was lost", extra={"study": digest.hex()[:16]})
                run = self._run_of(digest)
                if run is not None:
                    run.release()

    def _look(self) -> None:
        for _ in self._store.replicas.looks(self._stopping):
            try:
                self._look_once()
            except StoreError as error:  # the store's observer has it; the next look comes soon
                _LOGGER.debug("replicas: the store was not looked at", exc_info=error)
            except Exception as error:
                _LOGGER.error("replicas: a look failed", exc_info=error)

    def _look_once(self) -> None:
        others = []
        for study in self._store.replicas.open_studies():
            run = self._run_of(study.digest)
            if run is None and study.free:
                self._take_over(study.digest)
                run = self._run_of(study.digest)
            if run is None:
                others.append(study)
            elif study.cancelling:
                run.cancel()
        rounds = {s.digest: (s.round.epoch, s.round.number) for s in others if s.round is not None}
        self._fleet.keep_followed(rounds)
        fresh = [s for s in others if self._fleet.followed(s.digest) != rounds.get(s.digest)]
        self._fleet.follow([found for study in fresh if (found := self._recorded(study))])
        self._fleet.look()
        self._pause_as_stored()

    def _pause_as_stored(self) -> None:
        """Pause what was paused at another replica, and let go on what was resumed there."""
        with self._lock:
            paused = self._store.management.paused()
            for study in self._store.replicas.open_studies():
                run = self._run_of(study.digest)
                if run is None:
                    (self._fleet.pause if study.digest in paused else self._fleet.unpause)(
                        study.digest
                    )
                elif run.paused != (study.digest in paused):
                    (run.unpause if run.paused else run.pause)()

    def _recorded(self, study: SharedStudy) -> tuple[Round, Accounts, int] | None:
        """Return the open round of a study as it is recorded, accounts for it here, and its age."""
        signed = self._store.study(study.digest)
        if study.round is None or signed is None:
            return None
        lines = self._store.replicas.round_lines(study.digest, study.round.epoch)
        try:
            users = self._store.register.fixed_users(study.digest, study.round.epoch)
            found = last_round(signed, lines, users)
        except AskanceError as error:
            extra = {"study": study.digest.hex()[:16]}
            _LOGGER.warning("a round of another replica is not read", exc_info=error, extra=extra)
            return None
        if found is None or found[1].number != study.round.number:
            return None  # it has closed meanwhile
        header, round_ = found
        accounts = Accounts(header.population, read_terms(signed.study).budget_nano_nats)
        return round_, accounts, study.round.age_s
