"""Families of randomizers in simulation: one module per family, found by itself.

For the interface that a module registers for see `dispatch` and `favouring`.
"""

import pkgutil
from importlib import import_module

from askance_simulation.families.dispatch import (
    Law,
    Statements,
    draw,
    draw_tally,
    of_many,
    probabilities,
    verified_kind,
    verified_makers,
)
from askance_simulation.families.favouring import favour

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Law",
    "Statements",
    "draw",
    "draw_tally",
    "favour",
    "of_many",
    "probabilities",
    "verified_kind",
    "verified_makers",
]
