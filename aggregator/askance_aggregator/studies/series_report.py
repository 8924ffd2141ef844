"""Report of a series: a row per epoch, with its estimates and what users were asked for so far."""

from __future__ import annotations

from askance_aggregator.reports.figures import estimate_texts, nats_text
from askance_aggregator.reports.guarantees import series_guarantee_text
from askance_aggregator.reports.report import CommandReport, Grid, MoreRows, Part
from askance_aggregator.reports.texts import counted
from askance_aggregator.reports.verdict import series_sentence
from askance_aggregator.studies.series import EpochResult, StudySeries
from askance_client.accounting import NANO_NATS_PER_NAT

_MOST_NAMES = 4  # estimates of a row, without `every`
_MOST_FIELDS = 3  # that the title names


def series_report(series: StudySeries, *, every: bool) -> CommandReport:
    """Make the report of a series; `every` shows all estimates of an epoch."""
    names = list(dict.fromkeys(row.label for epoch in series.epochs for row in epoch.rows))
    shown = names if every else names[:_MOST_NAMES]
    heads = ["epoch", "first day", "answers", "reused", *shown, "nats so far"]
    grid = Grid(heads, left=("first day",))
    for epoch, so_far in zip(series.epochs, series.nats_so_far, strict=True):
        done = epoch.state == "done"
        cells = (
            _estimates(epoch, shown) if done else [epoch.reason, *[""] * len(shown)][: len(shown)]
        )
        grid.add_row(
            str(epoch.number),
            epoch.first_day,
            f"{epoch.fresh + epoch.reused:,}",
            f"{epoch.reused:,}",
            *cells,
            f"{so_far:.9g}",
            alarm=not done,
        )
    body: list[Part] = [grid]
    if len(names) > len(shown):
        body.append(MoreRows(len(names) - len(shown)))
    subject = series_subject(series)
    return CommandReport(
        title=f"{subject}, {len(series.epochs)} of {counted(series.signed, 'epoch')} of"
        f" {counted(series.every_days, 'day')}, epsilon {series.epsilon_per_epoch:.9g} per epoch",
        body=body,
        verdict=_verdict(series, bool(names)),
        cost=_cost(series),
        guarantees=_guarantees(series),
        warnings=_warnings(series),
        details=[f"epoch {one.number}: transcript {one.transcript}" for one in series.epochs],
    )


def series_subject(series: StudySeries) -> str:
    """Name the learner and the fields of a series: "frequency of education"."""
    fields = ", ".join(series.fields) if 0 < len(series.fields) <= _MOST_FIELDS else ""
    return f"{series.learner} of {fields or counted(len(series.fields), 'field')}"


def _estimates(epoch: EpochResult, names: list[str]) -> list[str]:
    rows = epoch.rows
    texts = estimate_texts(rows, (), shares=epoch.presentation.shares)
    by_name = {
        row.label: f"{text.estimate} +- {text.half_width}"
        for row, text in zip(rows, texts, strict=True)
    }
    return [by_name.get(name, "") for name in names]


def _verdict(series: StudySeries, estimates: bool) -> str:
    if not estimates:
        return ""
    return series_sentence(series.signed, series.confidence)


def _cost(series: StudySeries) -> str:
    most = max((epoch.max_asked_nano_nats for epoch in series.epochs), default=0)
    budget = series.epsilon_per_epoch
    total = max(series.nats_so_far, default=0.0)
    return (
        f"A user who is in every epoch was asked for at most {total:.9g} of"
        f" {series.signed * budget:.9g} nats so far, at most"
        f" {nats_text(most / NANO_NATS_PER_NAT, budget)} per epoch."
    )


def _guarantees(series: StudySeries) -> str:
    answered = sum(bool(epoch.fresh + epoch.reused) for epoch in series.epochs)
    return series_guarantee_text({**series.outer, "number": answered})


def _warnings(series: StudySeries) -> list[str]:
    found = []
    for epoch in series.epochs:
        if epoch.message:
            found.append(f"epoch {epoch.number}, {epoch.reason}: {epoch.message}")
        if epoch.reused:
            found.append(f"epoch {epoch.number}: {epoch.time}")
        if epoch.refusals:
            found.append(f"epoch {epoch.number}: {counted(epoch.refusals, 'refusal')}")
    return found
