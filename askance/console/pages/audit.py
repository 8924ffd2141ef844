"""Audit log: its entries, newest first, the state of its chain, and an export."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

from starlette.responses import Response, StreamingResponse

from askance.console.routes import ConsoleRoute, Visit
from askance_aggregator.operators import OperatorClient
from askance_aggregator.store.audit import AuditBroken, AuditEntry, verify_entries

PAGE = 50  # entries of one page
_SEE = ("Operators/Audit",)
_MAX_ENTRY = (1 << 63) - 1


async def _audit(visit: Visit) -> Response:
    return await _shown(visit, state="")


async def _verify(visit: Visit) -> Response:
    """Read and check the whole log, and return the page with what was found."""
    operator = visit.link.operator
    try:
        last = await visit.call(lambda: verify_entries(_entries(operator)))
    except AuditBroken as error:
        return await _shown(visit, state="broken", problem=str(error))
    return await _shown(visit, state="whole", checked=last)


async def _export(visit: Visit) -> Response:
    """Return the whole log as lines of JSON, as `askance aggregator audit export` writes them."""
    name = 'attachment; filename="audit.jsonl"'
    return StreamingResponse(
        _lines(visit), media_type="application/jsonl", headers={"content-disposition": name}
    )


async def _shown(
    visit: Visit, *, state: str, problem: str = "", checked: AuditEntry | None = None
) -> Response:
    """Return the page of entries that end at the number `to`; without one, at the last entry."""
    audit = visit.link.operator.audit
    _, last = await visit.call(audit, 0, 1)
    to = min(visit.number("to", last, 0, _MAX_ENTRY), last)
    after = max(to - PAGE, 0)
    found, _ = await visit.call(audit, after, max(to - after, 1))
    entries = [entry for entry in found if entry.number <= to]
    return await visit.page(
        "audit.html",
        entries=[(entry, entry.event) for entry in reversed(entries)],
        last=last,
        older=after,
        newer=min(to + PAGE, last) if to < last else 0,
        state=state,
        problem=problem,
        checked=checked,
    )


def _entries(operator: OperatorClient) -> Iterator[AuditEntry]:
    """Yield all entries, oldest first; those that come meanwhile too."""
    after = 0
    while found := operator.audit(after)[0]:
        yield from found
        after = found[-1].number


async def _lines(visit: Visit) -> AsyncIterator[str]:
    after = 0
    while found := (await visit.call(visit.link.operator.audit, after))[0]:
        yield "".join(json.dumps(entry.to_json()) + "\n" for entry in found)
        after = found[-1].number


ROUTES = (
    ConsoleRoute("/audit", _audit, _SEE, "Audit log", is_listed=True),
    ConsoleRoute("/audit/verify", _verify, _SEE, "Audit log", "POST"),
    ConsoleRoute("/audit/export.jsonl", _export, _SEE, "Audit log"),
)
