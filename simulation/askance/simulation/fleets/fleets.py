"""The fleets by name, opened for the length of a study."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from askance.aggregator.session import MemoryLog
from askance.simulation.fleets.columns import ColumnFleet
from askance.simulation.fleets.devices import Devices
from askance.simulation.fleets.objects import ObjectFleet
from askance.simulation.fleets.opened import FleetMaker, OpenedFleet, Progress


@contextmanager
def _objects(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    yield OpenedFleet(ObjectFleet(devices, progress), lambda study: MemoryLog())


@contextmanager
def _grpc(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    from askance.simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used

    with grpc_fleet(devices, progress) as opened:
        yield opened


@contextmanager
def _columns(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    yield OpenedFleet(ColumnFleet(devices, progress), lambda study: MemoryLog())


FLEETS: dict[str, FleetMaker] = {"objects": _objects, "grpc": _grpc, "columns": _columns}
