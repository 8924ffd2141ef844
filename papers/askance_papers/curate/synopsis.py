"""A synthetic table that answers marginals about as the data do."""

from __future__ import annotations

import numpy as np

from askance_aggregator.numbers import read_probability
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curate.data_table import Labelled
from askance_papers.curate.request import Curated, CuratorRequest
from askance_papers.curator.synopsis import (
    Answered,
    Histogram,
    MarginalFamily,
    Universe,
    gaussian_fit,
    mwem,
)

_MAX_ROWS = 100_000
_SHOWN = 10


def curate(request: CuratorRequest) -> Curated:
    """Release rows of labels, drawn from a distribution that was fitted to private marginals.

    Privacy: epsilon-DP by MWEM, (epsilon, delta)-DP by Gaussian answers and a fit; drawing rows of
    it costs nothing more.
    """
    table, rows = request.table, request.whole("rows", _MAX_ROWS)
    method = request.one_of("method", ("mwem", "gaussian"))
    columns = {name: one for name, one in table.columns.items() if isinstance(one, Labelled)}
    if not columns:
        raise InvalidParameter(
            f"columns: expected columns of labels, got {value_text(list(table.columns))}"
        )
    universe = Universe(tuple(len(kind.labels) for kind in columns.values()))
    family = MarginalFamily(universe, request.whole("way", len(columns)))
    delta = read_probability(request.text("delta"), "delta") if method == "gaussian" else None
    cells = np.stack([table.codes(name) for name in columns], axis=1)
    histogram = Histogram.of(universe, cells)
    release: Answered
    if delta is None:
        release = mwem(histogram, family, request.epsilon, request.words)
    else:
        release = gaussian_fit(histogram, family, request.epsilon, delta, request.words)
    drawn = [
        [kind.labels[code] for kind, code in zip(columns.values(), row, strict=True)]
        for row in release.table(rows, request.words).tolist()
    ]
    lines = [", ".join(columns), *(", ".join(row) for row in drawn[:_SHOWN])]
    if rows > _SHOWN:
        lines.append(f"and {rows - _SHOWN:,} rows more (--out FILE.json has all)")
    return Curated(
        {"columns": list(columns), "rows": drawn, "queries": family.size, "method": method},
        tuple(lines),
        release.events,
        delta=None if delta is None else float(delta),
    )
