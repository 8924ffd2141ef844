"""A gateway's stream: members join, are asked together and deliver together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc

from askance_aggregator.exchange import (
    decode_batch,
)
from askance_aggregator.server.devices.admission import Admission, RelayCaller
from askance_aggregator.server.devices.calls import Context, read_message
from askance_aggregator.server.devices.certification import Proof
from askance_aggregator.server.devices.credentials import (
    read_credentials,
)
from askance_aggregator.server.devices.gateways import GatewayConnection
from askance_aggregator.server.devices.hub import Hub
from askance_aggregator.server.devices.settings import Settings
from askance_aggregator.server.devices.standings import LAST_WORDS
from askance_aggregator.store import EnrolledDevice
from askance_aggregator.store.register import DeviceState
from askance_client.service.gateway_exchange import Absence, Join, MemberReports


class Relay:
    """Serve gateways' streams for one hub.

    A member is present on the stream that it joined last, whether that is a gateway's or its own.
    What is wrong with one member is answered for that member: the others of its batch go on.
    """

    def __init__(self, hub: Hub, admission: Admission, settings: Settings) -> None:
        self._hub = hub
        self._admission = admission
        self._settings = settings
        self._standings = admission.standings
        self._streams: dict[GatewayConnection, int] = {}  # with the number of the gateway; 0: none

    def end_gateways(self, states: Mapping[int, DeviceState]) -> None:
        """End the streams of revoked gateways; their states are by number."""
        for connection, number in tuple(self._streams.items()):
            state = states.get(number, DeviceState.ACTIVE)
            if state is not DeviceState.ACTIVE:
                details = f"gateway: {LAST_WORDS[state]}"
                self._hub.end(connection, grpc.StatusCode.PERMISSION_DENIED, details)

    def change(self, settings: Settings) -> None:
        """Keep other limits from now on; streams that are open go on."""
        self._settings = settings

    async def serve(self, caller: RelayCaller, context: Context, prove: Proof) -> None:
        """Serve one stream of a proven caller until it ends; each message is proven again."""
        software = read_credentials(context.invocation_metadata()).software
        batch = decode_batch(await read_message(context, self._settings.first_message_s))
        connection = GatewayConnection(
            batch.known_studies, context.write, context.abort, caller.most_members
        )
        self._streams[connection] = caller.gateway
        try:
            while True:
                self._check(caller)
                connection.settled(batch.settled)
                await self._join(caller, connection, batch.joins, software)
                await self._deliver(connection, batch.reports)
                connection.flush()
                await connection.flushed()
                if not isinstance(data := await context.read(), bytes):
                    return
                await prove()
                batch = decode_batch(data)
        finally:
            del self._streams[connection]
            connection.drop()
            self._hub.disconnect(connection, connection.ordinals)
            await connection.last_written()

    def _check(self, caller: RelayCaller) -> None:
        """Refuse a message of a gateway, or of a device for itself, that may not take part."""
        if caller.gateway:
            self._standings.check_gateway(caller.gateway)
        else:
            self._standings.check_device(caller.ordinal)

    async def _join(
        self,
        caller: RelayCaller,
        connection: GatewayConnection,
        joins: Sequence[Join],
        software: str,
    ) -> None:
        if not joins:
            return
        devices = await self._admission.members(joins, software)
        admitted: list[tuple[int, int]] = []  # numbers and ordinals
        for join, device in zip(joins, devices, strict=True):
            absence = self._absence(caller, device, len(admitted))
            if absence is not None or device is None:
                reason = absence or Absence.UNKNOWN
                self._hub.disconnect(connection, connection.refuse(join.member, reason))
                continue
            connection.join(join.member, device.ordinal, device.token_digest)
            admitted.append((join.member, device.ordinal))
        sequences = await self._hub.acknowledged_sequences([ordinal for _, ordinal in admitted])
        connection.echo(zip((member for member, _ in admitted), sequences, strict=True))
        for _, ordinal in admitted:
            # A later entry of the batch, or a newer stream meanwhile, may have removed it: the hub
            # would ask a member that has no number.
            if connection.holds(ordinal):
                self._hub.connect(connection, ordinal)

    def _absence(
        self, caller: RelayCaller, device: EnrolledDevice | None, joining: int
    ) -> Absence | None:
        """Return why a member may not join; None if it may."""
        if device is None:
            return Absence.UNKNOWN
        if not caller.has(device):
            return Absence.OTHER_GATEWAY
        if self._hub.connected + joining >= self._settings.max_members:
            return Absence.OVERLOADED
        return None

    async def _deliver(
        self, connection: GatewayConnection, reports: Sequence[MemberReports]
    ) -> None:
        """Make a batch's reports durable together, and acknowledge them.

        The report of a round that is not asked now is not acknowledged: its member is asked again
        when the round is.
        """
        members: list[int] = []
        proven: list[tuple[int, tuple[bytes, ...]]] = []  # ordinals and reports
        for one in reports:
            ordinal = connection.proven(one.member, one.token)
            if ordinal is None or self._standings.bars(ordinal):
                self._hub.disconnect(connection, connection.refuse(one.member, Absence.UNKNOWN))
                continue
            members.append(one.member)
            proven.append((ordinal, one.reports))
        if not proven:
            return
        outcomes = await self._hub.deliver_messages(proven)
        connection.acknowledge(
            (member, digest, status)
            for member, found in zip(members, outcomes, strict=True)
            for digest, status in found
            if status is not None
        )
