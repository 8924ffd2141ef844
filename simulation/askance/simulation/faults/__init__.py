"""Faults: what goes wrong between devices and their aggregator, and what holds all the same.

`faults` says what happens to which exchange: by rates and a seed, or one by one; `mortality` is a
process that dies at a write; `unlucky` is a device over a real connection to which all this
happens; `invariants` is what must hold afterwards, however it went.

Theory of operation: a report is durable, charge and all, before it leaves; it is sent again, the
same bytes, until it is acknowledged; the aggregator acknowledges what is durable, and counts it
once. So whatever is lost, doubled, overtaken or killed, the round closes with everybody's report,
and the transcript is the one that it would have been.
"""

from askance.simulation.faults.faults import Fates, Fault, Faults, Script
from askance.simulation.faults.witness import Witness

__all__ = ["Fates", "Fault", "Faults", "Script", "Witness"]
