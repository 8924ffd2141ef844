"""The calls that an operator's tool makes, over raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

import grpc

from askance_aggregator.operators.calls import OperatorCall
from askance_aggregator.operators.device_wire import (
    DevicesChange,
    decode_change,
    decode_devices_request,
    decode_tagging,
    encode_affected,
    encode_devices,
)
from askance_aggregator.operators.fleet_wire import FleetFigures, encode_fleet
from askance_aggregator.operators.wire import (
    SERVICE,
    AuditPage,
    CallerIdentity,
    StudyProgress,
    decode_audit_request,
    decode_studies_request,
    encode_audit,
    encode_caller,
    encode_studies,
)
from askance_aggregator.server.analysts.statuses import refused_status
from askance_aggregator.server.callers import Admitted, Gate
from askance_aggregator.server.callers.gate import Do, Prepare
from askance_aggregator.server.devices.calls import Context, read_message, served
from askance_aggregator.server.studies import StudyManager, StudyStatus
from askance_aggregator.store import StudyQuery
from askance_aggregator.store.register import Affected

_MESSAGE_S = 5.0  # how long a request may take to arrive, after its metadata
Change = Callable[[DevicesChange], Affected]
P = ParamSpec("P")
T = TypeVar("T")


class OperatorsServicer:
    """Serve the Operators service.

    Args:
      manager: holds the studies; its calls may wait for the disk.
      gate: admits and records calls.
      figures: returns the state of the fleet.
      executor: where calls wait, so that the event loop does not.
    """

    def __init__(
        self,
        manager: StudyManager,
        *,
        gate: Gate,
        figures: Callable[[], FleetFigures],
        executor: Executor,
    ) -> None:
        self._manager = manager
        self._gate = gate
        self._figures = figures
        self._executor = executor

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler by which a server routes calls, as bytes without serializers."""
        methods = {
            OperatorCall.CALLER: self._caller,
            OperatorCall.FLEET: self._fleet,
            OperatorCall.STUDIES: self._studies,
            OperatorCall.AUDIT: self._audit,
            OperatorCall.DEVICES: self._devices,
        }
        register = self._manager.register
        changes: dict[OperatorCall, tuple[Callable[[bytes], DevicesChange], Change]] = {
            OperatorCall.TAG_DEVICES: (
                decode_tagging,
                lambda change: register.tag(change.selection, change.add, change.remove),
            ),
            OperatorCall.REVOKE_DEVICES: (
                decode_change,
                lambda change: register.revoke(change.selection),
            ),
            OperatorCall.RESTORE_DEVICES: (
                decode_change,
                lambda change: register.restore(change.selection),
            ),
        }
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                str(call): served(self._gate.guarded(call, do), refused_status)
                for call, do in methods.items()
            }
            | {
                str(call): served(
                    self._gate.prepared(call, self._changing(decode, change)), refused_status
                )
                for call, (decode, change) in changes.items()
            },
        )
        return handler

    def _changing(self, decode: Callable[[bytes], DevicesChange], change: Change) -> Prepare:
        """Return what reads a change of devices, and makes it when it has been recorded."""

        async def prepare(context: Context, admitted: Admitted) -> tuple[str, Do]:
            data = await read_message(context, _MESSAGE_S)
            admitted.check_body(data)
            asked = decode(data)

            async def do(context: Context, _: Admitted) -> None:
                await context.write(encode_affected(await self._run(change, asked)))

            return asked.text(), do

        return prepare

    async def _caller(self, context: Context, admitted: Admitted) -> None:
        admitted.check_body(await read_message(context, _MESSAGE_S))
        known = CallerIdentity(admitted.caller.name, admitted.caller.role)
        await context.write(encode_caller(known))

    async def _fleet(self, context: Context, admitted: Admitted) -> None:
        admitted.check_body(await read_message(context, _MESSAGE_S))
        await context.write(encode_fleet(await self._run(self._figures)))

    async def _studies(self, context: Context, admitted: Admitted) -> None:
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        query = decode_studies_request(data)
        page = await self._run(self._manager.page, query or StudyQuery(), None)
        counts = [_counts(one) for one in page.studies]
        if query is None:  # an older caller
            await context.write(encode_studies(counts[::-1]))
            return
        await context.write(encode_studies(counts, page.extent))

    async def _audit(self, context: Context, admitted: Admitted) -> None:
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        after, limit = decode_audit_request(data)
        await context.write(encode_audit(await self._run(self._page, after, limit)))

    async def _devices(self, context: Context, admitted: Admitted) -> None:
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        page = decode_devices_request(data)
        register = self._manager.register
        if page.device_id:
            found = [await self._run(register.show, page.device_id)]
        else:
            found = await self._run(register.devices, page.tags, page.after, page.limit)
        await context.write(encode_devices(found))

    def _page(self, after: int, limit: int) -> AuditPage:
        head = self._manager.audit.head()
        entries = self._manager.audit.entries(after, limit)
        return AuditPage(tuple(entries), 0 if head is None else head.number)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))


def _counts(study: StudyStatus) -> StudyProgress:
    return StudyProgress(
        study.digest,
        study.public_key,
        study.learner,
        study.state,
        study.round,
        study.asked,
        study.answered,
        study.reason,
    )
