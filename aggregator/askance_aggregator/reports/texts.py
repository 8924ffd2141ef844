"""Counts and settings as text for readers."""

from __future__ import annotations

from collections.abc import Mapping

_TO_IES = ("ry", "dy")  # of query and study, but not of day


def counted(number: int, thing: str) -> str:
    """Format a count with its unit: "1 round", "2,000 users", "3 queries"."""
    if number != 1:
        thing = f"{thing[:-1]}ies" if thing.endswith(_TO_IES) else f"{thing}s"
    return f"{number:,} {thing}"


def settings_line(settings: Mapping[str, str]) -> str:
    """Format the settings of a learner that follow from users and noise."""
    pairs = ", ".join(f"{name} {text}" for name, text in settings.items())
    return f"settings by users and noise, each an option: {pairs}"
