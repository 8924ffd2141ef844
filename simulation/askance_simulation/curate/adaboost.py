"""Boosted decision stumps."""

from __future__ import annotations

import numpy as np

from askance_aggregator.curator.mechanisms import Stump
from askance_aggregator.curator.people import Boosting
from askance_simulation.curate.request import Curated, Request
from askance_simulation.curate.stumps import ERROR_NOTE, line, stumps_of, told

_MAX = 10_000


def curate(request: Request) -> Curated:
    """Release a committee of stumps.

    Privacy: epsilon-DP (`Boosting`).

    Raises:
      InvalidParameter, InvalidRecord: no label, no features, or values that are not as stated.
    """
    sheet, cuts = request.sheet, request.whole("cuts", _MAX)
    boosting = Boosting.of(
        request.epsilon,
        rounds=request.whole("rounds", _MAX),
        edge=request.text("edge"),
        cap=request.whole("cap", _MAX),
    )
    classes = sheet.classes()
    names, bounds, x = sheet.features()
    y = np.where(sheet.positive(), 1, -1)
    found = boosting.fit(stumps_of(bounds, cuts), x, y, request.words)
    members = [told(one, names, classes) for one in found.members if isinstance(one, Stump)]
    summary = f"the majority of {len(members)} stumps; {classes[1]} wins a tie"
    result = {"members": members, "classes": list(classes), "summary": summary}
    return Curated(result, (summary, *map(line, members)), found.events, notes=(ERROR_NOTE,))
