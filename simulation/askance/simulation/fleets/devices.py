"""The devices of a simulation: the trusted base's own, with seeded coins and a still clock."""

from __future__ import annotations

from collections.abc import Callable

from askance.client.device import Device, Examiner, Policy
from askance.client.ledger import MemoryLedger
from askance.client.queries import EncodedColumns
from askance.simulation.behaviour import PRESENT_AND_HONEST, Behaviour
from askance.simulation.coins import SeededCoins
from askance.simulation.populations import Population

_CHUNK = 1 << 14  # records encoded at a time while devices are made


class Devices:
    """One device a user, made when first asked for and kept, ledger and all.

    Args:
      population: whose records they hold.
      policy: what every owner allows.
      coins: the fleet's seeded coins.
      now_s: the injected clock, whole seconds.
      behaviour: who stays away and who lies.
    """

    def __init__(
        self,
        population: Population,
        policy: Policy,
        coins: SeededCoins,
        now_s: Callable[[], int],
        behaviour: Behaviour = PRESENT_AND_HONEST,
    ) -> None:
        self.population = population
        self.policy = policy
        self.coins = coins
        self.now_s = now_s
        self.behaviour = behaviour
        self._examiner = Examiner(capacity=4096)  # a round's requests, for the whole fleet
        self._made: dict[int, Device] = {}
        self._chunk: tuple[int, EncodedColumns] | None = None

    def __len__(self) -> int:
        return self.population.size

    def __getitem__(self, ordinal: int) -> Device:
        device = self._made.get(ordinal)
        if device is None:
            device = self._make(ordinal)
            self._made[ordinal] = device
        return device

    def _make(self, ordinal: int) -> Device:
        start = ordinal - ordinal % _CHUNK
        if self._chunk is None or self._chunk[0] != start:
            stop = min(start + _CHUNK, self.population.size)
            self._chunk = (start, self.population.columns(start, stop))
        return Device(
            schema=self.population.schema,
            record=self._chunk[1].record(ordinal - start),
            policy=self.policy,
            ledger=MemoryLedger(),
            coins=self.coins.at(ordinal),
            now_s=self.now_s,
            examiner=self._examiner,
        )
