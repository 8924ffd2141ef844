"""Messages about devices between an operator's tool and an aggregator, as values and as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from askance_aggregator.analyst.wire import MAX_ANSWER_BYTES
from askance_aggregator.store.register import Affected, DeviceEntry, DeviceSelection, DeviceState
from askance_client.codec import parse
from askance_protos.v1 import operator_pb2 as pb

_MAX_ORDINAL = (1 << 63) - 1  # the store's integers end there


@dataclass(frozen=True, slots=True)
class DevicesPage:
    """Request for devices by ordinal.

    Args:
      tags: that a device has, all of them.
      after: the ordinals listed are above; -1: all.
      limit: devices at most, 1 to 10,000; the store checks it.
      device_id: of the one device that is wanted, whatever the rest says; empty: as the rest says.
    """

    tags: tuple[str, ...]
    after: int
    limit: int
    device_id: bytes = b""


@dataclass(frozen=True, slots=True)
class DevicesChange:
    """Change of devices: those that are selected, and the tags to add and to remove."""

    selection: DeviceSelection
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def text(self) -> str:
        """Describe the selection for the audit log, without a device's id."""
        if self.selection.tags:
            return f"devices with tags {' '.join(self.selection.tags)}"
        return f"devices: {len(self.selection.ids)} by id"


def encode_devices_request(page: DevicesPage) -> bytes:
    """Encode the request for a page of devices."""
    return pb.DevicesRequest(
        tags=page.tags, start=page.after + 1, limit=page.limit, device_id=page.device_id
    ).SerializeToString(deterministic=True)


def decode_devices_request(data: bytes) -> DevicesPage:
    """Decode the request for a page of devices."""
    found = parse(pb.DevicesRequest, data)
    return DevicesPage(
        tuple(found.tags), min(found.start, _MAX_ORDINAL) - 1, found.limit, found.device_id
    )


def encode_devices(devices: Sequence[DeviceEntry]) -> bytes:
    """Encode devices in the register."""
    return pb.DevicesResponse(
        devices=[
            pb.DeviceEntry(
                device_id=one.device_id,
                ordinal=one.ordinal,
                revoked=one.state is DeviceState.REVOKED,
                tags=one.tags,
                gateway=one.gateway,
                enrolled_day=one.enrolled_day or 0,
                seen_day=one.seen_day or 0,
                software=one.software,
            )
            for one in devices
        ]
    ).SerializeToString(deterministic=True)


def decode_devices(data: bytes) -> list[DeviceEntry]:
    """Decode devices in the register."""
    message = parse(pb.DevicesResponse, data, limit=MAX_ANSWER_BYTES)
    return [
        DeviceEntry(
            one.device_id,
            one.ordinal,
            DeviceState.REVOKED if one.revoked else DeviceState.ACTIVE,
            tuple(one.tags),
            one.gateway,
            one.enrolled_day or None,
            one.seen_day or None,
            one.software,
        )
        for one in message.devices
    ]


def encode_tagging(change: DevicesChange) -> bytes:
    """Encode a change of devices' tags."""
    return pb.TagDevicesRequest(
        selection=_selection(change.selection), add=change.add, remove=change.remove
    ).SerializeToString(deterministic=True)


def decode_tagging(data: bytes) -> DevicesChange:
    """Decode a change of devices' tags.

    Raises:
      InvalidParameter: no selection.
    """
    found = parse(pb.TagDevicesRequest, data)
    return DevicesChange(_selected(found.selection), tuple(found.add), tuple(found.remove))


def encode_change(change: DevicesChange) -> bytes:
    """Encode a revocation or a restoration of devices."""
    return pb.ChangeDevicesRequest(selection=_selection(change.selection)).SerializeToString(
        deterministic=True
    )


def decode_change(data: bytes) -> DevicesChange:
    """Decode a revocation or a restoration of devices.

    Raises:
      InvalidParameter: no selection.
    """
    return DevicesChange(_selected(parse(pb.ChangeDevicesRequest, data).selection))


def encode_affected(affected: Affected) -> bytes:
    """Encode how many devices and gateways a change was about."""
    return pb.ChangeDevicesResponse(
        devices=affected.devices, gateways=affected.gateways
    ).SerializeToString(deterministic=True)


def decode_affected(data: bytes) -> Affected:
    """Decode how many devices and gateways a change was about."""
    found = parse(pb.ChangeDevicesResponse, data)
    return Affected(found.devices, found.gateways)


def _selection(selection: DeviceSelection) -> pb.DeviceSelection:
    return pb.DeviceSelection(ids=selection.ids, tags=selection.tags)


def _selected(found: pb.DeviceSelection) -> DeviceSelection:
    return DeviceSelection(tuple(found.ids), tuple(found.tags))
