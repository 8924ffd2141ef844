"""Readings of the fleet in the last minutes, from which rates are computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from askance.console.link import AggregatorLink, RecentValue
from askance_protos.v1.operator_pb2 import FleetResponse

SPAN_S = 240  # of the chart of rates
STEP_S = 4  # between two points of it, and the least time of a rate
_FRESH_S = 0.2  # pages that look at the same time share a reading; less than `live.EVERY_S`


@dataclass(frozen=True, slots=True)
class FleetReading:
    """Figures, and the time on the console's clock at which they came."""

    at_s: float
    figures: FleetResponse


@dataclass(frozen=True, slots=True)
class FleetRate:
    """Rates per second up to a time on the console's clock."""

    at_s: float
    reports: float
    check_ins: float


class FleetHistory:
    """The newest figures, and the rates of the last minutes while a page asked for them."""

    def __init__(self, link: AggregatorLink, clock_s: Callable[[], float]) -> None:
        self._link = link
        self.clock_s = clock_s
        self._recent: RecentValue[FleetResponse] = RecentValue(_FRESH_S, clock_s)
        self._base: FleetReading | None = None
        self._rates: deque[FleetRate] = deque(maxlen=SPAN_S // STEP_S + 1)

    async def read(self) -> FleetResponse:
        """Return the present figures."""
        return await self._recent.get(self._reading())

    def rates(self) -> list[FleetRate]:
        """Return the rates of the last minutes, the oldest first."""
        first_s = self.clock_s() - SPAN_S
        return [rate for rate in self._rates if rate.at_s >= first_s]

    def _reading(self) -> Callable[[], Awaitable[FleetResponse]]:
        async def read() -> FleetResponse:
            found = await self._link.call(self._link.operator.fleet)
            self.note(FleetReading(self.clock_s(), found))
            return found

        return read

    def note(self, reading: FleetReading) -> None:
        """Add a reading; a rate is over `STEP_S` seconds or some more, of the same processes."""
        base = self._base
        if base is None or not _common(base, reading):
            self._base = reading
            return
        seconds = reading.at_s - base.at_s
        if seconds > 3 * STEP_S:  # no page asked meanwhile, and its mean is no present rate
            self._base = reading
            return
        if seconds >= STEP_S:
            self._rates.append(_rate(base, reading))
            self._base = reading


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts of a process, and the time on the console's clock at which it counted."""

    at_s: float
    reports: int
    check_ins: int


def _counted(reading: FleetReading) -> dict[str, _Counted]:
    """Return the counts of the processes that serve, by name."""
    figures = reading.figures
    if not figures.replicas:  # of an older aggregator: its own alone, since it started
        own = _Counted(reading.at_s, figures.reports, figures.check_ins)
        return {str(figures.started_unix_s): own}
    return {
        one.name: _Counted(reading.at_s - one.seen_s, one.reports, one.check_ins)
        for one in figures.replicas
        if one.counted
    }


def _common(base: FleetReading, reading: FleetReading) -> bool:
    """Return whether a process is in both readings."""
    return not _counted(base).keys().isdisjoint(_counted(reading))


def _rate(base: FleetReading, reading: FleetReading) -> FleetRate:
    """Return the sum of the processes' rates, each between the times at which it counted."""
    reports = check_ins = 0.0
    before = _counted(base)
    for name, now in _counted(reading).items():
        then = before.get(name)
        if then is None or then.at_s >= now.at_s or then.reports > now.reports:
            continue  # new, without news, or started again
        seconds = now.at_s - then.at_s
        reports += (now.reports - then.reports) / seconds
        check_ins += max(now.check_ins - then.check_ins, 0) / seconds
    return FleetRate(reading.at_s, reports, check_ins)
