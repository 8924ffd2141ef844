"""A parity of bits."""

from __future__ import annotations

import numpy as np

from askance_client.errors import InvalidParameter
from askance_papers.curate.request import Curated, CuratorRequest
from askance_papers.curator.mechanisms.examples import check_bits
from askance_papers.curator.parity import ParityExamples, PrivateParity


def curate(request: CuratorRequest) -> Curated:
    """Release r such that the label is <r, x> mod 2 of the other columns, or its absence.

    Privacy: epsilon-DP on every data set (`PrivateParity`).
    """
    table = request.table
    chosen = PrivateParity.amplified(request.epsilon, request.text("beta"))
    table.classes()
    names, bounds, x = table.features()
    for name, kind in zip(names, bounds, strict=True):
        if not kind.is_bit:
            raise InvalidParameter(
                f"column {name!r}: expected bounds 0 and 1, got {kind.low} and {kind.high}"
            )
    check_bits(x, table.n, len(names))
    examples = ParityExamples.of_bits(x.astype(np.uint8), table.positive())
    found = chosen.release(examples, request.words)
    if found is None:
        summary = "no parity was found"
        return Curated({"hypothesis": None, "summary": summary}, (summary,), (chosen.event,))
    used = [name for name, bit in zip(names, found.r, strict=True) if bit]
    summary = f"{table.label} is {' xor '.join(used) or '0'}"
    result = {"hypothesis": found.to_json(), "columns": list(names), "summary": summary}
    return Curated(result, (summary,), (chosen.event,))
