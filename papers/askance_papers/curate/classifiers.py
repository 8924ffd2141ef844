"""Classifiers by a label: stumps, committees of them, parities and logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from askance_client.errors import InvalidParameter
from askance_papers.curate.data_table import Numeric
from askance_papers.curate.request import Curated, CuratorRequest, shown
from askance_papers.curator.logistic.estimator import PrivateLogisticRegression
from askance_papers.curator.mechanisms import Stump, Stumps, even_cuts, learn_agnostically
from askance_papers.curator.mechanisms.hypotheses import check_bits
from askance_papers.curator.parity import ParityExamples, PrivateParity
from askance_papers.curator.people import Boosting

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


def stump_line(one: dict[str, Any]) -> str:
    """Format the stump in words."""
    return f"{one['above']} where {one['feature']} >= {shown(one['cut'])}, else {one['below']}"


def learn_stump(request: CuratorRequest) -> Curated:
    """Release a stump with nearly the fewest misclassified records.

    Privacy: epsilon-DP (`learn_agnostically`).
    """
    table, cuts = request.table, request.whole("cuts", _MAX)
    classes = table.classes()
    names, bounds, x = table.features()
    y = np.where(table.positive(), 1, -1)
    found = learn_agnostically(stumps_of(bounds, cuts), x, y, request.epsilon, request.words)
    assert isinstance(found.hypothesis, Stump)
    stump = stump_json(found.hypothesis, names, classes)
    result = {"hypothesis": stump, "summary": stump_line(stump), "hypotheses": found.size}
    lines = (stump_line(stump), f"of {found.size:,} stumps")
    return Curated(result, lines, (found.event,), notes=(ERROR_NOTE,))


_MAX = 10_000


def boost_stumps(request: CuratorRequest) -> Curated:
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
    return Curated(result, (summary, *map(stump_line, members)), found.events, notes=(ERROR_NOTE,))


def learn_parity(request: CuratorRequest) -> Curated:
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


_INTERCEPT = "(intercept)"
_CAVEAT = "as real numbers, not as floats"


def learn_logistic(request: CuratorRequest) -> Curated:
    """Release a linear classifier of the features, each scaled by its bounds to -1 .. 1.

    A row of d features and the constant 1, divided by sqrt(d + 1), has a norm of at most 1; a float
    above that is scaled down.

    Privacy: epsilon-DP as real numbers (`PrivateLogisticRegression`).
    """
    table = request.table
    mechanism = request.one_of("mechanism", ("objective", "output"))
    classes = table.classes()
    names, bounds, x = table.features()
    lows = np.array([float(one.low) for one in bounds])
    highs = np.array([float(one.high) for one in bounds])
    scale = sqrt(len(names) + 1)
    scaled = np.column_stack([(2 * x - lows - highs) / (highs - lows), np.ones(table.n)]) / scale
    estimator = PrivateLogisticRegression(
        request.epsilon,
        regularisation=request.text("regularisation"),
        mechanism=mechanism,
        longer="clip",
        words=request.words,
    )
    estimator.fit(scaled, np.where(table.positive(), 1, -1))
    weights = (estimator.coef_[0] / scale).tolist()
    coefficients = dict(zip((*names, _INTERCEPT), weights, strict=True))
    summary = f"{classes[1]} where the sum of coefficient times feature is above 0"
    result = {
        "coefficients": coefficients,
        "features": "each scaled by its bounds to -1 .. 1",
        "classes": list(classes),
        "summary": summary,
    }
    lines = tuple(f"{name}: {value:.4g}" for name, value in coefficients.items())
    return Curated(result, (summary, *lines), (estimator.event_,), caveat=_CAVEAT)
