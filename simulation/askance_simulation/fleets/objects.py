"""Device objects in this process: exact, and as simple as a fleet can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from askance_aggregator.studies import Accounts, Group, Intake, Round, Tally
from askance_aggregator.studies.intake import without_sequence
from askance_client.device import TooManyRefusals
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.opened import Progress

_TOGETHER = 1024  # reports that are counted together, then told to the progress


class ObjectFleet:
    """Fleet that asks present devices by direct calls.

    Their reports go through the service's own intake.
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
            for start in range(0, len(there), _TOGETHER):
                ordinals = there[start : start + _TOGETHER]
                _add_reports(intake, self._asked(round_, group, ordinals))
                if self._progress is not None:
                    self._progress(len(ordinals))
        return intake.tallies()

    def recall(self, round_: Round, accounts: Accounts) -> None:
        intake = Intake(round_, accounts)
        for group in round_.groups:
            reports: dict[bytes, list[int]] = {}
            for ordinal in group.cohort.members.tolist():
                report = self._devices[ordinal].ledger.stored(group.digest)
                if report is not None:  # a refusal spent nothing and is not kept
                    reports.setdefault(report, []).append(ordinal)
            _add_reports(intake, reports)

    def _asked(
        self, round_: Round, group: Group, ordinals: Sequence[int]
    ) -> dict[bytes, list[int]]:
        """Ask devices, and return those who sent each report, by the report's bytes."""
        reports: dict[bytes, list[int]] = {}
        digest, payload, devices = round_.study_digest, group.payload, self._devices
        for ordinal in ordinals:
            device = devices[ordinal]
            if not device.knows(digest):
                device.introduce(round_.study)
            try:
                report = device.answer(payload)
            except TooManyRefusals:  # no report: as of a user who stays away
                continue
            reports.setdefault(report, []).append(ordinal)
        return reports

    def _there(self, round_: Round, group: Group) -> list[int]:
        """Return the group's members that are present in the round."""
        members, behaviour = group.cohort.members, self._devices.behaviour
        if behaviour.absences:
            members = members[~behaviour.absent(round_.study_digest, round_.number, members)]
        there: list[int] = members.tolist()
        return there


def _add_reports(intake: Intake, reports: Mapping[bytes, Sequence[int]]) -> None:
    """Check and count reports."""
    for report, ordinals in reports.items():
        checked = intake.check((without_sequence(report)[0],))
        status = checked if isinstance(checked, AckStatus) else AckStatus.UNKNOWN
        if not isinstance(checked, AckStatus):
            _, places = intake.places(checked, np.array(ordinals, np.int64))
            if len(places) == len(ordinals):
                intake.add(checked, places if len(places) > 1 else int(places[0]))
                continue
        raise RemoteProtocolError(
            f"devices {list(ordinals)[:3]}: expected a report of what they were asked, got"
            f" {status.name}"
        )
