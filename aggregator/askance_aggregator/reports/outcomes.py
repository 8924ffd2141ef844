"""Reports of what a learner concluded: of a simulation, and of a study on an aggregator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from askance_aggregator.names import MAX_NAMED, ColumnNames, with_own_names
from askance_aggregator.reports.figures import nats_text, risk_line
from askance_aggregator.reports.guarantees import guarantees_text, series_guarantee_text
from askance_aggregator.reports.report import CommandReport, Part, presentation_body
from askance_aggregator.reports.texts import counted, population_text, settings_line

if TYPE_CHECKING:
    from askance_aggregator.learners import Presentation
    from askance_aggregator.reports.verdict import ResultVerdict


_MAX_SHOWN = 8  # of more answers, the one that matters most stands for all


def bounds_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Format each answer's users, interval width, influence of one liar, and lower bound.

    The lower bound is the number of users that the best possible randomizers need for that width.
    """
    shown, head = _shown(rows, "within", "answer", "the one with the widest interval")
    return head + [
        f"round {row['round'] + 1}, question {row['question'] + 1}:"
        f" {counted(row['answers'], 'answer')}, within {row['within']:.4g}; one false report"
        f" moves it by at most {row['one_report_moves_by']:.4g}{_least(row)}"
        for row in shown
    ]


def influence_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Format the influence of one report on each question, of a study without an outcome."""
    shown, head = _shown(rows, "one_report_moves_by", "question", "the one moved the furthest")
    return head + [
        f"one false report moves question {row['question'] + 1} of round {row['round'] + 1} by"
        f" at most {row['one_report_moves_by']:.4g}"
        for row in shown
    ]


def _shown(
    rows: list[dict[str, Any]], measure: str, thing: str, which: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows to be shown; of many the one with the greatest measure, with a heading."""
    if len(rows) <= _MAX_SHOWN:
        return rows, []
    widest = max(rows, key=lambda row: float(row[measure]))
    return [widest], [f"of {counted(len(rows), thing)}, {which}:"]


def _least(row: dict[str, Any]) -> str:
    """Format the lower bound; empty if it is unknown, or if any number of users may suffice."""
    if not row["least_users"]:
        return ""
    easier = " (this one is easier)" if row["least_users"] > row["answers"] else ""
    users = counted(row["least_users"], "user")
    return f"; lower bound for this width, any randomizer, worst population: {users}{easier}"


Advise = Callable[[], tuple[str, ...]]
"""Returns what would help a study, by the planner, in a few words each."""

_NANO = 10**9


def simulation_report(
    result: dict[str, Any], presentation: Presentation, *, every: bool, verbose: bool
) -> CommandReport:
    """Make the report of a simulation from its `to_json` and trial 0's presentation.

    `every` prints all rows, `verbose` raw estimates too.
    """
    truth = result["truth"] or ()
    warnings = [
        *presentation.notes,
        *result["missing_notes"],
        *result["wide_bounds"],
        *result["notes"],
    ]
    if result["trials"] > 1:
        warnings.insert(0, f"shown is the first of {counted(result['trials'], 'trial')}")
    spent = result["epsilon_spent"]
    cost = cost_line(
        users=result["users"],
        asked=result["users_used"],
        answers=result["answers"],
        budget=result["epsilon"],
        max_spent=spent["max"],
        mean_spent=spent["mean"],
        saved=result["users_saved"],
    )
    return CommandReport(
        title=_title(result, presentation, result["users"], result["epsilon"]),
        body=presentation_body(presentation, truth, every=every, verbose=verbose),
        verdict=result["verdict"],
        cost=f"{cost} {risk_line(spent['max'])}  {result['seconds']:.1f} s",
        guarantees=_guarantees(result, spent["max"]),
        warnings=warnings,
        details=_simulation_details(result),
    )


def report_of_content(
    content: Mapping[str, Any], *, every: bool, verbose: bool, advise: Advise | None = None
) -> CommandReport:
    """Make the report of a study's result as an aggregator sends it, with columns' own names."""
    shown = presentation_of_content(content)
    return study_report(with_own_names(content), shown, every=every, verbose=verbose, advise=advise)


