"""Fleets: the same devices, reached in different ways, with the same transcripts to the bit."""

from askance.simulation.fleets.columns import ColumnFleet
from askance.simulation.fleets.devices import Devices
from askance.simulation.fleets.fleets import FLEETS, WORKED, columns_by, fleet_by, kept_ready
from askance.simulation.fleets.objects import ObjectFleet
from askance.simulation.fleets.opened import FleetMaker, OpenedFleet, Progress
from askance.simulation.fleets.threads import Runner, Threads

__all__ = [
    "FLEETS",
    "WORKED",
    "ColumnFleet",
    "Devices",
    "FleetMaker",
    "ObjectFleet",
    "OpenedFleet",
    "Progress",
    "Runner",
    "Threads",
    "columns_by",
    "fleet_by",
    "kept_ready",
]
