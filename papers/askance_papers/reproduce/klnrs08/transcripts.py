"""The small world in which local algorithms' laws are enumerated (Lemmas 4.4 and 4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from askance_aggregator.oracles import (
    CentreOracle,
    ExactOracle,
    LazyOracle,
    Oracle,
    WrongSideOracle,
)
from askance_aggregator.queries import category, encode_columns, predicate
from askance_client.queries import Bit, Integer, Schema
from askance_papers.reproduce.reproduction import Row
from askance_simulation.plots.style import ACCENT, INK, QUIET, plain

SCHEMA = Schema("small-world", 1, n=Integer(0, 2), b=Bit())
PEOPLE = encode_columns(SCHEMA, {"n": [0, 0, 1, 1, 2, 2], "b": [0, 1, 0, 1, 0, 1]})
WEIGHTS = (5, 1, 1, 4, 2, 7)
NUMBER, BIT = category(SCHEMA["n"] + 0), predicate(SCHEMA["b"] == 1)
TRUTH = ExactOracle(SCHEMA, PEOPLE, WEIGHTS)
ORACLES: Mapping[str, Oracle] = MappingProxyType(
    {
        "exact": TRUTH,
        "lazy": LazyOracle(TRUTH, CentreOracle()),
        "always above": WrongSideOracle(TRUTH, lambda _: (2.0,)),
        "always below": WrongSideOracle(TRUTH, lambda _: (-2.0,)),
        "to the middle": WrongSideOracle(TRUTH),
    }
)
"""Valid ones that answer equals equally: the law of a simulation is then a matter of fractions."""
BETAS = (Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))


def draw_distances(figure: Any, rows: Sequence[Row], title: str) -> None:
    """Draw every enumerated distance beside the beta that it has to stay below."""
    axes = figure.subplots()
    plain(axes, title, "β, allowed", "total variation, enumerated")
    colors = (ACCENT, INK, "#7a5195", "#ef8f35", "#3a9d5d")
    for oracle, color, mark in zip(ORACLES, colors, "sx^vo", strict=True):
        shown = [row for row in rows if row["oracle"] == oracle and row["law"] == "enumerated"]
        axes.plot(
            [row["beta"] for row in shown],
            [row["distance"] for row in shown],
            mark,
            color=color,
            alpha=0.6,
            label=oracle,
        )
    ends = [float(min(BETAS)) / 2, float(max(BETAS)) * 2]
    axes.plot(ends, ends, color=QUIET, label="β")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1e-6)  # some distances are 0
    axes.set_ylim(bottom=-5e-7)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
