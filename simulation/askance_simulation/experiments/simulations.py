"""Results of a study on simulated users: its trials, their cost and their worth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.composition import ZeroConcentrated
from askance_aggregator.encoding import query_from_bytes
from askance_aggregator.learners import (
    Presentation,
    hypothesis_json,
    learners,
    presentation_of,
    table_of,
)
from askance_aggregator.learners.assessments import Assessment
from askance_aggregator.learners.encodings import has_missing_cell
from askance_aggregator.learners.hypotheses import with_column_names
from askance_aggregator.learners.missing import leaves_out_missing, of_complete_cases
from askance_aggregator.names import ColumnNames, names_in, names_of, subject_json, unknown_name
from askance_aggregator.reports.figures import risk_notes
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.outcomes import simulation_report
from askance_aggregator.reports.plain_text import text_of
from askance_aggregator.reports.report import CommandReport
from askance_aggregator.reports.texts import counted
from askance_aggregator.reports.verdict import ResultVerdict, mean_of
from askance_aggregator.studies import Outcome, Transcript, composed
from askance_aggregator.studies.advice import advice
from askance_aggregator.studies.outer import outer_json
from askance_aggregator.studies.results import bounds_json
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Asked
from askance_client.queries import Query, QueryKind
from askance_client.queries.categories import cell_names
from askance_simulation.experiments.references import reference_of
from askance_simulation.experiments.wide_bounds import wide_bounds
from askance_simulation.frames import to_arrow, to_pandas, write_rows
from askance_simulation.plots.picture import Content, Picture
from askance_simulation.plots.runs import hypothesis_picture, rounds, run_title, spending, trials
from askance_simulation.populations import Population
from askance_simulation.summaries import RoundTaken


@dataclass(frozen=True, slots=True)
class Trial:
    """Run of a study and its outcome.

    Args:
      seconds: of the whole run: planning, rounds and judging.
      whole: fields that all users were seen to have.
      is_lied_to: whether some of its users lie.
      planning_seconds: of these, until the first round opened; a first run in a process also
        imports what it needs and designs its randomizers.

    Example:
        >>> people = ask.Population.generated("categories", users=3_000, cells=4)
        >>> learner = ask.learners.frequency("category")
        >>> study = ask.Study(learner, people.schema, epsilon=2)
        >>> trial = ask.simulate(study, people, fleet="columns").trials[0]
        >>> trial.outcome.answers, trial.assessment.success
        (3000, True)
    """

    outcome: Outcome[Any]
    assessment: Assessment
    population: Population
    transcript: Transcript
    seconds: float
    rounds: tuple[RoundTaken, ...]
    notes: tuple[str, ...] = ()  # users who stayed away, users who lied, faults
    planning_seconds: float = 0.0
    whole: frozenset[str] = frozenset()
    is_lied_to: bool = False


@dataclass(frozen=True, slots=True)
class EpsilonSpent:
    """Nats spent per user: the maximum, and the mean over all users.

    Args:
      delta: as the study states it, or None.
      at_delta: what the worst user's charges compose to at that delta; never more than `max`.
    """

    max: float
    mean: float
    delta: float | None = None
    at_delta: float | None = None

    def to_json(self) -> dict[str, float]:
        """Return the available figures as JSON."""
        found = {"max": self.max, "mean": self.mean}
        if self.delta is not None and self.at_delta is not None:
            found |= {"delta": self.delta, "at_delta": self.at_delta}
        return found


@dataclass(frozen=True, slots=True)
class Speed:
    """Answers per second.

    Args:
      whole: over the time of the runs, planning and judging included: the speed of a first study.
      steady: over the same time without planning: rounds and judging, the speed that a longer
        study or a later trial approaches.
    """

    whole: float
    steady: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """A study's trials; the first is shown in detail, all are counted.

    Example:
        >>> people = ask.read("census")
        >>> learner = ask.learners.frequency("education")
        >>> study = ask.Study(learner, people.schema, epsilon=1)
        >>> result = ask.simulate(study, people, fleet="columns", seed=7)
        >>> result.error < result.baseline
        True
        >>> result.to_pandas()[["name", "truth"]].head(2)
               name    truth
        0  Bachelor  0.14305
        1   College  0.12400
        >>> result.epsilon_spent.max
        1.0
    """

    study: Study
    fleet: str
    trials: tuple[Trial, ...]
    seconds: float
    peak_memory_mb: float

    @property
    def hypothesis(self) -> Any:
        """Hypothesis of trial 0, with columns' own names."""
        return with_column_names(self.study.learner.name, self._learned, self._names)

    @property
    def _learned(self) -> Any:
        return self.trials[0].outcome.hypothesis

    @property
    def estimates(self) -> dict[str, Any] | None:
        """Estimates of trial 0's hypothesis by cell; None: it has none."""
        hypothesis = self._names.in_json(hypothesis_json(self._learned))
        return _estimates(hypothesis, self.study.learner.name)

    @property
    def presentation(self) -> Presentation:
        """Rows and lines of trial 0's hypothesis for readers, with columns' own names."""
        return presentation_of(self._learned).named(self._names)

    @property
    def _names(self) -> ColumnNames:
        return names_of(self.trials[0].population.schema, self.study.schema)

    @property
    def transcript(self) -> Transcript:
        """Trial 0's transcript."""
        return self.trials[0].transcript

    @property
    def settings(self) -> dict[str, str]:
        """Settings of trial 0 that were not given and follow from users and noise, as text."""
        given = self.study.learner.parameters
        chosen = self.study.settled(self.trials[0].population.size).parameters
        return {name: text for name, text in chosen.items() if given.get(name) != text}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader of trial 0 must know besides its numbers."""
        first = self.trials[0]
        people = first.population
        absent = absences(first.transcript, people, first.outcome.hypothesis, first.whole)
        return (
            *risk_notes(self.study.epsilon),
            *first.notes,
            *people.notes_about(self.study.fields),
            *map(self._names.in_text, (*absent, *self._chosen)),
        )

    @property
    def _chosen(self) -> list[str]:
        """Notes on the groups and the columns of a file that were chosen, and not named."""
        learner = self.study.learner
        columns = ", ".join(names_in(self.settings.get("columns", "")))
        fewer = f"chosen: {columns}, as many as users and epsilon allow; name others by --columns"
        notes = [learner.compared]
        if self.trials[0].population.column_types:
            notes += [learner.chosen, fewer if columns else ""]
        return [*filter(None, notes)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Defects of the data in the fields that the study asks about; `verdict` repeats them."""
        found = self.trials[0].population.warnings
        texts = (found[name] for name in self.study.fields if name in found)
        return tuple(map(self._names.in_text, texts))

    @property
    def epsilon_spent(self) -> EpsilonSpent:
        """Epsilon that the devices' ledgers record, over all users and trials.

        At a delta, it is the sum of what was asked, if that is less.
        """
        spent = [trial.outcome.spending for trial in self.trials]
        users = self.trials[0].population.size
        return EpsilonSpent(
            max=max(item.max_spent for item in spent) / 10**9,
            # Of whole numbers, so that it equals the greatest where all users spent as much.
            mean=sum(item.total_spent for item in spent) / (len(spent) * users * 10**9),
            delta=None if self.study.delta is None else float(self.study.delta),
            at_delta=None if self.study.delta is None else self._at_delta(self.study.delta),
        )

    def _at_delta(self, delta: Fraction) -> float:
        return max(
            min(
                composed(trial.transcript, delta, ZeroConcentrated()),
                trial.outcome.spending.max_spent / 10**9,
            )
            for trial in self.trials
        )

    @property
    def speed(self) -> Speed:
        """Answers per second of the whole runs, and once a run is planned."""
        answers = sum(trial.outcome.answers for trial in self.trials)
        seconds = sum(trial.seconds for trial in self.trials)
        planning = sum(trial.planning_seconds for trial in self.trials)
        least = 1e-9  # seconds, of a clock that is too coarse
        return Speed(answers / max(seconds, least), answers / max(seconds - planning, least))

    @property
    def successes(self) -> int | None:
        """Number of trials that found the target; None if there is no target."""
        assessments = [trial.assessment.success for trial in self.trials]
        return None if None in assessments else sum(bool(assessment) for assessment in assessments)

    @property
    def worth(self) -> ResultVerdict:
        """Facts that the verdict states: the error beside a constant guess's and exact answers'.

        The same learner with exact answers is run when it is asked for; None where that would cost
        more than the study. Of several trials each figure is a mean; users that all trials share
        are met once.
        """
        learner, found = self.study.learner, {}
        for trial in self.trials:
            people = trial.population
            if id(people) not in found:
                found[id(people)] = reference_of(learner, people, trial.outcome.answers)
        judged = replace(
            self._judged, reference=mean_of([found[id(trial.population)] for trial in self.trials])
        )
        return replace(
            judged,
            assessments=(self._with_absent(judged), *judged.assessments[1:]),
            advice=self._advice(judged),
            warnings=self.warnings,
            wide=wide_bounds(self.study, self.trials[0].population, self._learned, judged),
        )

    @property
    def error(self) -> float | None:
        """Error by the learner's measure, the mean over trials; None: it cannot be measured."""
        return self._judged.error

    @property
    def baseline(self) -> float | None:
        """Error of the learner's constant guess, the mean over trials; None: it is not known."""
        return self._judged.baseline

    @property
    def verdict(self) -> str:
        """Worth of the result in sentences, with what would help (`worth` says at what cost)."""
        return str(self.worth)

    @property
    def _judged(self) -> ResultVerdict:
        """Verdict without the same learner on exact answers, so at no cost."""
        first = self.trials[0]
        return ResultVerdict(
            presentation_of(self._learned),
            float(self.study.confidence),
            first.population.size,
            epsilon=self.study.epsilon,
            assessments=tuple(trial.assessment for trial in self.trials),
            success=_success_of(self.study.learner.name),
            answered=any(trial.outcome.answers for trial in self.trials),
            lying=any(trial.is_lied_to for trial in self.trials),
        )

    @property
    def _subject(self) -> dict[str, str]:
        """Columns in a title, if it differs from their list."""
        study = self.study
        found = subject_json(study.schema, study.fields, study.learner.parameters)
        return {key: self._names.in_text(text) for key, text in found.items()}

    def __repr__(self) -> str:
        users = counted(self.trials[0].population.size, "user")
        figures = (("error", self.error), ("baseline", self.baseline))
        known = [f"{name} {number:.3g}" for name, number in figures if number is not None]
        trials = [counted(len(self.trials), "trial")] if len(self.trials) > 1 else []
        epsilon = f"epsilon {self.study.epsilon:.9g}"
        return line_of(
            "Simulation",
            ", ".join([self._names.in_text(self.study.subject), users, epsilon, *known, *trials]),
        )

    def __str__(self) -> str:
        """Return the text that the command line prints."""
        return text_of(self._report)

    def _repr_html_(self) -> str:
        """Show in a notebook what the command line prints."""
        return html_of(self._report)

    @property
    def _report(self) -> CommandReport:
        return simulation_report(self.to_json(), self.presentation, every=False, verbose=False)

    def _with_absent(self, judged: ResultVerdict) -> Assessment:
        """Return trial 0's assessment; of complete cases with the true share of all others."""
        first, found = self.trials[0], judged.assessments[0]
        (share, *more) = judged.presentation.missing or (None,)
        if found.absent or share is None or more or not of_complete_cases(self._learned):
            return found
        fields = frozenset(self.study.fields)
        absent = 0 if fields <= first.whole else _absent(fields, first.population)
        return replace(found, absent=(absent / first.population.size,))

    def _advice(self, worth: ResultVerdict) -> tuple[str, ...]:
        """Return what would help, by the planner; none: answers are exact enough, or nothing."""
        if not worth.helped_by_users:
            return ()
        first = self.trials[0]
        tau = max((round_.tau for round_ in first.rounds), default=0.0)
        told = advice(self.study, first.population.size, tau, first.outcome.hypothesis)
        return () if told is None else told.options

    def write(self, path: str | Path) -> None:
        """Write one row per trial to a .jsonl or .parquet file."""
        write_rows(_trial_rows(self), Path(path))

    def to_arrow(self) -> Any:
        """Return the hypotheses' estimates as a `pyarrow.Table`, as `to_pandas` has them."""
        return to_arrow(_estimate_rows(self))

    def to_pandas(self) -> Any:
        """Return the hypotheses as a `pandas.DataFrame`, one row per estimate and trial.

        Columns are `trial`; then for estimates `group`, `name`, `estimate` (raw), `low`, `high`,
        `shown` (in the interval) and `truth`, and for others those of the hypothesis's `to_rows()`.

        Raises:
          InvalidParameter: the hypothesis has no table, or pandas or pyarrow is not installed.
        """
        return to_pandas(_estimate_rows(self))

    def trials_to_arrow(self) -> Any:
        """Return a `pyarrow.Table`, one row per trial."""
        return to_arrow(_trial_rows(self))

    def trials_to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, one row per trial: error, cost and hypothesis as JSON."""
        return to_pandas(_trial_rows(self))

    def picture(self, kind: str | None = None) -> Picture:
        """Draw a picture of the simulation.

        Args:
          kind: "result" (the hypothesis of trial 0), "trials" (every trial's error), "spending"
            (how many users were asked for how much of their epsilon) or "rounds" (users, answers,
            tolerance); None: the trials if there are several, else the result.

        Raises:
          InvalidParameter: no such picture, or one that would say nothing.
        """
        chosen = kind or ("trials" if len(self.trials) > 1 else "result")
        if chosen not in _PICTURES:
            raise unknown_name("plot", chosen, _PICTURES)
        return _PICTURES[chosen](self)

    def plot(self, path: str | Path, kind: str | None = None) -> None:
        """Write `picture` to a .png or .svg file."""
        self.picture(kind).save(path)

    def to_json(self) -> dict[str, Any]:
        """Return the result as the command line prints it; counts and details are trial 0's.

        Columns have their own names in it; of a schema in it the fields' names are kept.
        """
        first, names = self.trials[0].outcome, self._names
        errors = [t.assessment.error for t in self.trials if t.assessment.error is not None]
        users, worth = self.trials[0].population.size, self.worth
        return {
            "learner": self.study.learner.name,
            "fields": [names.own.get(name, name) for name in self.study.fields],
            **self._subject,
            "fleet": self.fleet,
            "users": users,
            "users_used": first.users_used,
            "users_saved": first.users_saved,
            "waves": self.study.conduct.waves,
            "epsilon": self.study.epsilon,
            "settings": names.in_json(self.settings),
            "trials": len(self.trials),
            "successes": self.successes,
            "error": {
                "mean": sum(errors) / len(errors) if errors else None,
                "max": max(errors, default=None),
            },
            "rounds": first.rounds,
            "baseline": worth.baseline,
            "reference": worth.reference,
            "placement": worth.placement.name.lower(),
            "verdict": names.in_text(str(worth)),
            "advice": names.in_json(list(worth.advice)),
            "missing_notes": names.in_json(list(worth.missing_notes)),
            "wide_bounds": names.in_json(list(map(str, worth.wide))),
            "details": dict(self.trials[0].assessment.details),
            "queries": first.queries,
            "hypothesis": names.in_json(hypothesis_json(first.hypothesis)),
            "bounds": bounds_json(self.trials[0].outcome),
            "truth": list(self.trials[0].assessment.truth) or None,
            "confidence": float(self.study.confidence),
            "answers": first.answers,
            "refusals": first.refusals,
            "reused": first.reused,
            "epsilon_spent": self.epsilon_spent.to_json(),
            **self._outer,
            "transcript": first.transcript,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "column_notes": self.trials[0].population.column_notes.every,
            "seconds": self.seconds,
            "answers_per_second": self.speed.whole,
            "steady_answers_per_second": self.speed.steady,
            "peak_memory_mb": self.peak_memory_mb,
        }

    @property
    def _outer(self) -> dict[str, Any]:
        """Key `outer`; empty where users lie, as more of them may than the statement assumes."""
        people = self.trials[0].population
        if self.trials[0].is_lied_to:
            return {}
        return outer_json(self.transcript, people.schema, delta_for(max(people.size, 1)))


def _success_of(learner: str) -> str:
    """Return what a success of a learner is, as its catalogue entry states; empty: nothing."""
    return next((entry.success for entry in learners() if entry.name == learner), "")


def _trial_rows(simulation: Simulation) -> list[dict[str, Any]]:
    """Return a row per trial: its hypothesis, error and costs."""
    return [
        {
            "trial": number,
            "learner": simulation.study.learner.name,
            "epsilon": simulation.study.epsilon,
            "users": trial.population.size,
            "users_used": trial.outcome.users_used,
            "users_saved": trial.outcome.users_saved,
            "success": trial.assessment.success,
            "error": trial.assessment.error,
            "baseline": trial.assessment.baseline,
            "rounds": trial.outcome.rounds,
            "queries": trial.outcome.queries,
            "answers": trial.outcome.answers,
            "refusals": trial.outcome.refusals,
            "max_spent_nano_nats": trial.outcome.spending.max_spent,
            "transcript": trial.outcome.transcript,
            "hypothesis": json.dumps(
                simulation._names.in_json(hypothesis_json(trial.outcome.hypothesis))
            ),
            "notes": json.dumps(trial.notes),
            "seconds": trial.seconds,
        }
        for number, trial in enumerate(simulation.trials)
    ]


def _estimate_rows(simulation: Simulation) -> list[dict[str, Any]]:
    """Return a row per estimate and trial, or per row of the hypothesis's own table."""
    return [
        {"trial": number, **simulation._names.in_json(row)}
        for number, trial in enumerate(simulation.trials)
        for row in table_of(
            trial.outcome.hypothesis, trial.assessment.truth, simulation.study.learner.name
        )
    ]


def _estimates(hypothesis: Any, name: str) -> dict[str, Any] | None:
    """Return a hypothesis's estimates by cell; a lone one is named `name`; None: none."""
    means = hypothesis.get("means") if isinstance(hypothesis, dict) else None
    for cells in ({name: hypothesis}, hypothesis, means):  # a number's, shares, a vector's
        if isinstance(cells, dict) and all(map(_is_estimate, cells.values())):
            return cells
    return None


def _is_estimate(item: Any) -> bool:
    """Return whether an item is an estimate, by its number; a cell may be named "estimate", too."""
    return isinstance(item, dict) and isinstance(item.get("estimate"), float)


def _result_picture(simulation: Simulation) -> Picture:
    first = simulation.trials[0]
    return hypothesis_picture(
        simulation.study, first.population, simulation._learned, first.assessment
    )


def _trials_picture(simulation: Simulation) -> Picture:
    assessments = [trial.assessment for trial in simulation.trials]
    return trials(assessments, Content(_run_title(simulation)))


def _spending_picture(simulation: Simulation) -> Picture:
    return spending(simulation.transcript, simulation.study.epsilon, _run_title(simulation))


def _rounds_picture(simulation: Simulation) -> Picture:
    return rounds(simulation.trials[0].rounds, _run_title(simulation))


def _run_title(simulation: Simulation) -> str:
    return run_title(simulation.study, simulation.trials[0].population)


_PICTURES: Mapping[str, Callable[[Simulation], Picture]] = MappingProxyType(
    {
        "result": _result_picture,
        "trials": _trials_picture,
        "spending": _spending_picture,
        "rounds": _rounds_picture,
    }
)


_MOST = 5  # notes; a learner may have asked thousands of questions


def absences(
    transcript: Transcript,
    population: Population,
    hypothesis: object,
    whole: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """List, per question, the number of users without a value, and how they count."""
    notes = []
    left_out = leaves_out_missing(hypothesis)
    for query in _asked(transcript, population):
        absent = 0 if query.fields_used <= whole else _absent(query.fields_used, population)
        if absent:
            fields = " or ".join(sorted(query.fields_used))
            notes.append(
                f"{absent:,} of {population.size:,} users have no valid value of {fields}"
                f" and {'are left out of its estimate' if left_out else _counted(query)}"
            )
        if len(notes) == _MOST:
            break
    return tuple(notes)


def _asked(transcript: Transcript, population: Population) -> Iterator[Query]:
    """Generate every question once, by its fields."""
    seen: set[frozenset[str]] = set()
    for event in transcript.recorded:
        if not isinstance(event, Asked):
            continue
        for data in event.questions:
            query = query_from_bytes(data, population.schema)
            if query.fields_used not in seen:
                seen.add(query.fields_used)
                yield query


def _absent(fields: frozenset[str], population: Population) -> int:
    """Return the number of users who lack some of the fields."""
    if population.types is not None:
        return population.types.absent(fields)
    absent = 0
    for start, stop in population.stretches():
        columns = population.columns(start, stop)
        present = np.ones(len(columns), np.bool_)
        for name in fields:
            present &= columns.present[name]
        absent += int(np.count_nonzero(~present))
    return absent


def _counted(query: Query) -> str:
    """Describe how a user without a value counts, if the hypothesis does not leave it out."""
    if has_missing_cell(query):
        return "are left out of its shares"
    return f"count as {_default(query)}"


def _default(query: Query) -> str:
    """Return the public default of a question, in its own terms."""
    match query.kind:
        case QueryKind.CATEGORY:
            name = cell_names(query)[query.default]
            return f"cell {name}" if name.isdecimal() else repr(name)  # a number names no value
        case QueryKind.PREDICATE:
            return "'yes'" if query.default else "'no'"
        case QueryKind.REAL:
            return _number(query)
        case QueryKind.VECTOR:
            return f"{_number(query)} in every component that depends on it"
        case QueryKind.SIGNED:
            return "the question's public default"


def _number(query: Query) -> str:
    """Return a number's default beside the range of answers, which may be scaled fields'."""
    unit = 1 << query.frac
    default, low, high = (value / unit for value in (query.default, query.low, query.high))
    middle = ", the middle" if 2 * query.default == query.low + query.high else ""
    return f"{default:g}{middle} (its answers range from {low:g} to {high:g})"
