"""Reports of what a learner concluded: of a simulation, and of a study on an aggregator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from askance_aggregator.reports.bounds import bounds_lines, influence_lines
from askance_aggregator.reports.figures import nats_text, number_text, share_text
from askance_aggregator.reports.report import CommandReport, Part, presentation_body
from askance_aggregator.reports.texts import counted, population_text, settings_line

if TYPE_CHECKING:
    from askance_aggregator.learners import EstimateRow, Presentation

_MAX_FIELDS = 3  # that a title names; of more it has the number
_NANO = 10**9
_ROUNDING = 1e-12  # of floats; an interval of exact answers has no width
_JUDGED_BY_WORTH = ("near_guess", "unanswered", "unknown")


def simulation_report(
    result: dict[str, Any], presentation: Presentation, *, every: bool, verbose: bool
) -> CommandReport:
    """Make the report of a simulation from its `to_json` and trial 0's presentation.

    `every` prints all rows, `verbose` raw estimates too.
    """
    truth = result["truth"] or ()
    warnings = [*presentation.notes, *result["notes"]]
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
        verdict=_verdict(result, presentation),
        cost=f"{cost}  {result['seconds']:.1f} s",
        warnings=warnings,
        details=_simulation_details(result),
    )


def study_report(
    content: dict[str, Any], presentation: Presentation | None, *, every: bool, verbose: bool
) -> CommandReport:
    """Make the report of an ended study; `presentation` is None if it came to no hypothesis.

    `every` prints all rows, `verbose` raw estimates too.
    """
    epsilon = content["epsilon"]
    found: tuple[EstimateRow, ...] = () if presentation is None else presentation.rows
    state = "" if content["state"] == "done" else f": {content['state']}"
    title = _title(content, presentation, content["users"], epsilon["budget"])
    if "number" in content:
        title += f", epoch {content['number']} of {content['epochs']} from {content['first_day']}"
    warnings = list(() if presentation is None else presentation.notes)
    refused = sum(content["refusals"].values())
    if refused:
        reasons = (f"{why.replace('_', '-')} {n:,}" for why, n in content["refusals"].items())
        warnings.append(f"{counted(refused, 'refusal')}: {', '.join(reasons)}")
    if content.get("reused"):
        warnings.insert(0, content["time"])
    if presentation is not None and not content["answers"]:
        warnings.insert(0, "no user answered: the hypothesis says nothing about the users")
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
        verdict=_joint(len(found), content["confidence"]),
        cost=cost_line(
            users=content["users"],
            asked=content["users_asked"],
            answers=content["answers"],
            budget=epsilon["budget"],
            # A user whose answer was lost has spent what was asked for, which older results lack.
            max_spent=max(epsilon["max_spent"], epsilon.get("max_asked_nano_nats", 0) / _NANO),
            mean_spent=epsilon["mean_spent"],
        ),
        warnings=warnings,
        details=_study_details(content),
    )


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
    if not subject:
        named = 0 < len(fields) <= _MAX_FIELDS
        subject = ", ".join(fields) if named else counted(len(fields), "field")
    return f"{result['learner']} of {subject}, {counted(users, 'user')}, epsilon {epsilon:.9g}"


def _verdict(result: dict[str, Any], presentation: Presentation) -> str:
    """Say what a simulated result is worth: intervals against the truth, then the error."""
    truth, rows = result["truth"], presentation.rows
    covered = _covered(rows, truth, result) if truth and len(truth) == len(rows) else ""
    told = [covered, _successes(result) if result["trials"] > 1 else ""]
    if covered and result["placement"] not in _JUDGED_BY_WORTH:
        error, guess = (
            number_text(number, share=presentation.shares)
            for number in (result["error"]["mean"], result["baseline"])
        )
        no_better = result["placement"] == "no_better"
        told.append("No better than guessing." if no_better else "")
        told.append(f"Error {error}; of a constant guess {guess}.")
        if result["advice"]:
            told.append(f"Planned for more exact answers: {'; '.join(result['advice'])}.")
        told += [f"But {warning}." for warning in result["warnings"]]
    else:
        told.append(f"{result['verdict'][:1].upper()}{result['verdict'][1:]}.")
    return " ".join(filter(None, told))


def _covered(rows: Sequence[EstimateRow], truth: Sequence[float], result: dict[str, Any]) -> str:
    """Say how many intervals contain the truth."""
    held = sum(
        row.low - _ROUNDING <= true <= row.high + _ROUNDING
        for row, true in zip(rows, truth, strict=True)
    )
    level = share_text(result["confidence"])
    if len(rows) == 1:
        verb = "contains" if held else "does not contain"
        return f"The interval ({level}) {verb} the true value."
    which = f"All {len(rows):,}" if held == len(rows) else f"{held:,} of {len(rows):,}"
    return f"{which} intervals ({level}, joint) contain the true value."


def _joint(rows: int, confidence: float) -> str:
    if not rows:
        return ""
    level = share_text(confidence)
    if rows == 1:
        return f"The interval contains the true value with a confidence of {level}."
    return f"The {rows:,} intervals contain the true values, jointly, with a confidence of {level}."


def _successes(result: dict[str, Any]) -> str:
    """Format the successes by what a success of the learner is, as its catalogue entry states."""
    from askance_aggregator.learners import LearnerEntry, learners

    if result["successes"] is None:
        return ""
    entries: dict[str, LearnerEntry] = {entry.name: entry for entry in learners()}
    entry = entries.get(result["learner"])
    what = entry.success if entry is not None and entry.success else "right"
    told = f"{what} in {result['successes']:,} of {counted(result['trials'], 'trial')}."
    return f"{told[0].upper()}{told[1:]}"


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
    lines += [f"verdict: {result['verdict']}", *bounds_lines(result["bounds"])]
    at_delta = (
        f" ({spent['at_delta']:.4g} at delta {spent['delta']:g})" if "at_delta" in spent else ""
    )
    lines.append(f"epsilon spent: max {spent['max']:.9g}{at_delta}, mean {spent['mean']:.4g}")
    if result["waves"] > 1:
        lines.append(f"users of a round asked in up to {counted(result['waves'], 'wave')}")
    lines.append(
        f"{result['answers_per_second']:,.0f} answers/s"
        f" ({result['steady_answers_per_second']:,.0f} once planned),"
        f" {result['peak_memory_mb']:.0f} MB"
    )
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
