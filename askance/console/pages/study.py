"""Study: progress, rounds, result, cost, plan, export and verification of one study."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from starlette.responses import Response

from askance.console.charts.axes import rounds_chart
from askance.console.charts.hypotheses import picture_of, picture_of_json
from askance.console.formats import nats_text
from askance.console.link import permitted
from askance.console.live import Regions, live_response
from askance.console.routes import ConsoleRoute, Endpoint, Visit
from askance.console.study_record import RoundRecord, StudyRecord, record_of, shown_export
from askance_aggregator import analyst
from askance_aggregator.learners import Presentation
from askance_aggregator.names import with_own_names
from askance_aggregator.reports.figures import estimate_texts, level_text
from askance_aggregator.reports.outcomes import (
    bounds_lines,
    influence_lines,
    presentation_of_content,
    report_of_content,
    study_verdict,
)
from askance_aggregator.reports.report import Grid
from askance_aggregator.store import StudyState
from askance_aggregator.studies.advice import advice_on_content
from askance_aggregator.studies.series import EpochStatus
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError
from askance_client.printable import value_text
from askance_client.queries import Integer, Real
from askance_simulation.frames import write_table

T = TypeVar("T")

WATCH = ("Analysts/Watch",)
_RESULT = ("Analysts/Watch", "Analysts/Result", "Analysts/Export")
_MAX_NUMBER = 1 << 32  # of an epoch, or of a round
_DIGEST_DIGITS = 64
_ROWS = 200  # of a result's table; the export has all
ROUNDS = 50  # of one page
_CHANGES: Mapping[str, Callable[[analyst.StudyHandle], StudyState]] = {
    "cancel": analyst.StudyHandle.cancel,
    "pause": analyst.StudyHandle.pause,
    "resume": analyst.StudyHandle.resume,
}


@dataclass(frozen=True, slots=True)
class ShownPart:
    """Part of a study that an address names.

    Args:
      epoch: its number, from 1; None: the latest.
      first: number of the first round that is shown; 0: the last rounds are.
    """

    epoch: int | None = None
    first: int = 0

    @property
    def query(self) -> str:
        """Query of the address; empty: it names nothing."""
        named = {"epoch": self.epoch, "from": self.first}
        found = "&".join(f"{name}={number}" for name, number in named.items() if number)
        return f"?{found}" if found else ""

    @classmethod
    def of(cls, visit: Visit) -> ShownPart:
        """Return the part that a request's address names."""
        epoch = visit.number("epoch", 0, 0, _MAX_NUMBER) or None
        return cls(epoch, visit.number("from", 0, 0, _MAX_NUMBER))


