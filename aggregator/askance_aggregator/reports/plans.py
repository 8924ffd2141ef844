"""Report of a plan: users, questions and tolerance by round."""

from __future__ import annotations

from typing import Any

from askance_aggregator.reports.figures import nats_text, risk_line
from askance_aggregator.reports.guarantees import guarantees_text
from askance_aggregator.reports.outcomes import population_lines
from askance_aggregator.reports.report import CommandReport, Grid, more_rows, shown_rows
from askance_aggregator.reports.texts import counted, settings_line

_MOST_SHARES = 8  # that are shown of a round


def plan_report(
    learner: str, result: dict[str, Any], *, every: bool, verbose: bool
) -> CommandReport:
    """Make the report of a plan, given as `StudyPlan.to_json` has it.

    `learner` is empty if it is not known. `every` shows all rounds; `verbose` adds allocations,
    randomizers, losses and lower bounds.
    """
    rows, users = _equal_rounds(result["rounds"]), result["users"]
    places = shown_rows(len(rows), every=every)
    shown = [rows[place] for place in places]
    needed = counted(result["users_needed"], "user")
    most = max((row["privacy_loss"] for row in result["rounds"]), default=0.0)
    details = [f"asks about: {', '.join(result['fields']) or 'no field'}"]
    if result["settings"]:
        details.append(settings_line(result["settings"]))
    details += _allocations(shown)
    details.append(
        "x bound: users over those that the round's hardest value takes at least, whatever the"
        " randomizers; n x variance: of one answer, by the users who are asked"
    )
    warnings = list(result.get("notes", ()))  # an earlier aggregator has none
    if any(row["waves"] > 1 for row in result["rounds"]):
        warnings.append("in waves: fewer users where the first waves are exact enough")
    name = f"plan of {learner}" if learner else "plan"
    return CommandReport(
        title=f"{name}, epsilon {result['epsilon']:.9g}, beta {result['beta']:g}",
        body=[
            (_details if verbose else _rounds)(shown),
            *more_rows(len(rows), len(shown)),
            *(f"  {line}" for line in _curve_lines(result)),
            *(f"  {line}" for line in _outer_lines(result)),
            *(f"  {line}" for line in course_lines(result.get("course"))),
            *population_lines(result),
        ],
        verdict=f"{needed} in all{'' if users is None else f'; there are {users:,}'}.",
        cost=f"Each user who is asked spends {nats_text(most, result['epsilon'])}."
        f" {risk_line(most)}",
        warnings=warnings,
        details=details,
        guarantees=(
            guarantees_text(most, result.get("outer"), "its tallies")
            if result.keys() & {"outer", "outer_wanted"}
            else ""
        ),
    )


def _curve_lines(result: dict[str, Any]) -> list[str]:
    """Format how the least epsilon was found; no lines where it was given."""
    curve, users = result.get("curve"), result["users"]
    if curve is None or not result["feasible"]:
        return []
    least = f"epsilon {result['epsilon']:.9g} is the least from which on {users:,} users are enough"
    below = [row for row in curve["points"] if row["epsilon"] < result["epsilon"]]
    if below:
        needed = below[-1]["users_needed"]
        short = "the study is refused" if needed is None else f"the plan needs {needed:,}"
        least += f"; at {below[-1]['epsilon']:.9g} {short}"
    return [least, f"of the grid: {curve['grid']}"]


def _outer_lines(result: dict[str, Any]) -> list[str]:
    """Format how an epsilon follows from an outer one, and the errors of other ways to keep it."""
    found = result.get("outer_wanted")
    if found is None:
        return []
    wanted, most = f"{found['epsilon']:.9g}", found["local_at_most"]
    beside = found["beside"]
    own, alone, curator = (_cost(beside, name) for name in ("own", "local_only", "curator"))
    return [
        f"epsilon {result['epsilon']:.9g} is the greatest, up to {most:.9g}, that keeps {wanted}"
        f" towards readers; with fewer than {found['answers']:,} answers in a group the study ends"
        " without a result, and promises readers no less",
        f"{own}; by reports that alone keep {wanted}: {alone}; by a trusted curator: {curator}",
    ]


def _cost(beside: dict[str, Any], name: str) -> str:
    cost = beside[name]
    if cost is None:
        return "not possible"
    return f"tau {cost:.4g}" if beside["cost"] == "tau" else counted(cost, "user")