def presentation_of_content(content: Mapping[str, Any]) -> Presentation | None:
    """Return the presentation of a result's hypothesis, if any, with columns' own names."""
    from askance_aggregator.learners import presentation_of_json

    found = content.get("hypothesis")
    if found is None:
        return None
    return presentation_of_json(content["learner"], found).named(ColumnNames.of_result(content))


def study_report(
    content: dict[str, Any],
    presentation: Presentation | None,
    *,
    every: bool,
    verbose: bool,
    advise: Advise | None = None,
) -> CommandReport:
    """Make the report of an ended study; `presentation` is None if it came to no hypothesis.

    `every` prints all rows, `verbose` raw estimates too. `advise` is called where more users or a
    greater epsilon would help; None: nothing is advised.
    """
    epsilon = content["epsilon"]
    # A user whose answer was lost has spent what was asked for, which older results lack.
    spent = max(epsilon["max_spent"], epsilon.get("max_asked_nano_nats", 0) / _NANO)
    state = "" if content["state"] == "done" else f": {content['state']}"
    title = _title(content, presentation, content["users"], epsilon["budget"])
    if "number" in content:
        title += f", epoch {content['number']} of {content['epochs']} from {content['first_day']}"
    verdict = None if presentation is None else study_verdict(content, presentation)
    if verdict is not None and advise is not None and verdict.helped_by_users:
        verdict = replace(verdict, advice=advise())
    warnings = [] if verdict is None else [*verdict.presentation.notes, *verdict.missing_notes]
    refused = sum(content["refusals"].values())
    if refused:
        reasons = (f"{why.replace('_', '-')} {n:,}" for why, n in content["refusals"].items())
        warnings.append(f"{counted(refused, 'refusal')}: {', '.join(reasons)}")
    if content.get("reused"):
        warnings.insert(0, content["time"])
    if not content["reconciled"]:
        warnings.append(
            "the spending that devices report differs from the charges they were asked for"
        )
    body: list[Part] = (
        []
        if presentation is None
        else presentation_body(presentation, (), every=every, verbose=verbose)
    )
    return CommandReport(
        title=f"{title}{state}",
        body=[*body, *population_lines(content), f"  study {content['study']}"],
        verdict="" if verdict is None else str(verdict),
        cost=cost_line(
            users=content["users"],
            asked=content["users_asked"],
            answers=content["answers"],
            budget=epsilon["budget"],
            max_spent=spent,
            mean_spent=epsilon["mean_spent"],
        ),
        guarantees=_guarantees(content, spent),
        warnings=warnings,
        details=_study_details(content),
    )


def _guarantees(result: Mapping[str, Any], spent: float) -> str:
    """State both guarantees of a result with answers; of another one there is nothing to read."""
    if not result["answers"]:
        return ""
    of_all = series_guarantee_text(result)
    return " ".join(filter(None, (guarantees_text(spent, result.get("outer")), of_all)))


def study_verdict(content: dict[str, Any], presentation: Presentation) -> ResultVerdict:
    """Make the verdict on a deployed study, of which no truth is known."""
    from askance_aggregator.reports.verdict import (
        ResultVerdict,
    )  # imports NumPy, which few commands need

    return ResultVerdict(
        presentation,
        content["confidence"],
        content["users"],
        epsilon=content["epsilon"]["budget"],
        answered=bool(content["answers"]),
        unasked=_widened(content),
        reused=content.get("reused", 0),
    )


def _widened(content: dict[str, Any]) -> float:
    """Return how many times as wide intervals were before any user was asked; 0: not known."""
    # The answer with the greatest ratio counts. Results of earlier versions lack the figure.
    before, within = content.get("unasked", ()), [one["within"] for one in content["bounds"]]
    if not within or len(before) != len(within) or not all(within):
        return 0.0
    return max(float(old / new) for old, new in zip(before, within, strict=True))


def population_lines(content: dict[str, Any]) -> list[str]:
    """Format the devices that a study or its plan is about; no lines for all devices."""
    found = content.get("population")
    return [] if found is None else [f"  population: {population_text(found)}"]


def verification_report(found: dict[str, Any]) -> CommandReport:
    """Make the report of an export that was verified: what was checked, and what was not."""
    body: list[Part] = []
    for head, lines in (("checked", found["checked"]), ("not checked", found["believed"])):
        body += [f"{head}:", *(f"  {line}" for line in lines)]
    return CommandReport(
        title=f"study {found['study']} ({found['state']})",
        body=body,
        verdict=f"The export holds together: {counted(found['rounds'], 'round')} of"
        f" {counted(found['answers'], 'answer')} replayed, signed by {found['public_key']}.",
        details=[f"transcript {found['transcript']}"],
    )