@dataclass(frozen=True, slots=True)
class StudyView:
    """Everything that the page of a study shows.

    Args:
      id: the study's digest in hexadecimal.
      event: its present state.
      epoch: number of the epoch that is shown, from 1; 0: it collects once.
      record: terms and rounds; None: the caller's role may not see them.
      content: result; None: it has none yet, or the caller's role may not see it.
      is_deleted: whether its result was deleted.
    """

    id: str
    event: analyst.StudyEvent
    epoch: int = 0
    record: StudyRecord | None = None
    content: Mapping[str, Any] | None = None
    is_deleted: bool = False
    shown: ShownPart = ShownPart()

    @property
    def has_rows(self) -> bool:
        """True if its result is a table of estimates."""
        content = self.content
        shown = None if content is None else _as_sent(lambda: presentation_of_content(content))
        return shown is not None and bool(shown.rows)

    @property
    def rounds(self) -> tuple[RoundRecord, ...]:
        """Rounds of this page."""
        rounds = () if self.record is None else self.record.rounds
        latest = max(len(rounds) - ROUNDS, 0)
        first = min(self.shown.first, len(rounds)) - 1 if self.shown.first else latest
        return rounds[max(first, 0) : first + ROUNDS]

    @property
    def earlier(self) -> str:
        """Query of the address of the rounds before; empty: there are none."""
        first = self.rounds[0].number if self.rounds else 1
        return "" if first == 1 else replace(self.shown, first=max(first - ROUNDS, 1)).query

    @property
    def later(self) -> str:
        """Query of the address of the rounds after; empty: there are none."""
        last, rounds = self.rounds, () if self.record is None else self.record.rounds
        if not last or last[-1].number == len(rounds):
            return ""
        return replace(self.shown, first=last[-1].number + 1).query

    @property
    def state(self) -> str:
        """State for readers."""
        name = analyst.state_of(self.event).name.lower()
        return self.event.reason if name == "open" and self.event.reason else name

    @property
    def title(self) -> str:
        """Title of the study; an aggregator that is older states none."""
        return self.event.facts.title or f"Study {self.id[:12]}"

    @property
    def purpose(self) -> str:
        """Purpose that its analyst stated; empty: none, or the caller's role may not see it."""
        return "" if self.record is None else " ".join(self.record.terms.purpose.split())

    @property
    def is_open(self) -> bool:
        """Return whether it may be asked on."""
        return analyst.state_of(self.event) is StudyState.OPEN

    @property
    def epochs(self) -> EpochStatus | None:
        """Epochs of a repeated study; None: it collects once."""
        return analyst.epochs_of(self.event)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the devices that it asks; none: all devices."""
        return tuple(self.event.population.tags)


async def _study(visit: Visit) -> Response:
    role = await _role(visit)
    shown = ShownPart.of(visit)
    view = await _view(visit, _handle(visit), shown, _sees_result(role))
    return await visit.page(
        "study.html",
        view=view,
        regions=await visit.call(_regions, visit, view, role),
        sees=_sees_result(role),
        live=f"/live/studies/{view.id}{shown.query}",
    )


async def _live(visit: Visit) -> Response:
    return live_response(visit, *_following(visit, _handle(visit), await _role(visit)))


def _following(
    visit: Visit, handle: analyst.StudyHandle, role: str | None
) -> tuple[Regions, Callable[[], bool]]:
    """Return the regions of an open study, and whether it has ended."""
    # The record is read, and the result drawn, again when a round has opened or closed since a
    # state that was read before the record: a state that is read with the record may be newer than
    # it.
    view: StudyView | None = None
    stage: tuple[object, ...] = ()  # before the view was read, so that the view is no older
    drawn: Mapping[str, str] = {}
    shown, sees_result = ShownPart.of(visit), _sees_result(role)

    async def regions() -> Mapping[str, str]:
        nonlocal view, stage, drawn
        event = await visit.call(handle.status)
        if view is None or stage != _stage(event):
            view = await _view(visit, handle, shown, sees_result)
            drawn = await visit.call(_regions, visit, view, role)
            stage = _stage(event)
        elif event != view.event:
            view = replace(view, event=event)
            drawn = {**drawn, **await visit.call(_counts, visit, view)}
        return drawn

    return regions, lambda: view is not None and not view.is_open


def _stage(event: analyst.StudyEvent) -> tuple[object, ...]:
    """Return what changes when a round opens or closes."""
    return event.state, event.round, event.asked > 0, event.reason, analyst.epochs_of(event)


async def _view(
    visit: Visit, handle: analyst.StudyHandle, shown: ShownPart, sees_result: bool
) -> StudyView:
    """Call the aggregator for a study: for its state and its export at the same time."""
    if not sees_result:
        return StudyView(handle.id, await visit.call(handle.status))
    event, own = await asyncio.gather(visit.call(handle.status), visit.call(_kept, handle.fetch))
    view = None
    if own is not None:
        view = await visit.call(_kept, lambda: _view_of(handle, event, own, shown))
    return view or StudyView(handle.id, event, is_deleted=True, shown=shown)


def _view_of(
    handle: analyst.StudyHandle,
    event: analyst.StudyEvent,
    own: analyst.StudyExport,
    shown: ShownPart,
) -> StudyView:
    """Return what the page shows; the epochs of a repeated study are fetched."""
    export, content = _as_sent(lambda: shown_export(handle, event, own, shown.epoch))
    record = _as_sent(lambda: record_of(export, event, content))
    epochs = analyst.epochs_of(event)
    number = 0 if epochs is None else export.epoch - epochs.repeat.first + 1
    return StudyView(handle.id, event, number, record, content, shown=shown)


def _kept(read: Callable[[], T]) -> T | None:
    """Return what is read of a study's record; None: its result was deleted, perhaps just now."""
    try:
        return read()
    except analyst.CallRefused as error:
        if error.reason != "results-deleted":
            raise
        return None


def _counts(visit: Visit, view: StudyView) -> Mapping[str, str]:
    """Return the regions that change with every answer."""
    rounds = [
        replace(one, answered=view.event.answered) if one.is_open else one for one in view.rounds
    ]
    return {
        "progress": visit.fragment("study_progress.html", view=view),
        "rounds": visit.fragment(
            "study_rounds.html",
            view=view,
            rounds=rounds,
            chart=rounds_chart(rounds) if len(rounds) > 1 else "",
            is_open=view.is_open,
        ),
    }


