"""The best decision stump."""

from __future__ import annotations

import numpy as np

from askance_papers.curate.request import Curated, CuratorRequest
from askance_papers.curate.stumps import ERROR_NOTE, line, stump_json, stumps_of
from askance_papers.curator.mechanisms import Stump, learn_agnostically

_MAX_CUTS = 10_000


def curate(request: CuratorRequest) -> Curated:
    """Release a stump with nearly the fewest misclassified records.

    Privacy: epsilon-DP (`learn_agnostically`).
    """
    table, cuts = request.table, request.whole("cuts", _MAX_CUTS)
    classes = table.classes()
    names, bounds, x = table.features()
    y = np.where(table.positive(), 1, -1)
    found = learn_agnostically(stumps_of(bounds, cuts), x, y, request.epsilon, request.words)
    assert isinstance(found.hypothesis, Stump)
    stump = stump_json(found.hypothesis, names, classes)
    result = {"hypothesis": stump, "summary": line(stump), "hypotheses": found.size}
    lines = (line(stump), f"of {found.size:,} stumps")
    return Curated(result, lines, (found.event,), notes=(ERROR_NOTE,))