def course_lines(course: dict[str, Any] | None) -> list[str]:
    """Format a course, as `Course.to_json` has it; no lines for None."""
    if course is None:
        return []
    lines = [
        f"repeated: {counted(course['epochs'], 'epoch')} of {counted(course['every_days'], 'day')},"
        f" {counted(course['users_per_epoch'], 'user')} and {course['epsilon_per_epoch']:.9g} nats"
        " per user in each",
    ]
    for budget, epoch in course["first_refused"].items():
        lines.append(
            f"the {budget} budget of a user who is asked in every epoch first refuses epoch {epoch}"
        )
    times = counted(course["epochs_answered"], "time")
    total = f"a user who is in every epoch answers {times} and spends"
    total += f" {course['epsilon_total']:.9g} nats (pure, the sum of fresh answers)"
    if course["delta"] is not None:
        total += f"; {course['epsilon_at_delta']:.4g} at delta {course['delta']:g}"
    lines.append(total)
    if course["epochs_per_user"] is not None:
        lines.append(f"a user is asked in {course['epochs_per_user']:.4g} epochs on average")
    return lines


def _equal_rounds(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rounds with their numbers, from 1; those that follow an equal one beside it."""
    found: list[dict[str, Any]] = []
    for number, row in enumerate(rounds, start=1):
        if found and {**found[-1], "numbers": None} == {**row, "numbers": None}:
            found[-1]["numbers"] = (found[-1]["numbers"][0], number)
        else:
            found.append({**row, "numbers": (number, number)})
    return found


def _numbers(row: dict[str, Any]) -> str:
    first, last = row["numbers"]
    return str(first) if first == last else f"{first} .. {last}"


def _users(row: dict[str, Any]) -> str:
    """Return the users of a round; of several, those of each of them."""
    first, last = row["numbers"]
    return f"{row['users']:,}" if first == last else f"{row['users']:,} each"


def _rounds(rows: list[dict[str, Any]]) -> Grid:
    rounds = Grid(["  round", "questions", "users", "tau"])
    for row in rows:
        rounds.add_row(f"  {_numbers(row)}", str(row["queries"]), _users(row), _tau(row))
    return rounds


def _details(rows: list[dict[str, Any]]) -> Grid:
    heads = ["  round", "questions", "users", "x bound", "allocation", "randomizer", "loss", "tau"]
    words = ("allocation", "randomizer")
    rounds = Grid([*heads, "n x variance"], left=words, long=("randomizer",))
    for row in rows:
        rounds.add_row(
            f"  {_numbers(row)}",
            str(row["queries"]),
            _users(row),
            _over(row["users"], row["lower_bound"]),
            row["allocation"],
            row["randomizer"],
            f"{row['privacy_loss']:.9g}",
            _tau(row),
            f"{row['n_variance']:.4g}",
        )
    return rounds


def _tau(row: dict[str, Any]) -> str:
    return "-" if row["tau"] is None else f"{row['tau']:.4g}"


def _allocations(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line on the choice of allocation, and one on its groups, per round of several."""
    told: list[str] = []
    for row in rows:
        if row["queries"] > 1:
            told += [f"round {_numbers(row)}: {_ways(row)}", f"  {_shares(row['shares'])}"]
    return told


def _ways(row: dict[str, Any]) -> str:
    """Format the users that each allocation needs, the least first."""
    ways = sorted(row["options"].items(), key=lambda way: way[1])
    told = ", ".join(f"{name} needs {users:,} users" for name, users in ways)
    least = min(row["options"].values())
    return told if row["users"] == least else f"{told}, for 1/20 of open ranges"


def _shares(shares: list[dict[str, Any]]) -> str:
    """Format the groups of a round: as many as are alike in one part."""
    parts = [
        f"{counted(share['groups'], 'question')} to {counted(share['users'], 'user')} each"
        f" at {share['privacy_loss']:.3g} nats ({share['randomizer']})"
        for share in shares[:_MOST_SHARES]
    ]
    more = len(shares) - len(parts)
    return "; ".join(parts) + (f"; {more} more (--json)" if more else "")


def _over(users: int, least: int) -> str:
    return f"{users / least:.3g}" if least else "-"
