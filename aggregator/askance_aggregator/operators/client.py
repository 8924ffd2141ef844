"""An operator's calls, over a connection of `analyst.connect`.

with connect("127.0.0.1:7443", key="ops.pem", ca=Path("ca.pem")) as aggregator:
    print(OperatorClient(aggregator).fleet().connected)
"""

from __future__ import annotations

from collections.abc import Sequence

from askance_aggregator.analyst import Aggregator, CallRefused
from askance_aggregator.analyst.listing import every_study
from askance_aggregator.operators import device_wire, fleet_wire, wire
from askance_aggregator.operators.calls import OperatorCall
from askance_aggregator.operators.device_wire import DevicesChange, DevicesPage
from askance_aggregator.operators.fleet_wire import FleetFigures
from askance_aggregator.operators.wire import AuditPage, CallerIdentity, StudyProgress
from askance_aggregator.store import ListedState, StudyList, StudyQuery
from askance_aggregator.store.audit import MAX_PAGE
from askance_aggregator.store.register import Affected, DeviceEntry, DeviceSelection


class OperatorClient:
    """Calls of an operator.

    Each raises `analyst.CallRefused` if the caller's role does not allow it.

    Args:
      aggregator: the connection, with the operator's key or token.
    """

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator

    def caller(self) -> CallerIdentity:
        """Return the caller's own name and role; every role may ask."""
        return wire.decode_caller(self._call(OperatorCall.CALLER))

    def fleet(self) -> FleetFigures:
        """Return the state of the fleet, as the process that answers sees it."""
        return fleet_wire.decode_fleet(self._call(OperatorCall.FLEET))

    def studies(
        self, state: ListedState | None = None, limit: int | None = None
    ) -> list[StudyProgress]:
        """Return the progress of all analysts' studies, the oldest first.

        Args:
          state: of the studies; None: any.
          limit: how many at most, the newest ones; None: all.
        """
        return every_study(self.studies_page, StudyQuery(state), limit)

    def studies_page(self, query: StudyQuery) -> StudyList[StudyProgress]:
        """Return the progress of a part of all analysts' studies, the newest first."""
        request = wire.encode_studies_request(query)
        return wire.decode_studies(self._call(OperatorCall.STUDIES, request))

    def audit(self, after: int = 0, limit: int = MAX_PAGE) -> AuditPage:
        """Return entries of the audit log, oldest first.

        Args:
          after: entries with greater numbers.
          limit: how many at most, 1 to 1,000.
        """
        request = wire.encode_audit_request(after, limit)
        return wire.decode_audit(self._call(OperatorCall.AUDIT, request))

    def devices(
        self, tags: Sequence[str] = (), after: int = -1, limit: int = 100
    ) -> list[DeviceEntry]:
        """Return devices by ordinal; the arguments are those of `store.register.Register`."""
        request = device_wire.encode_devices_request(DevicesPage(tuple(tags), after, limit))
        return device_wire.decode_devices(self._call(OperatorCall.DEVICES, request))

    def device(self, device_id: bytes) -> DeviceEntry:
        """Return a device of the register.

        Raises:
          CallRefused: the register has none of that id, or the aggregator is older than this call.
        """
        request = device_wire.encode_devices_request(DevicesPage((), -1, 1, device_id))
        found = device_wire.decode_devices(self._call(OperatorCall.DEVICES, request))
        if [one.device_id for one in found] != [device_id]:
            raise CallRefused("unknown-device", "device: expected an aggregator that finds ids")
        return found[0]

    def tag(
        self, selection: DeviceSelection, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Affected:
        """Give tags to devices and take tags from them; return how many were selected."""
        change = DevicesChange(selection, tuple(add), tuple(remove))
        return device_wire.decode_affected(
            self._call(OperatorCall.TAG_DEVICES, device_wire.encode_tagging(change))
        )

    def revoke(self, selection: DeviceSelection) -> Affected:
        """Exclude devices and gateways; those that were already do not count."""
        request = device_wire.encode_change(DevicesChange(selection))
        return device_wire.decode_affected(self._call(OperatorCall.REVOKE_DEVICES, request))

    def restore(self, selection: DeviceSelection) -> Affected:
        """Admit revoked devices and gateways again."""
        request = device_wire.encode_change(DevicesChange(selection))
        return device_wire.decode_affected(self._call(OperatorCall.RESTORE_DEVICES, request))

    def _call(self, call: OperatorCall, data: bytes = b"") -> bytes:
        return self._aggregator.unary(call, self._aggregator.subject, data)
