"""The seam between a study and those who answer it."""

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
        """How many users there are; their ordinals are 0 .. population-1."""
        ...

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        """Asks every member of every group and returns a tally a group, in order.

        Tells `accounts` what each device says it was charged. Asking a round again (after a crash)
        asks nobody twice: requests keep their digests and devices their stored reports.
        """
        ...

    def recall(self, round_: Round, accounts: Accounts) -> None:
        """Tells `accounts` again what each device said in a round that is closed; asks nobody.

        A study that is replayed from its transcript has its accounts back by this.
        """
        ...
