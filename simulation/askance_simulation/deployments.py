"""Deployments on paper and by simulation: sizes from measured figures, and waits of check-ins.

A replica is one process whose event loop has one core. Replicas are chosen so that the busiest hour
keeps them at most `LOAD` busy, with one of them down.

`fifo_waits` is exact, event by event: customers with equal service times are served by c servers in
turn, so each server's waits follow Lindley's recursion, which is a running maximum. `simulate_day`
is a fluid in slots of one second, whose arrivals are drawn: work within a slot is served evenly, so
waits below a slot's length are not seen in it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text

Floats = NDArray[np.float64]
SLOT_S = 1.0
_DELAYS_S = (1, 2, 4, 8, 16, 32, 64)  # bounds of the first waits before a retry, doubling


@dataclass(frozen=True, slots=True)
class DayOfWaits:
    """Waits of one day, by slots."""

    queue: Floats  # check-ins that wait at the end of each slot
    waits_s: Floats  # of a check-in that arrives in each slot
    arrivals: Floats  # check-ins that were admitted in each slot
    turned_away: float  # calls that were refused and tried again, each refusal counted

    def percentile_s(self, share: float) -> float:
        """Return the wait that a share of admitted check-ins does not pass."""
        order = np.argsort(self.waits_s)
        reached = np.cumsum(self.arrivals[order])
        place = int(np.searchsorted(reached, share * reached[-1]))
        return float(self.waits_s[order][min(place, len(order) - 1)])


def fifo_waits(arrivals_s: Floats, service_s: float, servers: int) -> Floats:
    """Compute the wait of each customer before its service begins.

    Args:
      arrivals_s: times of arrival, ascending.
      service_s: of every customer; > 0.
      servers: number of servers, 1 or more; first come, first served.

    Source: Lindley 1952; with equal service times customer n follows customer n - c.
    """
    if service_s <= 0 or servers < 1:
        raise InvalidParameter(
            f"queue: expected servers and a service time, got {servers} and {service_s:g} s"
        )
    count = len(arrivals_s)
    width = max(min(servers, count), 1)  # more servers would have no customers
    rows = -(-count // width)
    filled = np.zeros(rows * width)
    filled[:count] = arrivals_s
    own = filled.reshape(rows, width)  # one column per server; zeros after its last customer
    served = service_s * np.arange(rows)[:, np.newaxis]
    begins = served + np.maximum.accumulate(own - served, axis=0)
    waits: Floats = np.maximum(begins - own, 0.0)  # rounded, one may be below 0
    return waits.ravel()[:count]


def poisson_arrivals(rate: float, count: int, random: np.random.Generator) -> Floats:
    """Draw the times of a number of arrivals at a rate per second."""
    return np.cumsum(random.exponential(1.0 / rate, count))


def simulate_day(
    rate: Callable[[Floats], Floats],
    capacity: Callable[[Floats], Floats],
    *,
    queue_limit: float,
    slots: int,
    random: np.random.Generator,
) -> DayOfWaits:
    """Simulate check-ins over a day with retries of those that are turned away.

    A check-in that finds the queue full is tried again after a random wait of at most 1 s, then 2,
    4, up to 64 s, as devices do; it is never given up.

    Args:
      rate: arrivals per second at times in seconds from the day's begin.
      capacity: check-ins that all replicas serve per second at those times.
      queue_limit: check-ins that may wait at one time.
      slots: number of slots of 1 s.
      random: source of the arrivals.

    Returns:
      The waits of the day. Error: the draws of n arrivals vary by 1 / sqrt(n) of themselves; waits
      are the fluid's, so those below 1 s are understated.
    """
    times: Floats = np.arange(slots, dtype=np.float64) * np.float64(SLOT_S)
    fresh = random.poisson(rate(times) * SLOT_S).astype(np.float64)
    served = capacity(times) * SLOT_S
    pending = np.zeros((len(_DELAYS_S), slots + 2 * _DELAYS_S[-1]))
    queue, waits, admitted = np.zeros(slots), np.zeros(slots), np.zeros(slots)
    waiting = away = 0.0
    for slot in range(slots):
        coming = np.concatenate(([fresh[slot]], pending[:, slot]))
        total = float(coming.sum())
        room = max(queue_limit - waiting + served[slot], 0.0)
        taken = min(total, room)
        if total > taken:
            _try_again(pending, coming * (1 - taken / total), slot)
            away += total - taken
        waits[slot] = waiting / served[slot] * SLOT_S if served[slot] else SLOT_S
        waiting = max(waiting + taken - served[slot], 0.0)
        queue[slot], admitted[slot] = waiting, taken
    return DayOfWaits(queue, waits, admitted, away)


def _try_again(pending: Floats, refused: Floats, slot: int) -> None:
    """Spread refused calls over their waits, each a random time up to its bound."""
    last = len(_DELAYS_S) - 1
    for tries, calls in enumerate(refused):
        if calls > 0:
            step = min(tries, last)
            delay = _DELAYS_S[step]
            pending[step, slot + 1 : slot + 1 + delay] += calls / delay


LOAD = 0.6
"""Share of its core that a replica may use in the busiest hour, with another one down."""
_DAY_S = 86_400
_HOURS_PER_MONTH = 730
_RANGES = {
    "devices": (1.0, 1e11),
    "checkins_per_day": (1e-9, 86_400.0),  # one a second
    "reports": (0.0, 86_400.0),
    "peak": (1.0, 24.0),  # all of the day in an hour
    "kept_days": (1e-9, 36_525.0),
}
"""Least and greatest value of each part of a load."""


@dataclass(frozen=True, slots=True)
class DeploymentLoad:
    """Load that devices put on an aggregator.

    Args:
      devices: number of enrolled devices, 1 to 1e11.
      checkins_per_day: of each device; > 0, at most 86,400.
      reports: of each device per day; 0 to 86,400.
      peak: the busiest hour's rate over the day's mean; 1 to 24.
      kept_days: days for which single reports are kept; > 0, at most 36,525.
      core_cost: of one core per hour.
      disk_cost: of one gigabyte per month.
    """

    devices: float
    checkins_per_day: float = 4.0
    reports: float = 1.0
    peak: float = 3.0
    kept_days: float = 30.0
    core_cost: float = -1.0
    disk_cost: float = -1.0

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value > most:
                raise InvalidParameter(
                    f"--deployment {name}: expected at most {most:g}, got {value:g}"
                )
            if not value >= least:  # not a number is refused too
                raise InvalidParameter(
                    f"--deployment {name}: expected {least:g} or more, got {value:g}"
                )

    @property
    def check_ins_per_s(self) -> float:
        """Check-ins per second, the day's mean."""
        return self.devices * self.checkins_per_day / _DAY_S

    @property
    def service_s(self) -> float:
        """Mean seconds of one core per check-in, its reports included."""
        return figure("check_in") + figure("report") * self.reports / self.checkins_per_day


