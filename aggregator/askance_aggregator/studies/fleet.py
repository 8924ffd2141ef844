"""Interface between a study and the devices that answer it."""

from __future__ import annotations

from typing import Protocol

from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally


class Fleet(Protocol):
    """Devices, however they are reached: objects in process, over gRPC, as columns, on a cluster.

    Same population, same study, same seed: every fleet returns tallies that are equal to the bit.
    """

    @property
    def population(self) -> int:
        """Number of users; their ordinals are 0 .. population-1."""
        ...

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        """Ask every member of every group and return one tally per group, in order.

        Record in `accounts` the charge that each device reports. Asking a round again (after a
        crash) asks no device twice: requests keep their digests and devices their stored reports.
        """
        ...

    def recall(self, round_: Round, accounts: Accounts) -> None:
        """Record in `accounts` again what devices reported in a closed round; send no request.

        A study that is replayed from its transcript has its accounts back by this.
        """
        ...
