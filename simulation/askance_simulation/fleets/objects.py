"""Device objects in this process: exact, and as simple as a fleet can be."""

from __future__ import annotations

from contextlib import suppress

from askance_aggregator.studies import Accounts, Group, Intake, Round, Tally
from askance_aggregator.studies.intake import Arrival
from askance_client.device import TooManyRefusals
from askance_client.errors import RemoteProtocolError
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.opened import Progress

_TICK = 1024  # reports between two words about progress


class ObjectFleet:
    """Fleet that asks present devices by direct calls.

    Their reports go through the service's own intake.

    Args:
      devices: the devices that are asked.
      progress: called now and then with the number of new reports.
    """

    def __init__(self, devices: Devices, progress: Progress | None = None) -> None:
        self._devices = devices
        self._progress = progress

    @property
    def population(self) -> int:
        return len(self._devices)

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        intake = Intake(round_, accounts)
        for group in round_.groups:
            there = self._there(round_, group)
            for done, ordinal in enumerate(there, start=1):
                device = self._devices[ordinal]
                if not device.knows(round_.study_digest):
                    device.introduce(round_.study)
                with suppress(TooManyRefusals):  # no report: as of a user who stays away
                    _add_report(intake, ordinal, device.answer(group.payload))
                if self._progress is not None and done % _TICK == 0:
                    self._progress(_TICK)
            if self._progress is not None:
                self._progress(len(there) % _TICK)
        return intake.tallies()

    def recall(self, round_: Round, accounts: Accounts) -> None:
        intake = Intake(round_, accounts)
        for group in round_.groups:
            for ordinal in group.cohort.members.tolist():
                report = self._devices[ordinal].ledger.stored(group.digest)
                if report is not None:  # a refusal spent nothing and is not kept
                    _add_report(intake, ordinal, report)

    def _there(self, round_: Round, group: Group) -> list[int]:
        """Return the group's members that are present in the round."""
        members, behaviour = group.cohort.members, self._devices.behaviour
        if behaviour.absences:
            members = members[~behaviour.absent(round_.study_digest, round_.number, members)]
        there: list[int] = members.tolist()
        return there


def _add_report(intake: Intake, ordinal: int, report: bytes) -> None:
    arrival = intake.examine(ordinal, report)
    if not isinstance(arrival, Arrival):
        raise RemoteProtocolError(
            f"device {ordinal}: expected a report of what it was asked, found {arrival.name}"
        )
    intake.add(arrival)
