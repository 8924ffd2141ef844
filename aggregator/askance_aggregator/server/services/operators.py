"""The service for operators: figures of the fleet, progress of studies, the audit log, devices."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from askance_aggregator.analyst.messages import (
    extent_message,
    facts_message,
    query_of,
    state_number,
)
from askance_aggregator.server.callers import Admitted, Gate
from askance_aggregator.server.services.servicer import Servicer
from askance_aggregator.server.studies import StudyManager, StudyStatus
from askance_aggregator.store import StudyQuery
from askance_aggregator.store.audit import MAX_PAGE
from askance_aggregator.store.register import Affected, DeviceEntry, DeviceSelection, DeviceState
from askance_client.errors import RemoteProtocolError
from askance_protos.v1 import operator_pb2 as pb

_MOST = (1 << 63) - 1  # the store's integers end there


class OperatorsServicer(Servicer):
    """Serve `Operators` of operator.proto."""

    SERVICE = pb.DESCRIPTOR.services_by_name["Operators"]

    def __init__(
        self,
        manager: StudyManager,
        *,
        gate: Gate,
        figures: Callable[[], pb.FleetResponse],
        silence: Callable[[], pb.SilenceResponse],
        executor: Executor,
    ) -> None:
        super().__init__(gate, executor)
        self._manager = manager
        self._figures = figures
        self._silence = silence

    async def caller(self, request: pb.CallerRequest, admitted: Admitted) -> pb.CallerResponse:
        """Answer Caller."""
        caller = admitted.caller
        key = caller.key if request.with_key else b""
        return pb.CallerResponse(name=caller.name, role=caller.role, public_key=key)

    async def fleet(self, _: pb.FleetRequest, __: Admitted) -> pb.FleetResponse:
        """Answer Fleet."""
        return await self._run(self._figures)

    async def silence(self, _: pb.SilenceRequest, __: Admitted) -> pb.SilenceResponse:
        """Answer Silence."""
        return await self._run(self._silence)

    async def studies(self, request: pb.AllStudiesRequest, _: Admitted) -> pb.AllStudiesResponse:
        """Answer Studies."""
        query = query_of(request)
        page = await self._run(self._manager.page, query or StudyQuery(), None)
        found = [_progress(one, request) for one in page.studies]
        if query is None:  # an older caller
            return pb.AllStudiesResponse(studies=found[::-1])
        return pb.AllStudiesResponse(studies=found, extent=extent_message(page.extent))

    async def audit(self, request: pb.AuditRequest, _: Admitted) -> pb.AuditResponse:
        """Answer Audit."""
        check_audit(request)
        return await self._run(self._page, request)

    async def devices(self, request: pb.DevicesRequest, _: Admitted) -> pb.DevicesResponse:
        """Answer Devices."""
        register = self._manager.register
        if request.device_id:
            found = [await self._run(register.show, request.device_id)]
        else:
            after = min(request.start, _MOST) - 1
            found = await self._run(register.devices, tuple(request.tags), after, request.limit)
        return pb.DevicesResponse(devices=map(_device, found))

    async def count_devices(
        self, request: pb.ChangeDevicesRequest, _: Admitted
    ) -> pb.CountDevicesResponse:
        """Answer CountDevices."""
        found = await self._run(self._manager.register.count_selected, _selection(request))
        return pb.CountDevicesResponse(
            active_devices=found.active.devices,
            active_gateways=found.active.gateways,
            revoked_devices=found.revoked.devices,
            revoked_gateways=found.revoked.gateways,
        )

    async def tag_devices(
        self, request: pb.TagDevicesRequest, admitted: Admitted
    ) -> pb.ChangeDevicesResponse:
        """Answer TagDevices."""
        selected, register = _selection(request), self._manager.register
        add, remove = tuple(request.add), tuple(request.remove)
        return _affected(await self._run(register.tag, selected, add, remove), admitted)

    async def revoke_devices(
        self, request: pb.ChangeDevicesRequest, admitted: Admitted
    ) -> pb.ChangeDevicesResponse:
        """Answer RevokeDevices."""
        done = await self._run(self._manager.register.revoke, _selection(request))
        return _affected(done, admitted)

    async def restore_devices(
        self, request: pb.ChangeDevicesRequest, admitted: Admitted
    ) -> pb.ChangeDevicesResponse:
        """Answer RestoreDevices."""
        done = await self._run(self._manager.register.restore, _selection(request))
        return _affected(done, admitted)

    def subject(self, request: pb.TagDevicesRequest | pb.ChangeDevicesRequest) -> str:
        """Describe the devices without an id."""
        return str(_selection(request))

    def _page(self, request: pb.AuditRequest) -> pb.AuditResponse:
        head = self._manager.audit.head()
        entries = self._manager.audit.entries(request.after, request.limit)
        return pb.AuditResponse(
            entries=[
                pb.AuditLine(number=one.number, line=one.line, digest=one.digest) for one in entries
            ],
            last=0 if head is None else head.number,
        )


def check_audit(request: pb.AuditRequest) -> None:
    """Check the request for a page of the audit log."""
    if not 1 <= request.limit <= MAX_PAGE:
        raise RemoteProtocolError(f"limit: expected 1 to {MAX_PAGE} entries, got {request.limit}")
    if request.after > _MOST:
        raise RemoteProtocolError(f"after: expected at most {_MOST}, got {request.after}")


def _selection(request: pb.TagDevicesRequest | pb.ChangeDevicesRequest) -> DeviceSelection:
    return DeviceSelection(tuple(request.selection.ids), tuple(request.selection.tags))


def _affected(found: Affected, admitted: Admitted) -> pb.ChangeDevicesResponse:
    admitted.effect.changed = found.total
    return pb.ChangeDevicesResponse(devices=found.devices, gateways=found.gateways)


def _device(entry: DeviceEntry) -> pb.DeviceEntry:
    return pb.DeviceEntry(
        device_id=entry.device_id,
        ordinal=entry.ordinal,
        revoked=entry.state is DeviceState.REVOKED,
        tags=entry.tags,
        gateway=entry.gateway,
        enrolled_day=entry.enrolled_day or 0,
        seen_day=entry.seen_day or 0,
        software=entry.software,
    )


def _progress(study: StudyStatus, request: pb.AllStudiesRequest) -> pb.StudyProgress:
    return pb.StudyProgress(
        study_digest=study.digest,
        public_key=study.public_key,
        learner=study.learner,
        state=state_number(study.state),
        round=study.round,
        asked=study.asked,
        answered=study.answered,
        reason=study.reason,
        facts=facts_message(study) if request.with_facts else None,
    )
