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
        """Add a reading; a rate is over `STEP_S` seconds or some more of one process."""
        base = self._base
        if base is None or base.figures.started_unix_s != reading.figures.started_unix_s:
            self._base = reading
            return
        seconds = reading.at_s - base.at_s
        if seconds > 3 * STEP_S:  # no page asked meanwhile, and its mean is no present rate
            self._base = reading
            return
        if seconds >= STEP_S:
            reports = reading.figures.reports - base.figures.reports
            check_ins = reading.figures.check_ins - base.figures.check_ins
            self._rates.append(FleetRate(reading.at_s, reports / seconds, check_ins / seconds))
            self._base = reading
