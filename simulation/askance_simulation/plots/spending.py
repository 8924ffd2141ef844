"""Histogram of the epsilon that users were asked to spend."""

from __future__ import annotations

from collections import Counter

from askance_aggregator.studies import Transcript
from askance_aggregator.studies.transcript import Asked, Header
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure

_MOST_BARS = 12
_BINS = 30


def spending(transcript: Transcript, budget: float, title: str) -> Picture:
    """Draw the number of users by the epsilon that they were asked for.

    By the transcript: what a device spent is that at most, and less where it did not answer or
    had answered the same before.

    Args:
      transcript: of the study.
      budget: each user's, in nats.
      title: above the picture.
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
    style.plain(axes, title=title, across=across, up="users")
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
