"""Behaviour: how simulated devices differ from ones that are always there and honest.

Faults between devices and their aggregator, and the invariants that hold under them.

`faults` assigns faults to exchanges, by rates and a seed, or one by one; `unlucky` is a device over
a real connection with these faults, whose process may die at a write; a `FaultRecorder` notes the
faults that took effect; `invariants` checks what must hold after any of them. `misbehaviour` is
devices that stay away or lie, by one of `ATTACKS`; `Behaviour` is their interface to a fleet.

Theory of operation: a report is durable, charge and all, before it leaves; it is sent again, the
same bytes, until it is acknowledged; the aggregator acknowledges what is durable, and counts it
once. So whatever is lost, doubled, overtaken or killed, the round closes with all users' reports,
and the transcript is the one that it would have been.
"""

from askance_simulation.disturbances.faults import Fates, Fault, FaultRecorder, Faults, Script
from askance_simulation.disturbances.misbehaviour import (
    ATTACKS,
    PRESENT_AND_HONEST,
    Behaviour,
    Misbehaving,
    Misbehaviour,
)

__all__ = [
    "ATTACKS",
    "PRESENT_AND_HONEST",
    "Behaviour",
    "Fates",
    "Fault",
    "FaultRecorder",
    "Faults",
    "Misbehaving",
    "Misbehaviour",
    "Script",
]