def _regions(visit: Visit, view: StudyView, role: str | None) -> Mapping[str, str]:
    """Return all regions; forms in them have the token of the visitor's session."""
    names = (*_CHANGES, "approve")
    may = [name for name in names if permitted(role, (f"Analysts/{name.capitalize()}",))]
    csrf, aggregator = visit.session.csrf, visit.link.aggregator
    of_changes = {
        "may": may,
        "csrf": csrf,
        "has_key": aggregator.has_key,
        "address": aggregator.address,
    }
    return {
        **_counts(visit, view),
        "changes": visit.fragment("study_changes.html", view=view, **of_changes),
        "record": visit.fragment("study_record.html", view=view, csrf=csrf),
        "result": visit.fragment("study_result.html", view=view, **_as_sent(lambda: _result(view))),
    }


def _result(view: StudyView) -> dict[str, Any]:
    """Return the parts of a result for its template."""
    content, record = view.content, view.record
    if content is None or record is None:
        return {"content": None}
    shown = presentation_of_content(content)
    report = report_of_content(
        content,
        every=False,
        verbose=False,
        advise=lambda: advice_on_content(record.terms, content),
    )
    picture, rows = None, []
    lines: tuple[str, ...] = ()
    places: Sequence[int] = ()
    if shown is not None:
        shown = replace(shown, whole=shown.whole or _possible(shown, record))
        picture = picture_of(shown.shape, shown) or picture_of_json(
            content["learner"], with_own_names(content)["hypothesis"]
        )
        texts = estimate_texts(shown.rows, (), shares=shown.shares)
        rows = list(zip(shown.rows, texts, strict=True))
        places = range(len(rows)) if shown.apart is None else shown.apart
        if shown.ranked:
            rows.sort(key=lambda row: (row[0].group, -row[0].shown))
        lines = () if picture is not None and picture.grid.heads else shown.lines
    bounds = content["bounds"]
    return {
        "content": content,
        "poor": shown is not None and study_verdict(dict(content), shown).is_poor,
        "report": report,
        "picture": picture,
        "grid": Grid() if picture is None else picture.grid,
        "rows": [rows[place] for place in places[:_ROWS]],
        "more": len(rows) - len(places[:_ROWS]),
        "apart": shown is not None and shown.apart is not None,
        "lines": lines,
        "confidence": level_text(content["confidence"]),
        "influence": bounds_lines(bounds) if bounds else influence_lines(content["influence"]),
        "spent": nats_text(content["epsilon"]["max_asked_nano_nats"]),
    }


def _possible(shown: Presentation, record: StudyRecord) -> tuple[float, float] | None:
    """Return the bounds of the only number that was asked about, of a result that is one number."""
    fields = [record.terms.schema.fields[name] for name in record.terms.fields]
    if len(shown.rows) != 1 or shown.shares or len(fields) != 1:
        return None
    (kind,) = fields
    return (float(kind.low), float(kind.high)) if isinstance(kind, Integer | Real) else None


async def _plan(visit: Visit) -> Response:
    """Return the plan of a study for the users that it began with, against what happened."""
    view = await _view(visit, _handle(visit), ShownPart.of(visit), True)
    record = view.record
    if record is None:
        raise analyst.CallRefused("results-deleted", "study: expected its record, got it deleted")
    planned = (await visit.call(record.plan)).to_json()
    happened, rounds = {one.number: one for one in record.rounds}, planned["rounds"]
    first = max(view.shown.first, 1)
    rows = [
        (number, row, happened.get(number))
        for number, row in enumerate(rounds[first - 1 : first - 1 + ROUNDS], start=first)
    ]
    return await visit.page(
        "study_plan.html",
        view=view,
        plan=planned,
        rows=rows,
        earlier=replace(view.shown, first=max(first - ROUNDS, 1)).query if first > 1 else "",
        later=replace(view.shown, first=first + ROUNDS).query
        if first - 1 + ROUNDS < len(rounds)
        else "",
    )


async def _verify(visit: Visit) -> Response:
    """Fetch the export and replay it on this machine, as `askance study verify` does."""
    handle = _handle(visit)
    try:
        found: analyst.Verification | None = await visit.call(_verified, handle)
    except analyst.VerificationFailed as error:
        return await visit.page("study_verified.html", id=handle.id, found=None, problem=str(error))
    return await visit.page("study_verified.html", id=handle.id, found=found, problem="")


async def _export(visit: Visit) -> Response:
    """Return the export, with the bytes that `askance study result --out` writes."""
    handle = _handle(visit)
    data = await visit.call(_exported, handle)
    name = f'attachment; filename="study-{handle.id[:12]}.json"'
    return Response(data, media_type="application/json", headers={"content-disposition": name})


def _exported(handle: analyst.StudyHandle) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "export.json")
        handle.export(path)
        return path.read_bytes()


async def _table(visit: Visit) -> Response:
    """Return the table of the result, as `askance study result --out x.csv` writes it."""
    handle = _handle(visit)
    data = await visit.call(_tabled, handle)
    name = f'attachment; filename="study-{handle.id[:12]}.csv"'
    return Response(data, media_type="text/csv", headers={"content-disposition": name})


