"""Silent devices by tag: those that have not called, and those that owe an answer to a round.

Counts alone. An operator sees how many devices with a tag were asked, have answered or refused, are
connected and have not, and are not connected. A device decides to answer by the study, its policy,
its owner's consent, its ledger and its clock, before its record is read, so no count is a function
of a record; an owner's decision and a device's absence are what they are (ADR 92).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from askance_aggregator.server.devices import SHOWN_TAGS, AskedUsers, answers_by_tag
from askance_aggregator.store import RoundAnswers, Store, sum_answers
from askance_aggregator.store.register import SeenDevices
from askance_protos.v1 import operator_pb2 as pb

T = TypeVar("T")
_MAX_ROUNDS = 16  # open ones, the oldest
_MAX_CLOSED = 500  # rows of closed rounds, those of the newest studies
_LEAST_S = 1.0  # for which a reading is taken as the present
_SHARE = 20  # a reading is kept so many times as long as it took: 5 % of one processor at most
_DAY_S = 86_400


@dataclass(slots=True)
class _Kept(Generic[T]):
    value: T
    until_s: float


class SilenceReader:
    """Reader of silent devices, for any thread.

    Args:
      asked: returns the users of the open rounds in this process.
      now_s: the time in Unix seconds, for the present day.
      clock_s: a clock that is never set.
    """

    def __init__(
        self,
        store: Store,
        asked: Callable[[], Sequence[AskedUsers]],
        now_s: Callable[[], int],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._asked = asked
        self._now_s = now_s
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._seen: _Kept[tuple[SeenDevices, ...]] | None = None
        self._own: _Kept[tuple[RoundAnswers, ...]] | None = None

    def seen(self) -> tuple[SeenDevices, ...]:
        """Return devices by their last call: all, then by tag, the most devices first."""
        with self._lock:
            self._seen = kept = self._fresh(self._seen, self._read_seen)
        return kept.value

    def rounds(self) -> tuple[RoundAnswers, ...]:
        """Return the open rounds by tag, with the devices that are connected to any replica."""
        return sum_answers(self.own_rounds(), self._store.replicas.others_answers())

    def read(self) -> pb.SilenceResponse:
        """Return the present figures."""
        closed = self._store.register.completion(_MAX_CLOSED)
        return pb.SilenceResponse(
            seen=[pb.SeenDevices(**asdict(one)) for one in self.seen()],
            rounds=[_figures(one, is_open=True) for one in self.rounds()]
            + [_figures(one, is_open=False) for one in closed],
        )

    def own_rounds(self) -> tuple[RoundAnswers, ...]:
        """Return the open rounds by tag, with the devices that are connected to this process."""
        with self._lock:
            self._own = kept = self._fresh(self._own, self._read_rounds)
        return kept.value

    def _fresh(self, kept: _Kept[T] | None, read: Callable[[], T]) -> _Kept[T]:
        began_s = self._clock_s()
        if kept is not None and began_s < kept.until_s:
            return kept
        value, ended_s = read(), self._clock_s()
        return _Kept(value, ended_s + max(_LEAST_S, _SHARE * (ended_s - began_s)))

    def _read_seen(self) -> tuple[SeenDevices, ...]:
        return self._store.register.seen(self._now_s() // _DAY_S, SHOWN_TAGS)

    def _read_rounds(self) -> tuple[RoundAnswers, ...]:
        rounds = sorted(self._asked(), key=lambda one: -one.age_s)[:_MAX_ROUNDS]
        return answers_by_tag(rounds, self._store.register.tagged(), SHOWN_TAGS)


def _figures(row: RoundAnswers, *, is_open: bool) -> pb.RoundAnswers:
    return pb.RoundAnswers(
        study_prefix=bytes.fromhex(row.study),
        epoch=row.epoch,
        round=row.number,
        tag=row.tag,
        asked=row.asked,
        answered=row.answered,
        silent=row.silent,
        open=is_open,
    )
