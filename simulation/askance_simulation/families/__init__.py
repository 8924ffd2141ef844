"""Families of randomizers in simulation: one module per family, found by itself.

For the interface that a module registers for see `dispatch` and `favouring`.
"""

import pkgutil
from importlib import import_module

from askance_simulation.families.dispatch import (
    MAX_GROUP,
    Law,
    Statements,
    draw,
    draw_tally,
    draws_by_users,
    of_many,
    probabilities,
    verified_kind,
    verified_makers,
)

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "MAX_GROUP",
    "Law",
    "Statements",
    "draw",
    "draw_tally",
    "draws_by_users",
    "of_many",
    "probabilities",
    "verified_kind",
    "verified_makers",
]
