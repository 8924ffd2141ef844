"""A parity of bits."""

from __future__ import annotations

import numpy as np

from askance_aggregator.curator.mechanisms.examples import check_bits
from askance_aggregator.curator.parity import Examples, PrivateParity
from askance_client.errors import InvalidParameter
from askance_simulation.curate.request import Curated, Request


def curate(request: Request) -> Curated:
    """Release r such that the label is <r, x> mod 2 of the other columns, or its absence.

    Privacy: epsilon-DP on every data set (`PrivateParity`).

    Raises:
      InvalidParameter, InvalidRecord: no label, a column that is not of bits, or another value.
    """
    sheet = request.sheet
    chosen = PrivateParity.amplified(request.epsilon, request.text("beta"))
    sheet.classes()
    names, bounds, x = sheet.features()
    for name, kind in zip(names, bounds, strict=True):
        if not kind.is_bit:
            raise InvalidParameter(f"column {name!r}: expected bounds 0 and 1, got other bounds")
    check_bits(x, sheet.n, len(names))
    examples = Examples.of_bits(x.astype(np.uint8), sheet.positive())
    found = chosen.release(examples, request.words)
    if found is None:
        summary = "no parity was found"
        return Curated({"hypothesis": None, "summary": summary}, (summary,), (chosen.event,))
    used = [name for name, bit in zip(names, found.r, strict=True) if bit]
    summary = f"{sheet.label} is {' xor '.join(used) or '0'}"
    result = {"hypothesis": found.to_json(), "columns": list(names), "summary": summary}
    return Curated(result, (summary,), (chosen.event,))
