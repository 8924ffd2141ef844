"""The fleets by name, opened for the length of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from askance_aggregator.names import unknown_name
from askance_aggregator.studies import MemoryLog
from askance_client.errors import InvalidParameter
from askance_simulation.fleets.columns import ColumnFleet
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.objects import ObjectFleet
from askance_simulation.fleets.opened import FleetMaker, OpenedFleet, Progress
from askance_simulation.fleets.threads import Threads, check_workers
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed


@contextmanager
def _objects(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    yield OpenedFleet(ObjectFleet(devices, progress), lambda study: MemoryLog())


@contextmanager
def _grpc(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    from askance_simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used

    with grpc_fleet(devices, progress) as opened:
        yield opened


@contextmanager
def _grpc_streams(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    from askance_simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used
    from askance_simulation.fleets.streams import StreamPerDevice

    with grpc_fleet(devices, progress, streams=StreamPerDevice) as opened:
        yield opened


def columns_by(workers: int | None, expected: int = 0) -> FleetMaker:
    """Make the columns fleet with that many threads; None: one per core.

    `expected` is the number of users of all trials that are to come (see `ColumnFleet`).
    """
    threads = Threads(workers)

    @contextmanager
    def opened(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
        fleet = ColumnFleet(devices, progress, threads, expected)
        yield OpenedFleet(fleet, lambda study: MemoryLog())

    return opened


def ray_by(workers: int | None, expected: int = 0) -> FleetMaker:
    """Make the columns fleet with that many concurrent tasks of Ray; None: one per core.

    `expected` is as of `columns_by`; each worker meets its part of these users.
    """
    check_workers(workers)

    @contextmanager
    def opened(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
        from askance_simulation.fleets.cluster import joined  # Ray is imported when it is used
        from askance_simulation.fleets.shards import Shards

        with joined(workers) as at_once:
            fleet = ColumnFleet(devices, progress, Shards(at_once), expected // at_once)
            yield OpenedFleet(fleet, lambda study: MemoryLog())

    return opened


WORKED: dict[str, Callable[[int | None, int], FleetMaker]] = {"columns": columns_by, "ray": ray_by}
"""Fleets whose work is shared out, by the number of workers and of users to come."""

FLEETS: dict[str, FleetMaker] = {
    "objects": _objects,
    "grpc": _grpc,
    "grpc-streams": _grpc_streams,
    **{name: by(None, 0) for name, by in WORKED.items()},
}


@contextmanager
def _tally(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
    from askance_simulation.fleets.tally import DRAWN, TallyFleet

    yield OpenedFleet(TallyFleet(devices, progress), lambda study: MemoryLog(), DRAWN)


LAWS: dict[str, FleetMaker] = {"tally": _tally}
"""Fleets that draw tallies from their law: equal to those of FLEETS in law, and not to the bit."""


def prepared(fleet: object, population: Population, seed: Seed) -> Population:
    """Return the population as a fleet asks it: one of LAWS by the numbers of its records."""
    return population.by_types(seed) if fleet in LAWS else population


def fleet_by(name: str, workers: int | None, expected: int = 0) -> FleetMaker:
    """Return a fleet by its name; `workers` and `expected` change its speed, and nothing else."""
    known = FLEETS | LAWS
    if name not in known:
        raise unknown_name("fleet", name, known)
    if name in WORKED:
        return WORKED[name](workers, expected)
    if workers is not None:
        raise InvalidParameter(
            f"workers: expected a fleet that has them ({', '.join(WORKED)}), got {name!r}"
        )
    return known[name]


def kept_ready(
    name: str, workers: int | None, cluster: str | None
) -> AbstractContextManager[int | None]:
    """Keep a fleet's machines ready for the length of a block, which may open the fleet many times.

    The manager yields the number of concurrent tasks of a fleet on Ray, and None for other fleets.

    Args:
      name: the fleet's name.
      workers: as of `fleet_by`.
      cluster: the address of the Ray that "ray" joins (see `cluster.joined`); None: it starts one.
    """
    if name != "ray":
        if cluster is not None:
            raise InvalidParameter(f"cluster: expected the fleet 'ray', got {name!r}")
        return nullcontext()
    from askance_simulation.fleets.cluster import joined  # Ray is imported when it is used

    return joined(workers, cluster)
