"""Boosted decision stumps."""

from __future__ import annotations

import numpy as np

from askance_papers.curate.request import Curated, CuratorRequest
from askance_papers.curate.stumps import ERROR_NOTE, line, stump_json, stumps_of
from askance_papers.curator.mechanisms import Stump
from askance_papers.curator.people import Boosting

_MAX = 10_000


def curate(request: CuratorRequest) -> Curated:
    """Release a committee of stumps.

    Privacy: epsilon-DP (`Boosting`).
    """
    table, cuts = request.table, request.whole("cuts", _MAX)
    boosting = Boosting.of(
        request.epsilon,
        rounds=request.whole("rounds", _MAX),
        edge=request.text("edge"),
        cap=request.whole("cap", _MAX),
    )
    classes = table.classes()
    names, bounds, x = table.features()
    y = np.where(table.positive(), 1, -1)
    found = boosting.fit(stumps_of(bounds, cuts), x, y, request.words)
    members = [stump_json(one, names, classes) for one in found.members if isinstance(one, Stump)]
    summary = f"the majority of {len(members)} stumps; {classes[1]} wins a tie"
    result = {"members": members, "classes": list(classes), "summary": summary}
    return Curated(result, (summary, *map(line, members)), found.events, notes=(ERROR_NOTE,))