def cost_line(
    *,
    users: int,
    asked: int,
    answers: int,
    budget: float,
    max_spent: float,
    mean_spent: float,
    saved: int = 0,
) -> str:
    """Say what a study cost its users: budgets and spending in nats, the mean over all users.

    `saved` users were planned for and not asked.
    """
    equal = abs(mean_spent * users - max_spent * asked) <= 1e-9 * max(users * budget, 1.0)
    spent = f"{'' if equal else 'at most '}{nats_text(max_spent, budget)}"
    if not asked:
        told = "No user was asked"
    elif answers == asked == users:
        told = f"Each of {counted(users, 'user')} answered once and spent {spent}"
    elif answers == asked:
        told = f"{asked:,} of {counted(users, 'user')} answered once each and spent {spent}"
    else:
        of = "" if asked == users else f"{asked:,} of "
        were = "was" if asked == 1 else "were"
        told = (
            f"{of}{counted(users, 'user')} {were} asked and gave {counted(answers, 'answer')};"
            f" each spent {spent}"
        )
    return f"{told}; {counted(saved, 'user')} less than planned." if saved else f"{told}."


def _title(
    result: dict[str, Any], presentation: Presentation | None, users: int, epsilon: float
) -> str:
    fields = result["fields"]
    subject = "" if presentation is None else presentation.subject
    subject = subject or result.get("subject", "")
    if not subject:
        named = 0 < len(fields) <= MAX_NAMED
        subject = ", ".join(fields) if named else counted(len(fields), "field")
    return f"{result['learner']} of {subject}, {counted(users, 'user')}, epsilon {epsilon:.9g}"


def _simulation_details(result: dict[str, Any]) -> list[str]:
    error, spent = result["error"], result["epsilon_spent"]
    lines = [
        f"{result['fleet']} fleet; {counted(result['rounds'], 'round')} of"
        f" {counted(result['queries'], 'query')}, {counted(result['answers'], 'answer')},"
        f" {counted(result['refusals'], 'refusal')}"
    ]
    if result["settings"]:
        lines.append(settings_line(result["settings"]))
    if error["max"] is not None:
        lines.append(f"error: mean {error['mean']:.4g}, max {error['max']:.4g}")
    lines += bounds_lines(result["bounds"])
    more = [f"{spent['at_delta']:.4g} at delta {spent['delta']:g}"] if "at_delta" in spent else []
    if spent["mean"] < spent["max"]:
        more.append(f"{spent['mean']:.4g} in the mean over all users")
    if more:  # the greatest is on the line of the cost
        lines.append(f"epsilon spent: {', '.join(more)}")
    if result["waves"] > 1:
        lines.append(f"users of a round asked in up to {counted(result['waves'], 'wave')}")
    lines.append(
        f"{result['answers_per_second']:,.0f} answers/s"
        f" ({result['steady_answers_per_second']:,.0f} once planned),"
        f" {result['peak_memory_mb']:.0f} MB"
    )
    lines += result.get("column_notes", ())
    return [*lines, f"transcript {result['transcript']}"]


def _reuse_lines(content: dict[str, Any]) -> list[str]:
    """Format the fresh and reused answers of each round; none for a result without reuse."""
    if not content.get("reused"):
        return []
    return [
        f"round {number}: {one['fresh']:,} fresh, {one['reused']:,} reused"
        for number, one in enumerate(content["answers_by_round"], start=1)
    ]


def _study_details(content: dict[str, Any]) -> list[str]:
    lines = [
        f"asked about: {', '.join(content['fields']) or 'no field'}",
        f"closed: {counted(content['rounds'], 'round')} of {counted(content['queries'], 'query')},"
        f" {counted(content['answers'], 'answer')}",
        *_reuse_lines(content),
        f"{content['privacy']}",
    ]
    if content["bounds"]:
        lines += bounds_lines(content["bounds"])
    else:  # of a study that came to no end
        lines += influence_lines(content["influence"])
    return [*lines, f"transcript {content['transcript']}"]
