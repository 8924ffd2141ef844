"""Overview: the fleet now, its rates, the rounds that are open, failures, and costs of studies.

Counts alone: no estimate of a round is read for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from starlette.responses import Response

from askance.console.charts.axes import ChartBar, Series, bar_chart, line_chart
from askance.console.formats import nats_text
from askance.console.history import SPAN_S, FleetRate
from askance.console.live import live_response
from askance.console.routes import ConsoleRoute, Visit
from askance_protos.v1.operator_pb2 import CostBin, FleetResponse

_CALLS = ("Operators/Fleet",)
_SOON_S = 30 * 86_400  # before its end, a certificate is shown as a warning; the last week as bad
_NOW_S = 7 * 86_400
_CHARTS = 4  # of each kind that are kept
_TABLE_ROWS = 15  # of the table of rates: the last minute


async def _overview(visit: Visit) -> Response:
    return await visit.page("overview.html", regions=await _regions(visit))


async def _live(visit: Visit) -> Response:
    return live_response(visit, lambda: _regions(visit))


async def _regions(visit: Visit) -> Mapping[str, str]:
    """Return the live parts of the page by their ids."""
    history = visit.console.caller_of(visit.session).history
    fleet = await history.read()
    rates, now_s = history.rates(), float(int(history.clock_s()))
    return {
        "fleet": visit.fragment(
            "overview_fleet.html",
            fleet=fleet,
            rate=rates[-1] if rates else None,
            tone=_certificate_tone(fleet),
        ),
        "rounds": visit.fragment("overview_rounds.html", fleet=fleet),
        "rates": visit.fragment(
            "overview_rates.html",
            rates=rates[-_TABLE_ROWS:],
            chart=_rates_chart(tuple(rates), now_s),
            now_s=now_s,
        ),
        "costs": visit.fragment(
            "overview_costs.html",
            fleet=fleet,
            bars=cost_bars(fleet.costs),
            chart=_costs(tuple(cost_bars(fleet.costs))),
        ),
        "webhooks": visit.fragment("overview_webhooks.html", fleet=fleet),
        "failures": visit.fragment("overview_failures.html", fleet=fleet),
    }


def _certificate_tone(fleet: FleetResponse) -> str:
    left_s = fleet.certificate_ends_unix_s - fleet.now_unix_s
    if not fleet.certificate_ends_unix_s or left_s > _SOON_S:
        return ""
    return "warn" if left_s > _NOW_S else "bad"


# Charts are drawn again when their numbers have changed, and not at each look of a live page.
@lru_cache(_CHARTS)
def _rates_chart(rates: tuple[FleetRate, ...], now_s: float) -> str:
    if len(rates) < 2:
        return ""
    return line_chart(
        "Reports and check-ins per second over the last minutes",
        (
            Series("reports", [(now_s - one.at_s, one.reports) for one in rates]),
            Series("check-ins", [(now_s - one.at_s, one.check_ins) for one in rates]),
        ),
        SPAN_S,
    )


def cost_bars(costs: Sequence[CostBin]) -> list[ChartBar]:
    """Return ended studies by the nats that each asked of a user, as bars in rising order."""
    if not costs:
        return []
    first = ChartBar(f"< {nats_text(costs[0].below_nano_nats)}", costs[0].studies, "0")
    bars = [first]
    for before, one in pairwise(costs):
        low, high = nats_text(before.below_nano_nats), nats_text(one.below_nano_nats)
        label = f"{low}–{high}" if one.below_nano_nats else f"≥ {low}"
        bars.append(ChartBar(label, one.studies, low))
    return bars


@lru_cache(_CHARTS)
def _costs(bars: tuple[ChartBar, ...]) -> str:
    if not any(bar.value for bar in bars):
        return ""
    return bar_chart("Ended studies by cost per user", bars, "nats asked of a user, from")


ROUTES = (
    ConsoleRoute("/", _overview, _CALLS, "Overview", is_listed=True),
    ConsoleRoute("/live/overview", _live, _CALLS, "Overview"),
)
