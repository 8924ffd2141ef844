"""Presentation of hypotheses in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from askance.cli.tables import table

if TYPE_CHECKING:
    from rich.console import Console


def tell_hypothesis(console: Console, result: dict[str, Any]) -> None:
    """Print a hypothesis by its summary, as a table of estimates, or by its parts.

    Estimates are printed with their intervals, and with the truth where it is known.

    Args:
      console: the terminal.
      result: has "learner", "hypothesis" and "confidence"; "truth" too in a simulation.
    """
    from rich.markup import escape

    from askance_simulation.experiments.records import estimates

    found, truth = result["hypothesis"], result.get("truth")
    if isinstance(found, dict) and isinstance(found.get("summary"), str):
        console.print(found["summary"], markup=False)
        if found.get("encodings"):
            console.print("bins, scales and codes are the schema's", markup=False)
        return
    cells = estimates(found, result["learner"])
    if not cells:
        parts = found.items() if isinstance(found, dict) else [("hypothesis", found)]
        console.print("  ".join(f"{name} = {part}" for name, part in parts), markup=False)
        return
    heads = ["", "estimate", f"low ({result['confidence']:.0%}, joint)", "high"]
    projected = all("projected" in value for value in cells.values())
    if projected:
        heads.append("nearest distribution")
    told = table([*heads, "truth"] if truth else heads, left=("",), long=("",))
    for place, (name, value) in enumerate(cells.items()):
        numbers = [value["estimate"], value["low"], value["high"]]
        numbers += [value["projected"]] if projected else []
        numbers += [truth[place]] if truth else []
        told.add_row(escape(name), *(f"{number:.5g}" for number in numbers))
    console.print(told)
    if found.get("radius") is not None:
        console.print(f"the length of the error is at most {found['radius']:.5g}, joint with these")
    _tell_missing(console, cells)
    if any(value.get("of") == "sample" for value in cells.values()):
        console.print("the interval is for the mean of those who answered, not of a population")


def _tell_missing(console: Console, cells: dict[str, Any]) -> None:
    """Print the estimated share of users without a value, of each estimate that leaves them out."""
    for name, value in cells.items():
        share = value.get("missing")
        if share:
            console.print(
                f"{name}: over users who have a value; {share['share']:.1%} of users have none"
                f" ({share['low']:.1%} .. {share['high']:.1%}, joint with these)",
                markup=False,
            )