def _tabled(handle: analyst.StudyHandle) -> bytes:
    """Return the rows of a study, or of all ended epochs, as CSV."""
    event = handle.status()
    repeats = event.HasField("epochs")
    if not repeats and analyst.state_of(event) is StudyState.OPEN:
        raise InvalidParameter("result: expected a study that has ended, got an open one")
    rows = (handle.series() if repeats else handle.result()).to_rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result.csv")
        write_table(rows, path)
        return path.read_bytes()


def _verified(handle: analyst.StudyHandle) -> analyst.Verification:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "export.json")
        handle.export(path)
        return analyst.verify_export(path)


def _change(name: str) -> Callable[[Visit], Awaitable[Response]]:
    """Return the endpoint that cancels, pauses or resumes a study."""

    async def changed(visit: Visit) -> Response:
        handle = _handle(visit)
        state = (await visit.call(_CHANGES[name], handle)).name.lower()
        stands = "paused" if name == "pause" and state == "open" else state
        return visit.redirect(f"/studies/{handle.id}", f"The study is {stands}.")

    return changed


async def _approve(visit: Visit) -> Response:
    """Sign a study as its approver, with the key of this console."""
    handle = _handle(visit)
    await visit.call(handle.approve)
    return visit.redirect(f"/studies/{handle.id}", "The study is approved.")


async def _refuse(visit: Visit) -> Response:
    """End a study as its approver."""
    handle = _handle(visit)
    state = await visit.call(handle.refuse, visit.form.text("reason"))
    return visit.redirect(f"/studies/{handle.id}", f"The study is {state.name.lower()}.")


def _handle(visit: Visit) -> analyst.StudyHandle:
    """Return the study that the address names."""
    text = visit.request.path_params["digest"]
    if len(text) != _DIGEST_DIGITS:  # a shorter one would be looked up in a call that blocks
        raise _no_study(
            f"study: expected {_DIGEST_DIGITS} hexadecimal digits, got {value_text(text)}"
        )
    try:
        return visit.link.aggregator.study(text)
    except InvalidParameter as error:
        raise _no_study(str(error)) from None


def _by_prefix(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint of a page whose address may have the first digits of a digest alone."""

    async def redirected(visit: Visit) -> Response:
        text = visit.request.path_params["digest"]
        if len(text) == _DIGEST_DIGITS:
            return await endpoint(visit)
        try:
            handle = await visit.call(visit.link.aggregator.study, text)
        except InvalidParameter as error:
            raise _no_study(str(error)) from None
        query = visit.request.url.query
        path = visit.route.path.format(digest=handle.id)
        return visit.redirect(f"{path}?{query}" if query else path)

    return redirected


def _no_study(message: str) -> analyst.CallRefused:
    return analyst.CallRefused("unknown-study", message)


async def _role(visit: Visit) -> str | None:
    identity = await visit.link.identity()
    return None if identity is None else identity.role


def _sees_result(role: str | None) -> bool:
    return permitted(role, _RESULT)


def _as_sent(make: Callable[[], Any]) -> Any:
    """Return what is made of an aggregator's answer; what it lacks is the aggregator's error."""
    try:
        return make()
    except AskanceError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RemoteProtocolError(
            "aggregator: expected the parts of a study that this version shows, got another form"
        ) from error


ROUTES = (
    ConsoleRoute("/studies/{digest}", _by_prefix(_study), WATCH, "Study"),
    ConsoleRoute("/live/studies/{digest}", _live, WATCH, "Study"),
    ConsoleRoute(
        "/studies/{digest}/plan", _by_prefix(_plan), _RESULT, "Plan against what happened"
    ),
    ConsoleRoute("/studies/{digest}/export.json", _by_prefix(_export), _RESULT, "Export"),
    ConsoleRoute("/studies/{digest}/result.csv", _by_prefix(_table), _RESULT, "Table"),
    ConsoleRoute("/studies/{digest}/verify", _verify, _RESULT, "Verification", "POST"),
    *(
        ConsoleRoute(
            f"/studies/{{digest}}/{name}",
            _change(name),
            (f"Analysts/{name.capitalize()}",),
            f"{name.capitalize()} a study",
            "POST",
        )
        for name in _CHANGES
    ),
    ConsoleRoute(
        "/studies/{digest}/approve",
        _approve,
        ("Analysts/Export", "Analysts/Approve"),
        "Approve a study",
        "POST",
    ),
    ConsoleRoute(
        "/studies/{digest}/refuse", _refuse, ("Analysts/Refuse",), "Refuse a study", "POST"
    ),
)
