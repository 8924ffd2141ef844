"""How a hypothesis is shown to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def tell_hypothesis(console: Console, result: dict[str, Any]) -> None:
    """Prints what has a summary by it, estimates as a table with their intervals (and the truth,
    where it is known), anything else by its parts.

    Args:
      result: has "learner", "hypothesis" and "confidence"; "truth" too in a simulation.
    """
    from rich.markup import escape
    from rich.table import Table

    from askance.simulation.experiments.records import estimates

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
    table = Table(box=None, padding=(0, 2))
    heads = ["", "estimate", f"low ({result['confidence']:.0%}, joint)", "high"]
    projected = all("projected" in value for value in cells.values())
    if projected:
        heads.append("nearest distribution")
    for name in [*heads, "truth"] if truth else heads:
        table.add_column(name, justify="left" if name == "" else "right")
    for place, (name, value) in enumerate(cells.items()):
        numbers = [value["estimate"], value["low"], value["high"]]
        numbers += [value["projected"]] if projected else []
        numbers += [truth[place]] if truth else []
        table.add_row(escape(name), *(f"{number:.5g}" for number in numbers))
    console.print(table)
    if any(value.get("of") == "sample" for value in cells.values()):
        console.print("the interval is for the mean of those who answered, not of a population")
