"""Report on a deployment: its size, and waits on an ordinary day and with a replica down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from askance_simulation.deployments.queueing import (
    DayOfWaits,
    Floats,
    fifo_waits,
    poisson_arrivals,
    simulate_day,
)
from askance_simulation.deployments.sizing import DeploymentLoad, DeploymentSize, size_of

_DAY_S, _HOUR_S = 86_400, 3_600
_SAMPLED = 400_000  # check-ins of the busiest hour that are simulated one by one
_WAITING_PER_REPLICA = 1_000  # check-ins that a replica lets wait, as `check_ins` of [limits]
_DOWN_S = (12 * _HOUR_S, 12 * _HOUR_S + 600)  # a replica is down for ten minutes at the peak
_WAVE_MEAN = 70 / 256  # of ((1 - cos) / 2)^4 over a day
_BURST_S = (12 * _HOUR_S + 240, 12 * _HOUR_S + 300)
_BURST = 5.0  # times the rate meanwhile, as after an outage of a network


@dataclass(frozen=True, slots=True)
class DeploymentReport:
    """Size of a deployment, and its waits.

    Args:
      busiest: waits in the busiest hour, in seconds, event by event.
      day: a day with a replica down for ten minutes at 12:00, and a burst meanwhile.
    """

    size: DeploymentSize
    busiest: Floats
    day: DayOfWaits

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; times in seconds."""
        return {
            **self.size.to_json(),
            "busiest_hour": {
                "mean_wait_s": float(self.busiest.mean()),
                "p99_wait_s": float(np.quantile(self.busiest, 0.99)),
            },
            "day": {
                "longest_queue": float(self.day.queue.max()),
                "p99_wait_s": self.day.percentile_s(0.99),
                "turned_away": self.day.turned_away,
            },
        }


def report_of(load: DeploymentLoad, random: np.random.Generator) -> DeploymentReport:
    """Size a deployment and simulate it."""
    size = size_of(load)
    arrivals = poisson_arrivals(size.busiest_check_ins, _SAMPLED, random)
    busiest = fifo_waits(arrivals, load.service_s, size.replicas)

    night = max((1 - _WAVE_MEAN * load.peak) / (1 - _WAVE_MEAN), 0.0)  # the day's mean stays 1

    def rate(times_s: Floats) -> Floats:
        wave = 1 - np.cos(2 * math.pi * times_s / _DAY_S)  # from 0 at midnight to 2 at noon
        shape = night + (load.peak - night) * (wave / 2) ** 4
        level = shape * load.check_ins_per_s
        burst = (times_s >= _BURST_S[0]) & (times_s < _BURST_S[1])
        return np.where(burst, _BURST * level, level)

    def capacity(times_s: Floats) -> Floats:
        down = (times_s >= _DOWN_S[0]) & (times_s < _DOWN_S[1])
        return (size.replicas - down) / load.service_s

    limit = _WAITING_PER_REPLICA * size.replicas
    day = simulate_day(rate, capacity, queue_limit=limit, slots=_DAY_S, random=random)
    return DeploymentReport(size, busiest, day)
