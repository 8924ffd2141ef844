"""Audit log: a row per action, newest first, the state of its chain, and an export."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse

from askance.console.routes import ConsoleRoute, Visit
from askance_aggregator.operators import OperatorClient
from askance_aggregator.server.callers.roles import action_words
from askance_aggregator.store.audit import (
    BEGUN,
    MAX_PAGE,
    AuditBroken,
    AuditEntry,
    AuditEvent,
    fold_actions,
    verify_entries,
)

PAGE = 100  # entries of one page; an action has one or two
_SEE = ("Operators/Audit",)
_MAX_ENTRY = (1 << 63) - 1
_STUDY = re.compile(r"study ([0-9a-f]{64})")
_TONES = {"done": "good", BEGUN: ""}


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Action as a row of the page.

    Args:
      number: of its last entry.
      action: its words.
      study: digest of the study that it was about; empty: it was about something else.
      tone: of its outcome.
    """

    number: int
    event: AuditEvent
    action: str
    study: str
    tone: str

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditRow:
        """Return the row of an action, from its last entry."""
        event = entry.event
        study = _STUDY.fullmatch(event.subject)
        return cls(
            entry.number,
            event,
            action_words(event.action),
            "" if study is None else study[1],
            _TONES.get(event.outcome, "bad"),
        )


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
    found, _ = await visit.call(audit, after, MAX_PAGE)  # an action may end on a newer page
    rows = [AuditRow.of(entry) for entry in fold_actions(found) if entry.number <= to]
    return await visit.page(
        "audit.html",
        rows=rows[::-1],
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
