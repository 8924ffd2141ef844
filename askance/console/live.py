"""Live parts of a page: regions that a script of ours replaces when the server sends them anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from askance.console.routes import Visit
from askance_client.errors import AskanceError

MAX_STREAMS = 32  # live pages at one time, of all browsers of one caller
_MOST_STREAMS = 128  # of all callers
# Between two looks. All pages of a console look at the same times, the multiples of it, so that a
# reading that one of them makes is new for the others too, and no page waits for a second period.
EVERY_S = 0.4
_ALIVE_LOOKS = 40  # looks without a change, after which a comment keeps the connection

Regions = Callable[[], Awaitable[Mapping[str, str]]]
"""Return the HTML of a page's regions by their ids, with everything in it escaped."""


def _never() -> bool:
    return False


def live_response(
    visit: Visit, regions: Regions, has_ended: Callable[[], bool] = _never
) -> Response:
    """Return a stream of server-sent events: the regions that have changed, as one JSON object.

    The stream ends with the session, or with an event "done" when nothing changes any more. While
    the aggregator is away it sends {"problem": TEXT}.
    """
    console, caller = visit.console, visit.console.caller_of(visit.session)
    if caller.live_pages >= MAX_STREAMS or console.live_pages >= _MOST_STREAMS:
        raise HTTPException(503, f"live: expected at most {MAX_STREAMS} pages at one time")
    return StreamingResponse(_events(visit, regions, has_ended), media_type="text/event-stream")


async def _events(
    visit: Visit, regions: Regions, has_ended: Callable[[], bool]
) -> AsyncIterator[str]:
    console, quiet = visit.console, 0
    caller = console.caller_of(visit.session)
    known: Mapping[str, str] = {}
    console.live_pages += 1
    caller.live_pages += 1
    try:
        while not visit.session.is_over(console.clock_s()):
            changed, known = await _changed(regions, known)
            quiet = 0 if changed else quiet + 1
            if changed:
                yield f"data: {json.dumps(changed)}\n\n"
            elif quiet % _ALIVE_LOOKS == 0:
                yield ": alive\n\n"
            if has_ended():
                yield "event: done\ndata: {}\n\n"
                return
            await asyncio.sleep(EVERY_S - console.clock_s() % EVERY_S)
    finally:
        console.live_pages -= 1
        caller.live_pages -= 1


async def _changed(
    regions: Regions, known: Mapping[str, str]
) -> tuple[Mapping[str, object], Mapping[str, str]]:
    """Return what to send, and what the browser then has."""
    try:
        found = await regions()
    except AskanceError as error:
        problem = {"problem": str(error)}
        return ({} if known == problem else problem), problem
    changed = {name: html for name, html in found.items() if known.get(name) != html}
    return ({"regions": changed} if changed else {}), found
