"""Series of a repeated study: the results of its epochs in order of time, and their sums.

Source of the joint intervals: the confidence that is signed holds for all intervals of all epochs
together. Each epoch's share of what may fail, (1 - confidence) / epochs, is fixed by the signed
number of epochs before the first is asked (union bound, Bonferroni): a look at any epoch, at any
time, changes no other interval.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from askance_aggregator.extras import not_installed
from askance_aggregator.learners.presentation import EstimateRow, Presentation, presentation_of_json
from askance_aggregator.names import ColumnNames, result_names, with_own_names
from askance_aggregator.reports.figures import estimate_texts, nats_text
from askance_aggregator.reports.guarantees import OUTER_KEYS, series_guarantee_text
from askance_aggregator.reports.report import CommandReport, Grid, MoreRows, Part
from askance_aggregator.reports.texts import counted
from askance_aggregator.reports.verdict import series_sentence
from askance_aggregator.store import Conclusion, StudyState
from askance_aggregator.studies.results import End, date_of, epoch_facts
from askance_client.accounting import NANO_NATS_PER_NAT, format_nats
from askance_client.errors import RemoteProtocolError
from askance_client.messages import Repeat, StudyTerms

JOINT = (
    "The intervals hold jointly over all estimates and all signed epochs: each epoch has its share"
    " of what may fail, fixed before the first was asked."
)
_OF_EPOCH = ("epoch", "number", "first_day", "state", "reason", "message")
_COUNTS = ("rounds", "answers", "fresh", "reused", "users_asked")


@dataclass(frozen=True, slots=True)
class EpochStatus:
    """Status of the epochs of a repeated study.

    Args:
      epoch: index of the epoch that is open or comes next; of an ended study, of its last one.
      ended: number of epochs that have ended.
      open: whether the epoch's days have begun and it has not ended.
    """

    epoch: int
    repeat: Repeat
    ended: int
    open: bool

    @property
    def number(self) -> int:
        """Number of `epoch`, from 1."""
        return self.epoch - self.repeat.first + 1

    @property
    def first_day(self) -> str:
        """First day of `epoch`, UTC: "2026-01-01"."""
        return date_of(self.epoch * self.repeat.every_days)


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Result of one epoch.

    Args:
      number: from 1.
      epoch: its index, as requests name it.
      first_day: "2026-01-01", UTC.
      state: done, failed or cancelled.
      reason: a word for programs: done, missed, epoch-over, too-few-respondents, ....
      message: one line of text; empty if it is done.
      hypothesis: as JSON; None: it came to none.
      fresh: answers that were given in this epoch first.
      reused: answers that were given before, within the epoch.
      time: the time that it describes, in words.
      max_asked_nano_nats: most that any user was asked for in this epoch.
      max_spent_nano_nats: most that any device has reported for this epoch.
      outer: what its readers are promised, by the result's keys `outer`, `outer_so_far` (all
        results up to it) and `outer_signed`; none where no less than the local epsilon holds.
    """

    number: int
    epoch: int
    first_day: str
    state: str
    reason: str
    message: str
    hypothesis: Any
    presentation: Presentation
    fresh: int
    reused: int
    refusals: int
    time: str
    max_asked_nano_nats: int
    max_spent_nano_nats: int
    transcript: str
    outer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[EstimateRow, ...]:
        """Estimates with their intervals; these hold jointly, over all epochs."""
        return self.presentation.rows

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> EpochResult:
        """Read the result of an epoch, as the aggregator states it, with columns' own names."""
        names, shown = ColumnNames.of_result(result), with_own_names(result)
        hypothesis, epsilon = result["hypothesis"], result["epsilon"]
        return cls(
            **{name: shown[name] for name in _OF_EPOCH},
            hypothesis=shown["hypothesis"],
            presentation=(
                Presentation()
                if hypothesis is None
                else presentation_of_json(result["learner"], hypothesis).named(names)
            ),
            fresh=result["fresh"],
            reused=result["reused"],
            refusals=sum(result["refusals"].values()),
            time=result["time"],
            max_asked_nano_nats=epsilon["max_asked_nano_nats"],
            max_spent_nano_nats=epsilon["max_spent_nano_nats"],
            transcript=result["transcript"],
            outer={name: result[name] for name in OUTER_KEYS if name in result},
        )

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        names = (*_OF_EPOCH, "hypothesis", "fresh", "reused", "refusals", "time")
        return {
            **{name: getattr(self, name) for name in names},
            "answers": self.fresh + self.reused,
            "max_asked_nano_nats": self.max_asked_nano_nats,
            "max_spent_nano_nats": self.max_spent_nano_nats,
            "transcript": self.transcript,
            **self.outer,
        }


