"""An operator's calls, over a connection of `analyst.connect`; nothing here shows an estimate.

with connect("127.0.0.1:7443", key="ops.pem", ca=Path("ca.pem")) as aggregator:
    print(OperatorClient(aggregator).fleet().connected)

Answers are the messages of `operator.proto`, which has their fields. `server.services.operators`
answers these calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import Message

from askance_aggregator.analyst import Aggregator, CallRefused
from askance_aggregator.analyst.calls import Call
from askance_aggregator.analyst.messages import check_progress, every_study, query_message
from askance_aggregator.store import AuditEntry, ListedState, RoundAnswers, StudyQuery, register
from askance_aggregator.store.audit import MAX_PAGE
from askance_protos.v1 import operator_pb2 as pb

M = TypeVar("M", bound=Message)


class OperatorClient:
    """Calls of an operator; each raises `analyst.CallRefused` if the role does not allow it."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator

    def caller(self) -> pb.CallerResponse:
        """Return the caller's own name, role and public key; every role may ask."""
        return self._call("Caller", pb.CallerRequest(with_key=True), pb.CallerResponse)

    def fleet(self) -> pb.FleetResponse:
        """Return the state of the fleet, as the process that answers sees it."""
        return self._call("Fleet", pb.FleetRequest(), pb.FleetResponse)

    def silence(self) -> register.Silence:
        """Return devices by tag: by their last call, and by what they owe to rounds."""
        found = self._call("Silence", pb.SilenceRequest(), pb.SilenceResponse)
        rounds: dict[bool, list[RoundAnswers]] = {True: [], False: []}
        for one in found.rounds:
            of = (one.study_prefix.hex()[:16], one.epoch, one.round, one.tag)
            rounds[one.open].append(RoundAnswers(*of, one.asked, one.answered, one.silent))
        seen = tuple(
            register.SeenDevices(one.tag, one.devices, one.today, one.week, one.month, one.never)
            for one in found.seen
        )
        return register.Silence(seen, tuple(rounds[True]), tuple(rounds[False]))

    def studies(
        self, state: ListedState | None = None, limit: int | None = None
    ) -> list[pb.StudyProgress]:
        """Return the progress of all studies, the oldest first; a limit keeps the newest."""
        return every_study(self.studies_page, StudyQuery(state), limit)

    def studies_page(self, query: StudyQuery) -> pb.AllStudiesResponse:
        """Return the progress of a part of all analysts' studies, in the query's order."""
        request = pb.AllStudiesRequest(query=query_message(query), with_facts=True)
        return check_progress(self._call("Studies", request, pb.AllStudiesResponse))

    def audit(self, after: int = 0, limit: int = MAX_PAGE) -> tuple[list[AuditEntry], int]:
        """Return entries of the audit log, oldest first, and the number of its last entry.

        They have greater numbers than `after`; the limit is 1 to 1,000. `store.verify_entries`
        checks a whole log.
        """
        found = self._call("Audit", pb.AuditRequest(after=after, limit=limit), pb.AuditResponse)
        return [AuditEntry(one.number, one.line, one.digest) for one in found.entries], found.last

    def devices(
        self, tags: Sequence[str] = (), after: int = -1, limit: int = 100
    ) -> list[register.DeviceEntry]:
        """Return devices by ordinal; the arguments are those of `store.register.Register`."""
        return self._devices(pb.DevicesRequest(tags=tags, start=after + 1, limit=limit))

    def device(self, device_id: bytes) -> register.DeviceEntry:
        """Return a device of the register."""
        found = self._devices(pb.DevicesRequest(limit=1, device_id=device_id))
        if [one.device_id for one in found] != [device_id]:
            raise CallRefused("unknown-device", "device: expected an aggregator that finds ids")
        return found[0]

    def tag(
        self,
        selection: register.DeviceSelection,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> register.Affected:
        """Give tags to devices and take tags from them; return how many were selected."""
        request = pb.TagDevicesRequest(selection=_message(selection), add=add, remove=remove)
        return self._change("TagDevices", request)

    def count(self, selection: register.DeviceSelection) -> register.SelectedCount:
        """Count the devices that `revoke` and `restore` would change; nothing is changed."""
        request = pb.ChangeDevicesRequest(selection=_message(selection))
        found = self._call("CountDevices", request, pb.CountDevicesResponse)
        return register.SelectedCount(
            register.Affected(found.active_devices, found.active_gateways),
            register.Affected(found.revoked_devices, found.revoked_gateways),
        )

    def revoke(self, selection: register.DeviceSelection) -> register.Affected:
        """Exclude devices and gateways; those that were already do not count."""
        request = pb.ChangeDevicesRequest(selection=_message(selection))
        return self._change("RevokeDevices", request)

    def restore(self, selection: register.DeviceSelection) -> register.Affected:
        """Admit revoked devices and gateways again."""
        request = pb.ChangeDevicesRequest(selection=_message(selection))
        return self._change("RestoreDevices", request)

    def _devices(self, request: pb.DevicesRequest) -> list[register.DeviceEntry]:
        return [
            register.DeviceEntry(
                one.device_id,
                one.ordinal,
                register.DeviceState.REVOKED if one.revoked else register.DeviceState.ACTIVE,
                tuple(one.tags),
                one.gateway,
                one.enrolled_day or None,
                one.seen_day or None,
                one.software,
            )
            for one in self._call("Devices", request, pb.DevicesResponse).devices
        ]

    def _change(self, name: str, request: Message) -> register.Affected:
        found = self._call(name, request, pb.ChangeDevicesResponse)
        return register.Affected(found.devices, found.gateways)

    def _call(self, name: str, request: Message, answer: type[M]) -> M:
        call = Call(f"Operators/{name}")
        return self._aggregator.unary(call, self._aggregator.subject, request, answer)


def _message(selection: register.DeviceSelection) -> pb.DeviceSelection:
    return pb.DeviceSelection(ids=selection.ids, tags=selection.tags)
