"""The fleets by name, opened for the length of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from askance.aggregator.session import MemoryLog
from askance.client.errors import InvalidParameter
from askance.simulation.fleets.columns import ColumnFleet
from askance.simulation.fleets.devices import Devices
from askance.simulation.fleets.objects import ObjectFleet
from askance.simulation.fleets.opened import FleetMaker, OpenedFleet, Progress
from askance.simulation.fleets.threads import Threads


@contextmanager
def _objects(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    yield OpenedFleet(ObjectFleet(devices, progress), lambda study: MemoryLog())


@contextmanager
def _grpc(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    from askance.simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used

    with grpc_fleet(devices, progress) as opened:
        yield opened


def columns_by(workers: int | None) -> FleetMaker:
    """The columns fleet with so many threads; None: one a core.

    Raises:
      InvalidParameter: less than one.
    """
    threads = Threads(workers)

    @contextmanager
    def opened(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
        yield OpenedFleet(ColumnFleet(devices, progress, threads), lambda study: MemoryLog())

    return opened


WORKED: dict[str, Callable[[int | None], FleetMaker]] = {"columns": columns_by}
"""Fleets whose work is shared out, by the number of workers."""

FLEETS: dict[str, FleetMaker] = {
    "objects": _objects,
    "grpc": _grpc,
    **{name: by(None) for name, by in WORKED.items()},
}


def fleet_by(name: str, workers: int | None) -> FleetMaker:
    """A fleet by its name; `workers` changes how fast it answers, and nothing else.

    Raises:
      InvalidParameter: there is none of this name, or it has no workers to be told how many.
    """
    if name not in FLEETS:
        raise InvalidParameter(f"fleet: expected one of {', '.join(FLEETS)}, found {name!r}")
    if workers is None:
        return FLEETS[name]
    if name not in WORKED:
        raise InvalidParameter(
            f"workers: expected a fleet that has them ({', '.join(WORKED)}), found {name!r}"
        )
    return WORKED[name](workers)
