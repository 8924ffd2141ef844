"""The devices of a simulation: the trusted base's own, with seeded coins and a still clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns
from askance_client.device import Device, ExaminedRequest, Examiner, Policy, RecordWork
from askance_client.device.record_work import Value
from askance_client.ledger import Ledger
from askance_client.messages import Request
from askance_client.queries import EncodedRecord
from askance_client.randomizers import Coins
from askance_simulation.disturbances import PRESENT_AND_HONEST, Behaviour
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.populations import ObservedUsers, Population
from askance_simulation.randomness import DeviceCoins, SeededCoins

_CHUNK = 1 << 14  # records encoded at a time while devices are made
_CHUNKS = 16  # that are kept, for devices that are asked in any order


class Devices:
    """Devices, one per user, made when first needed and kept with their ledgers.

    Args:
      now_s: the injected clock, whole seconds.
      behaviour: the users who stay away and those who lie.
      observed: these users, as a judge reads them; None: nothing is summed for a judge.
    """

    def __init__(
        self,
        population: Population,
        policy: Policy,
        coins: SeededCoins,
        now_s: Callable[[], int],
        behaviour: Behaviour = PRESENT_AND_HONEST,
        observed: ObservedUsers | None = None,
    ) -> None:
        self.population = population
        self.observed = ObservedUsers(population, fields=()) if observed is None else observed
        self.policy = policy
        self.coins = coins
        self.now_s = now_s
        self.behaviour = behaviour
        self._examiner = Examiner(capacity=4096)  # a round's requests, for the whole fleet
        self._made: dict[int, Device] = {}
        self._chunk = lru_cache(maxsize=_CHUNKS)(self._encoded)
        self._honest = population.drift is None and not behaviour.lies

    def __len__(self) -> int:
        return self.population.size

    def __getitem__(self, ordinal: int) -> Device:
        device = self._made.get(ordinal)
        if device is None:
            device = self.booted(ordinal, MemoryLedger())
            self._made[ordinal] = device
        return device

    def forget(self) -> None:
        """Drop the devices that were made, with their ledgers; no fleet asks them any more."""
        self._made.clear()
        self._chunk.cache_clear()

    def booted(self, ordinal: int, ledger: Ledger) -> Device:
        """Make a user's device as it starts: its state is its ledger's."""
        user = _User(self, ordinal)
        steady = self._honest or (self.population.drift is None and not self._lies(ordinal))
        return (Device if steady else partial(_Unsteady, self, ordinal))(
            schema=self.population.schema,
            record=user,
            policy=self.policy,
            ledger=ledger,
            coins=user,
            now_s=self.now_s,
            examiner=self._examiner,
        )

    def record(self, ordinal: int, round_number: int) -> EncodedRecord:
        """Return a user's record as of a round of a study."""
        number = 0 if self.population.drift is None else round_number
        return self._chunk(number, ordinal // _CHUNK).record(ordinal % _CHUNK)

    def _encoded(self, number: int, chunk: int) -> _Records:
        start = chunk * _CHUNK
        people = self.population.in_round(number)
        columns = people.columns(start, min(start + _CHUNK, self.population.size))
        self.observed.read(start, columns)
        return _Records(columns)

    def _lies(self, ordinal: int) -> bool:
        """Return whether the device lies."""
        # Asked one by one, and rarely, since a device is made once.
        if not self.behaviour.lies:
            return False
        return bool(self.behaviour.lying(np.array([ordinal], np.int64))[0])


class _User(DeviceCoins):
    """Record and coins of one user, made anew each time the device uses them."""

    __slots__ = ("_among",)

    def __init__(self, among: Devices, ordinal: int) -> None:
        super().__init__(among.coins, ordinal)
        self._among = among

    def load(self) -> EncodedRecord:
        """Return the record, as of a study's first round."""
        return self._among.record(self._ordinal, 0)


class _Records:
    """Reader of single records of a chunk."""

    # Columns are read as buffers, since numpy's own indexing takes three times as long. Records
    # with all fields share the mapping that says so.

    def __init__(self, columns: EncodedColumns) -> None:
        values = dict(columns.values)
        self._numbers = [(n, _buffer(c)) for n, c in values.items() if not isinstance(c, tuple)]
        self._words = [
            (name, [_buffer(word) for word in column])
            for name, column in values.items()
            if isinstance(column, tuple)
        ]
        present = {name: np.asarray(column) for name, column in columns.present.items()}
        self._whole = np.logical_and.reduce(list(present.values())).data
        self._present = [(name, column.data) for name, column in present.items()]
        self._all_present = dict.fromkeys(present, True)

    def record(self, row: int) -> EncodedRecord:
        """Return one record as its own device would have encoded it."""
        values: dict[str, int | tuple[int, ...]] = {n: column[row] for n, column in self._numbers}
        for name, words in self._words:
            values[name] = tuple([word[row] for word in words])
        if self._whole[row]:
            return EncodedRecord(values, self._all_present)
        return EncodedRecord(values, {n: bool(column[row]) for n, column in self._present})


def _buffer(column: NDArray[Any]) -> memoryview:
    """Return a column's integers; of a bool column 0 and 1."""
    return (column.view(np.uint8) if column.dtype == np.bool_ else column).data


class _Unsteady(Device):
    """Device that lies, or whose record changes between rounds; else like any other."""

    __slots__ = ("_among", "_lying", "_ordinal")

    def __init__(self, among: Devices, ordinal: int, **parts: Any) -> None:
        super().__init__(**parts)
        self._among = among
        self._ordinal = ordinal
        self._lying = among._lies(ordinal)

    def _work(self, asked: Sequence[ExaminedRequest]) -> RecordWork:
        return _UnsteadyWork(self._among, self._ordinal, self._lying, self._coins, asked)


class _UnsteadyWork(RecordWork):
    """Work on a record as of a round, or of a device that lies."""

    def __init__(
        self,
        among: Devices,
        ordinal: int,
        lying: bool,
        coins: Coins,
        asked: Sequence[ExaminedRequest],
    ) -> None:
        super().__init__(_User(among, ordinal), coins, asked)
        self._among = among
        self._ordinal = ordinal
        self._lying = lying

    def _value(self, request: Request) -> Value:
        self._record = self._among.record(self._ordinal, request.round)
        return super()._value(request)

    def _randomize(
        self, request: Request, digest: bytes, value: Value, words: tuple[int, ...]
    ) -> bytes:
        if not self._lying:
            return super()._randomize(request, digest, value, words)
        level, _ = self._level(request, value, words)
        query, randomizer = request.query, request.randomizer
        return self._among.behaviour.lie(digest, self._ordinal, query, randomizer, level)
