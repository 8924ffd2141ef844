"""Silent devices: by their last call, and by what they owe to rounds, by tag, with an export.

Counts alone: no page of it names a device, or has a value that one holds or has answered.
"""

from __future__ import annotations

from starlette.responses import Response

from askance.console.routes import ConsoleRoute, Visit

_CALLS = ("Operators/Silence",)


async def _silence(visit: Visit) -> Response:
    found = await visit.call(visit.link.operator.silence)
    return await visit.page("silence.html", found=found)


async def _export(visit: Visit) -> Response:
    found = await visit.call(visit.link.operator.silence)
    headers = {"Content-Disposition": 'attachment; filename="silence.csv"'}
    return Response(found.to_csv(), headers=headers, media_type="text/csv; charset=utf-8")


ROUTES = (
    ConsoleRoute("/silence", _silence, _CALLS, "Silence", is_listed=True),
    ConsoleRoute("/silence.csv", _export, _CALLS, "Silence"),
)
