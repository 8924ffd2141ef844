"""The fleets by name, opened for the length of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from askance.aggregator.session import Fleet
from askance.simulation.fleets.devices import Devices
from askance.simulation.fleets.objects import ObjectFleet

Progress = Callable[[int], None]
FleetMaker = Callable[[Devices, Progress | None], AbstractContextManager[Fleet]]


@contextmanager
def _objects(devices: Devices, progress: Progress | None) -> Iterator[Fleet]:
    yield ObjectFleet(devices, progress)


@contextmanager
def _grpc(devices: Devices, progress: Progress | None) -> Iterator[Fleet]:
    from askance.simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used

    with grpc_fleet(devices, progress) as fleet:
        yield fleet


FLEETS: dict[str, FleetMaker] = {"objects": _objects, "grpc": _grpc}
