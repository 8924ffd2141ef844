"""Counter of the outer guarantee: keeps the operator's account of all releases up to date."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from functools import lru_cache

from askance_aggregator.amplification import Curve, curve
from askance_aggregator.amplification.account import OuterAccount, TallyRelease
from askance_aggregator.amplification.accountant import local_epsilon
from askance_aggregator.amplification.ends import local_curve
from askance_aggregator.encoding import encode_randomizer
from askance_aggregator.store import OuterRelease, Store
from askance_client.codec import parse
from askance_client.codec.randomizers import decode_randomizer
from askance_client.errors import StoreError
from askance_client.randomizers import Randomizer
from askance_protos.v1 import randomizer_pb2

_LOGGER = logging.getLogger(__name__)
CURVES_VERSION = 1
"""Of the accountant's curves: raised when a bound is corrected, so that no earlier one stays."""
LEAST_ANSWERS = 64
"""Fewer honest answers have the local epsilon here: no curve is computed, and little is lost."""
_EVERY_S = 3_600.0  # unless woken: epochs of a study end without its end
_AGAIN_S = 60.0  # after a store that failed


class OuterCounter:
    """Counts what the store's releases cost each user; for one thread, but for `wake`.

    The account lives in memory, and is entered again from the store's rows at each start. Its
    figures are kept in the store, with the number of the last release that they count.

    Args:
        compute: makes a curve that the store does not have.
    """

    def __init__(self, store: Store, compute: Callable[[Randomizer, int], Curve] = curve) -> None:
        self._store = store
        self._compute = compute
        self._begin_anew()
        self._woken = threading.Event()
        self._curve = lru_cache(maxsize=1024)(self._stored_curve)

    def _begin_anew(self) -> None:
        self._account: OuterAccount | None = None
        self._counted = 0
        self._requests: set[bytes] = set()

    def wake(self) -> None:
        """Let `run` count at once; for any thread."""
        self._woken.set()

    def run(self, stopping: threading.Event) -> None:
        """Count now and when woken, until `stopping` is set and `wake` called."""
        while not stopping.is_set():
            self._woken.clear()
            try:
                self.count()
            except StoreError as error:
                _LOGGER.error("the outer account waits for the store", exc_info=error)
                self._woken.wait(_AGAIN_S)
            except Exception as error:  # a release may be entered in part: all are entered anew
                _LOGGER.error("the outer account begins anew", exc_info=error)
                self._begin_anew()
                self._woken.wait(_AGAIN_S)
            else:
                self._woken.wait(_EVERY_S)

    def count(self) -> int:
        """Enter the releases that came since, and return their number.

        After a round that has closed again all are entered anew: the account has its old users.

        Raises:
            StoreError: the store failed; what was entered stays entered.
        """
        releases = self._store.outer
        terms = releases.terms()
        if terms is None:
            return 0
        entered = 0
        while page := releases.releases(self._counted):
            if any(release.request in self._requests for _, release in page):
                self._begin_anew()
                entered = 0
                continue
            for number, release in page:
                self._enter(number, release, terms.delta)
                entered += 1
        if entered and self._account is not None:
            found = asdict(self._account.figures(self._store.population()))
            releases.keep_figures(self._counted, json.dumps(found))
        return entered

    def _enter(self, number: int, release: OuterRelease, delta: Fraction) -> None:
        if self._account is None:
            self._account = OuterAccount(delta, curves=self._curve)
        randomizer = decode_randomizer(parse(randomizer_pb2.Randomizer, release.randomizer))
        self._account.enter(
            TallyRelease(release.question, randomizer, release.users, release.again)
        )
        self._requests.add(release.request)
        self._counted = number

    def _stored_curve(self, randomizer: Randomizer, answers: int) -> Curve:
        """Return a kept curve, or compute it and keep it."""
        if answers < LEAST_ANSWERS:
            return local_curve(local_epsilon(randomizer))
        encoded = encode_randomizer(randomizer).SerializeToString(deterministic=True)
        encoded = bytes([CURVES_VERSION]) + encoded
        kept = self._store.outer.curve(encoded, answers)
        if kept is not None:
            return Curve(*kept)
        made = self._compute(randomizer, answers)
        self._store.outer.keep_curve(encoded, answers, made.epsilons, made.deltas)
        return made
