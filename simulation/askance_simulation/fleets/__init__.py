"""Fleets: the same devices, reached in different ways, with the same transcripts to the bit."""

from askance_simulation.fleets.columns import ColumnFleet
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.fleets import FLEETS, LAWS, WORKED, fleet_by, kept_ready, prepared
from askance_simulation.fleets.objects import ObjectFleet
from askance_simulation.fleets.opened import FleetMaker, OpenedFleet, Progress
from askance_simulation.fleets.threads import Threads

__all__ = [
    "FLEETS",
    "LAWS",
    "WORKED",
    "ColumnFleet",
    "Devices",
    "FleetMaker",
    "ObjectFleet",
    "OpenedFleet",
    "Progress",
    "Threads",
    "fleet_by",
    "kept_ready",
    "prepared",
]