@dataclass(frozen=True, slots=True)
class DeploymentSize:
    """Size of what a load needs; rates are per second."""

    check_ins: float
    busiest_check_ins: float
    busy_cores: float
    replicas: int
    database_bytes: float
    wal_bytes: float
    wire_bytes: float
    cost_per_month: float

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return asdict(self)


def parse_load(text: str) -> DeploymentLoad:
    """Parse "devices=1e8,checkins_per_day=4,reports=1"."""
    known = [one.name for one in fields(DeploymentLoad)]
    given: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidParameter(f"--deployment: expected NAME=NUMBER, got {value_text(part)}")
        if name not in known:
            raise InvalidParameter(f"--deployment: {unknown_text(name, known)}")
        if name in given:
            raise InvalidParameter(f"--deployment: expected each name once, got {name} twice")
        try:
            given[name] = float(value)
        except ValueError:
            raise InvalidParameter(
                f"--deployment {name}: expected a number, got {value_text(value)}"
            ) from None
    if "devices" not in given:
        raise InvalidParameter("--deployment: expected devices=NUMBER, got none")
    return DeploymentLoad(**given)


def size_of(load: DeploymentLoad) -> DeploymentSize:
    """Compute what a load needs from the measured figures."""
    busiest = load.check_ins_per_s * load.peak
    busy = busiest * load.service_s
    replicas = math.ceil(busy / LOAD) + 1  # one may be down
    stored_per_s = load.devices * load.reports / _DAY_S
    database = load.devices * (
        figure("device_bytes") + figure("report_bytes") * load.reports * load.kept_days
    )
    wire = load.check_ins_per_s * figure("check_in_bytes")
    core = load.core_cost if load.core_cost >= 0 else figure("core_hour_cost")
    disk = load.disk_cost if load.disk_cost >= 0 else figure("gigabyte_month_cost")
    return DeploymentSize(
        check_ins=load.check_ins_per_s,
        busiest_check_ins=busiest,
        busy_cores=busy,
        replicas=replicas,
        database_bytes=database,
        wal_bytes=stored_per_s * figure("report_wal_bytes"),
        wire_bytes=wire + stored_per_s * figure("report_wire_bytes"),
        cost_per_month=replicas * core * _HOURS_PER_MONTH + database / 1e9 * disk,
    )


def figure(name: str) -> float:
    """Return a measured figure by its name in `deployment_figures.toml`."""
    return float(figures()[name]["value"])


@cache
def figures() -> Mapping[str, Mapping[str, Any]]:
    """Return all figures with their units and sources."""
    text = files(__package__).joinpath("deployment_figures.toml").read_text("utf-8")
    return tomllib.loads(text)


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