@dataclass(frozen=True, slots=True)
class StudySeries:
    """Results of a repeated study so far.

    Args:
      epsilon_per_epoch: each user's budget per epoch, nats.
      every_days: days of an epoch.
      signed: number of epochs that were signed.
      confidence: of all intervals of all signed epochs, jointly.
      epochs: those that have ended, in order of time.
    """

    learner: str
    fields: tuple[str, ...]
    epsilon_per_epoch: float
    every_days: int
    signed: int
    confidence: float
    epochs: tuple[EpochResult, ...]

    @property
    def nats_so_far(self) -> tuple[float, ...]:
        """Most nats that a user was asked for by each epoch and those before it; they add."""
        total, found = 0, []
        for epoch in self.epochs:
            total += epoch.max_asked_nano_nats
            found.append(total / NANO_NATS_PER_NAT)
        return tuple(found)

    @classmethod
    def of(cls, summary: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> StudySeries:
        """Read a series as the aggregator states it."""
        try:
            return cls(
                learner=summary["learner"],
                fields=tuple(with_own_names(summary)["fields"]),
                epsilon_per_epoch=summary["epsilon"]["budget_per_epoch"],
                every_days=summary["every_days"],
                signed=summary["epochs_signed"],
                confidence=summary["confidence"],
                epochs=tuple(EpochResult.of(result) for result in results),
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise RemoteProtocolError(
                "aggregator: expected the results of epochs, found another form"
            ) from None

    @property
    def outer(self) -> dict[str, Mapping[str, Any]]:
        """Guarantees towards readers of all epochs, by the last epoch that has answers."""
        answered = [epoch for epoch in self.epochs if epoch.fresh + epoch.reused]
        last = answered[-1].outer if answered else {}
        return {name: last[name] for name in OUTER_KEYS[1:] if name in last}

    @property
    def latest(self) -> EpochResult | None:
        """The last epoch with a result; without any, the last that has ended."""
        done = [epoch for epoch in self.epochs if epoch.state == "done"]
        return next(reversed(done or self.epochs), None)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per estimate and epoch; an epoch without estimates has one without them."""
        return [row for place in range(len(self.epochs)) for row in self._rows(place)]

    def to_pandas(self) -> Any:
        """Return the rows of `to_rows` as a `pandas.DataFrame`; InvalidParameter without pandas."""
        if find_spec("pandas") is None:
            raise not_installed("to_pandas", "pandas", "frames")
        pandas: Any = import_module("pandas")
        return pandas.DataFrame(self.to_rows())

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "learner": self.learner,
            "fields": list(self.fields),
            "epsilon_per_epoch": self.epsilon_per_epoch,
            "every_days": self.every_days,
            "epochs_signed": self.signed,
            "confidence": self.confidence,
            "joint": JOINT,
            "epochs": [
                {**epoch.to_json(), "nats_so_far": so_far}
                for epoch, so_far in zip(self.epochs, self.nats_so_far, strict=True)
            ],
            "nats_so_far": max(self.nats_so_far, default=0.0),
            **self.outer,
        }

    def _rows(self, place: int) -> Iterator[dict[str, Any]]:
        epoch = self.epochs[place]
        of_epoch = {name: getattr(epoch, name) for name in (*_OF_EPOCH[:-1], "fresh", "reused")}
        of_epoch["nats_so_far"] = self.nats_so_far[place]
        for row in epoch.rows or (None,):
            of_row = {
                name: None if row is None else getattr(row, name)
                for name in ("group", "name", "estimate", "low", "high", "shown")
            }
            yield {**of_epoch, **of_row}


def series_json(
    study_digest: bytes, terms: StudyTerms, results: Sequence[Mapping[str, Any]], end: End
) -> dict[str, Any]:
    """Return the summary of a repeated study: each ended epoch's figures, and their sums.

    The results, in order of time, have the hypotheses; `end` is of the whole study, and OPEN while
    it goes on.
    """
    repeat = terms.repeat
    if repeat is None:
        raise ValueError("series: expected a study that repeats")
    most = sum(result["epsilon"]["max_asked_nano_nats"] for result in results)
    budget = terms.budget_nano_nats
    return {
        "study": study_digest.hex(),
        "learner": terms.learner,
        "state": end.state.name.lower(),
        "fields": list(terms.fields),
        **result_names(terms.schema, terms.fields),
        "reason": end.reason,
        "message": end.message,
        "confidence": float(terms.conduct.confidence),
        "joint": JOINT,
        "every_days": repeat.every_days,
        "first_epoch": repeat.first,
        "first_day": epoch_facts(repeat, repeat.first)["first_day"],
        "epochs_signed": repeat.epochs,
        "epochs": [_summary(result) for result in results],
        **{name: sum(result[name] for result in results) for name in ("fresh", "reused")},
        "epsilon": {
            "budget_per_epoch": budget / NANO_NATS_PER_NAT,
            "budget": repeat.epochs * budget / NANO_NATS_PER_NAT,
            "max_asked_nano_nats": most,
        },
        **_outer(results),
        "privacy": (
            f"Every device's reports in one epoch are {format_nats(budget)}-locally differentially"
            f" private (pure, replace-one), and those of {repeat.epochs} epochs together"
            f" {format_nats(repeat.epochs * budget)}-locally, by the device's own ledger; nobody"
            f" was asked for more than {format_nats(most)} nats so far, by {len(results)} of them."
        ),
    }


def series_conclusion(
    study_digest: bytes, terms: StudyTerms, results: Sequence[Mapping[str, Any]], end: End
) -> Conclusion:
    """Return the conclusion of a repeated study (see `series_json`)."""
    summary = series_json(study_digest, terms, results, end)
    text = json.dumps(summary, ensure_ascii=False, allow_nan=False)
    most = summary["epsilon"]["max_asked_nano_nats"]
    return Conclusion(end.state, end.reason, end.message, text, most)


def end_of_series(states: Sequence[StudyState]) -> End:
    """Return the end of a repeated study whose epochs have all ended, in these states."""
    done = sum(state is StudyState.DONE for state in states)
    if not done:
        message = f"repeat: expected an epoch with a result, got none in {len(states)}"
        return End(StudyState.FAILED, "no-epoch", message)
    missing = len(states) - done
    message = f"{missing} of {len(states)} epochs have no result" if missing else ""
    return End(StudyState.DONE, "done", message)


def _outer(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what readers of all results are promised: by the last epoch that has answers."""
    answered = [result for result in results if result["answers"]]
    last: Mapping[str, Any] = answered[-1] if answered else {}
    return {name: last[name] for name in OUTER_KEYS[1:] if name in last}


def _summary(result: Mapping[str, Any]) -> dict[str, Any]:
    epsilon = result["epsilon"]
    return {
        **{name: result[name] for name in (*_OF_EPOCH, *_COUNTS)},
        "max_asked_nano_nats": epsilon["max_asked_nano_nats"],
        "max_spent_nano_nats": epsilon["max_spent_nano_nats"],
        "transcript": result["transcript"],
    }


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
