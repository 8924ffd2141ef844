"""Deployments on paper and by simulation: sizes from measured figures, and waits of check-ins."""

from askance_simulation.deployments.queueing import (
    DayOfWaits,
    fifo_waits,
    poisson_arrivals,
    simulate_day,
)
from askance_simulation.deployments.sizing import (
    DeploymentLoad,
    DeploymentSize,
    figures,
    parse_load,
    size_of,
)
from askance_simulation.deployments.study import DeploymentReport, report_of

__all__ = [
    "DayOfWaits",
    "DeploymentLoad",
    "DeploymentReport",
    "DeploymentSize",
    "fifo_waits",
    "figures",
    "parse_load",
    "poisson_arrivals",
    "report_of",
    "simulate_day",
    "size_of",
]
