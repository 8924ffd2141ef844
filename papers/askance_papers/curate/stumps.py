"""Decision stumps over a data set's features, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from askance_papers.curate.data_table import Numeric
from askance_papers.curate.request import shown
from askance_papers.curator.mechanisms import Stump, Stumps, even_cuts

ERROR_NOTE = "how often it errs is not released: measuring it on these rows would cost more epsilon"


def stumps_of(bounds: Sequence[Numeric], cuts: int) -> Stumps:
    """Make `cuts` cuts of each feature; a feature of 0 and 1 has one."""
    return Stumps(
        [even_cuts(float(one.low), float(one.high), 1 if one.is_bit else cuts) for one in bounds]
    )


def stump_json(stump: Stump, names: Sequence[str], classes: tuple[str, str]) -> dict[str, Any]:
    """Return {"feature", "cut", "above", "below"}, with names."""
    above, below = (classes[1], classes[0]) if stump.sign == 1 else classes
    return {"feature": names[stump.feature], "cut": stump.cut, "above": above, "below": below}


def line(one: dict[str, Any]) -> str:
    """Format the stump in words."""
    return f"{one['above']} where {one['feature']} >= {shown(one['cut'])}, else {one['below']}"
