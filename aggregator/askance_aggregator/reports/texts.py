"""Counts and settings as text for readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askance_client.printable import printable

_TO_IES = ("ry", "dy", "lly")  # of query, study and tally, but not of day


def counted(number: int, thing: str) -> str:
    """Format a count with its unit: "1 round", "2,000 users", "3 queries"."""
    if number != 1:
        thing = f"{thing[:-1]}ies" if thing.endswith(_TO_IES) else f"{thing}s"
    return f"{number:,} {thing}"


def population_text(population: Mapping[str, Any]) -> str:
    """Format the devices that a study asks: "devices tagged eu, v2 (5,000)".

    `population` has `tags` and the number of `devices`, as an aggregator states them.
    """
    tags = ", ".join(printable(str(tag)) for tag in population["tags"])
    return f"devices tagged {tags} ({int(population['devices']):,})"


def settings_line(settings: Mapping[str, str]) -> str:
    """Format the settings of a learner that follow from users and noise."""
    pairs = ", ".join(f"{name} {text}" for name, text in settings.items())
    return f"settings by users and noise, each an option: {pairs}"
