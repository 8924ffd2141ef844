"""Pictures of a run: its hypothesis, trials, rounds, spending; and of the result of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from askance_aggregator.learners import Assessment
from askance_aggregator.learners.presentation import Presentation, presentation_of
from askance_aggregator.learners.shapes import NoShape, shape_on_rows, shape_with_texts
from askance_aggregator.names import names_of, with_own_names
from askance_aggregator.reports.outcomes import presentation_of_content
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Asked, Header
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.drawings import draw
from askance_simulation.plots.picture import Content, Picture, fitted_figure, new_figure
from askance_simulation.populations import Population
from askance_simulation.summaries import RoundTaken

_LABELLED = 12  # rounds; bars of more are too narrow for numbers


def rounds(taken: Sequence[RoundTaken], title: str) -> Picture:
    """Return users and answers of every round, and the tolerance of its answers below."""
    figure = new_figure(height=5.0)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
    places = [number + 1 for number in range(len(taken))]
    width = 0.38
    for shift, name, colour in (
        (-width / 2, "users", style.QUIET),
        (width / 2, "answers", style.ACCENT),
    ):
        heights = [getattr(one, name) for one in taken]
        bars = above.bar([at + shift for at in places], heights, width, color=colour, label=name)
        if len(taken) <= _LABELLED:
            above.bar_label(
                bars, [style.short(height, 3) for height in heights], fontsize=8, padding=2
            )
    style.plain(above, title, "", "users, answers")
    above.margins(y=0.15)
    above.yaxis.set_major_formatter(lambda value, _: style.short(value))
    style.legend_beside(above)
    below.plot(places, [one.tau for one in taken], "o-", color=style.BAD, markersize=5)
    style.plain(below, "", "round", "tolerance τ")
    if style.wide([one.tau for one in taken]):
        below.set_yscale("log")
        below.margins(y=0.3)
        style.logarithmic(below)
    else:
        below.set_ylim(0, 1.3 * max(one.tau for one in taken))
    if len(taken) <= _LABELLED:
        for at, one in zip(places, taken, strict=True):
            _over(below, at, one.tau)
    if len(taken) <= _LABELLED:
        counts = [f"{at}\n{one.queries:,} q." for at, one in zip(places, taken, strict=True)]
        below.set_xticks(places, counts)
        below.set_xlabel("round, and how many queries it had")
    else:
        below.xaxis.get_major_locator().set_params(integer=True)
    below.set_xlim(0.4, len(taken) + 0.6)
    return Picture(figure)


def _over(axes: Any, at: int, tau: float) -> None:
    axes.annotate(
        f"{tau:.3g}", (at, tau), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8
    )


_MOST_BARS = 12
_BINS = 30


def spending(transcript: Transcript, budget: float, title: str) -> Picture:
    """Draw the number of users by the epsilon that they were asked for.

    By the transcript: what a device spent is that at most, and less where it did not answer or
    had answered the same before.
    """
    figure = new_figure(height=3.6)
    axes = figure.add_subplot()
    users = asked_for(transcript)
    levels = sorted(users)
    if len(levels) <= _MOST_BARS:
        places = list(range(len(levels)))
        bars = axes.bar(places, [users[level] for level in levels], color=style.ACCENT, width=0.6)
        axes.set_xticks(places, [f"{level / NANO_NATS_PER_NAT:.4g}" for level in levels])
        axes.bar_label(bars, [f"{users[level]:,}" for level in levels], fontsize=9, padding=2)
        aside = 0.8 if len(levels) > 1 else 1.6  # a lone bar is to look like one
        axes.set_xlim(-aside, len(levels) - 1 + aside)
    else:
        spent = [level / NANO_NATS_PER_NAT for level in levels]
        axes.hist(spent, _BINS, weights=[users[level] for level in levels], color=style.ACCENT)
        axes.axvline(budget, color=style.INK, linestyle="--", linewidth=1)
    across = f"ε that a user was asked to spend (budget: {budget:.4g})"
    style.plain(axes, title, across, "users")
    axes.margins(y=0.12)
    axes.yaxis.set_major_formatter(lambda value, _: style.short(value))
    return Picture(figure)


def asked_for(transcript: Transcript) -> dict[int, int]:
    """Count users by the nano-nats they were asked for, those asked for none included."""
    steps: Counter[int] = Counter()
    population = 0
    for event in transcript.recorded:
        if isinstance(event, Header):
            population = event.population
        if isinstance(event, Asked):
            for group in event.groups:
                steps[group.start] += group.nano_nats
                steps[group.stop] -= group.nano_nats
    return _levels(steps, population)


def _levels(steps: Counter[int], population: int) -> dict[int, int]:
    """Count users by their charge in nano-nats, from its changes along the ordinals."""
    users: Counter[int] = Counter()
    charged, before = 0, 0
    for place in sorted(steps):
        users[charged] += place - before
        charged, before = charged + steps[place], place
    users[charged] += population - before
    return {level: count for level, count in users.items() if count}


def trials(assessments: Sequence[Assessment], content: Content) -> Picture:
    """Draw every trial's error, and a line at a constant guess's."""
    errors = _errors(assessments)
    if len(errors) < 2:
        raise InvalidParameter("plot: expected several trials, got one (--trials 20)")
    guess = _guess(assessments)
    successes = [one.success for one in assessments]
    wrong = [place for place, right in enumerate(successes) if right is False]
    others = [place for place in range(len(errors)) if place not in set(wrong)]
    judged = any(right is not None for right in successes)
    figure = fitted_figure(3.6)
    axes = figure.add_subplot()
    for places, colour, marker, label in (
        (others, style.ACCENT, "o", "a success" if judged else "a trial"),
        (wrong, style.BAD, "X", "no success"),
    ):
        if places:
            heights = [errors[place] for place in places]
            across = [place + 1 for place in places]
            axes.scatter(across, heights, c=colour, s=24, marker=marker, label=label)
    if guess is not None:
        axes.axhline(guess, color=style.QUIET, linestyle="--", label="a constant guess")
    style.plain(axes, "", "trial", "error")
    style.head(figure, content.title("Error of each trial"))
    style.legend_above(axes)
    top = 1.1 * max(*errors, guess or 0.0) or 0.1
    axes.set_ylim(bottom=-top / 40, top=top)  # space for the points on zero
    # Space around whole numbers, also around a few.
    axes.set_xlim(0.5, len(errors) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    style.remark(figure, content.remark)
    return Picture(figure)


def beside_guess(assessment: Assessment, content: Content) -> Picture:
    """Draw the error of one trial above that of a constant guess."""
    (error,) = _errors([assessment])
    guess = _guess([assessment])
    if guess is None:
        raise InvalidParameter(
            f"plot: expected several trials, got one, whose error of {error:.4g} is no picture"
            " by itself (--trials 20; or --picture rounds)"
        )
    figure = fitted_figure(2.4)
    axes = figure.add_subplot()
    axes.barh([1, 0], [error, guess], color=[style.ACCENT, style.QUIET], height=0.6)
    for place, value in ((1, error), (0, guess)):
        axes.annotate(
            f"{value:.3g}", (value, place), xytext=(4, 0), textcoords="offset points", va="center"
        )
    style.plain(axes, "", "error", "")
    style.head(figure, content.title("Error beside that of a constant guess"))
    axes.set_yticks([1, 0], ["this result", "a constant guess"])
    axes.set_xlim(0, 1.15 * max(error, guess, 1e-9))
    style.grid_across(axes)
    style.remark(figure, content.remark)
    return Picture(figure)


def _errors(assessments: Sequence[Assessment]) -> list[float]:
    errors = [one.error for one in assessments if one.error is not None]
    if len(errors) < len(assessments):
        raise InvalidParameter("plot: expected a hypothesis with a truth to compare with, got none")
    return errors


def _guess(assessments: Sequence[Assessment]) -> float | None:
    """Return the mean error of the constant guess; None: no trial has one."""
    known = [one.baseline for one in assessments if one.baseline is not None]
    return sum(known) / len(known) if known else None


_TESTED_ROWS = 20_000  # at most: a share of them is off by 0.004, one standard error


def result_picture(content: Mapping[str, Any]) -> Picture:
    """Draw the result of a study from its JSON, in which there is neither a truth nor a row."""
    presentation = presentation_of_content(content) or Presentation()
    epsilon = content["epsilon"]["budget"]
    run = _run(content["learner"], content["users"], epsilon)
    fields = with_own_names(content).get("fields") or ()
    return draw(presentation.shape, _content(presentation, run, content["confidence"], fields))


def hypothesis_picture(
    study: Study, people: Population, hypothesis: object, assessment: Assessment
) -> Picture:
    """Draw the hypothesis of a trial: its shape, or its error where it has none."""
    names = names_of(people.schema, study.schema)
    presentation, shape = presentation_of(hypothesis).named(names), None
    content = _content(
        presentation,
        run_title(study, people),
        float(study.confidence),
        tuple(map(names.in_text, study.fields)),
        assessment.truth,
        _compared(assessment.error, assessment.baseline),
    )
    if people.unseen is not None:
        shape = shape_on_rows(hypothesis, people.unseen(_TESTED_ROWS), people.schema)
    if shape is not None:
        shape = shape_with_texts(shape, names.in_text)
    shape = shape or presentation.shape
    drawn = shape is not None and type(shape) is not NoShape
    if drawn or content.rows or assessment.error is None:
        return draw(shape, content)
    return beside_guess(assessment, content)


def run_title(study: Study, people: Population) -> str:
    """Return learner, users and epsilon, for a title."""
    return _run(study.learner.name, people.size, study.epsilon)


def _content(
    presentation: Presentation,
    run: str,
    confidence: float,
    fields: Sequence[str],
    truth: tuple[float, ...] = (),
    remark: str = "",
) -> Content:
    return Content(
        run=run,
        rows=presentation.rows,
        truth=truth,
        shares=presentation.shares,
        ranked=presentation.ranked,
        subject=presentation.subject or (fields[0] if len(fields) == 1 else ""),
        confidence=confidence,
        remark=remark,
    )


def _compared(error: float | None, baseline: float | None) -> str:
    """Say the error, and a constant guess's."""
    if error is None:
        return ""
    guess = "" if baseline is None else f"; that of a constant guess: {baseline:.3g}"
    return f"error {error:.3g}{guess}"


def _run(learner: str, users: int, epsilon: float) -> str:
    return f"{learner}, {users:,} users, ε = {epsilon:g}"
