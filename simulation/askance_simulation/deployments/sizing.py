"""Size of a deployment: replicas, database, write-ahead log, bandwidth and cost.

A replica is one process whose event loop has one core. Replicas are chosen so that the busiest hour
keeps them at most `LOAD` busy, with one of them down.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text

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
    """Parse "devices=1e8,checkins_per_day=4,reports=1".

    Raises:
      InvalidParameter: another form, an unknown name, a name twice, or no number of devices.
    """
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
    """Return a measured figure by its name in `figures.toml`."""
    return float(figures()[name]["value"])


@cache
def figures() -> Mapping[str, Mapping[str, Any]]:
    """Return all figures with their units and sources."""
    text = files(__package__).joinpath("figures.toml").read_text("utf-8")
    return tomllib.loads(text)
