"""All searches of the models, and the table of them in the documentation.

python -m tests.models.searches            # searches of the default suite, then planted defects
python -m tests.models.searches --larger   # the larger ones as well
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tests.models import delivery_model, lease_model, ledger_model
from tests.models.checker import Model, Search, explore


@dataclass(frozen=True)
class Family:
    """Model with its searches.

    Args:
        name: of the protocol.
        make: makes the model within bounds.
        holds: searches that find no broken promise, by their names.
        larger: the same, for longer.
        planted: models with a defect each.
    """

    name: str
    make: Callable[[Any], Model[Any]]
    holds: Mapping[str, Any]
    larger: Mapping[str, Any]
    planted: Mapping[str, Model[Any]]


FAMILIES = (
    Family(
        "ledger",
        ledger_model.LedgerModel,
        ledger_model.HOLDS,
        ledger_model.LARGER,
        ledger_model.PLANTED,
    ),
    Family(
        "leases",
        lease_model.LeaseModel,
        lease_model.HOLDS,
        lease_model.LARGER,
        lease_model.PLANTED,
    ),
    Family(
        "delivery",
        delivery_model.DeliveryModel,
        delivery_model.HOLDS,
        delivery_model.LARGER,
        delivery_model.PLANTED,
    ),
)


def bounds_of(bounds: Any) -> str:
    """Write bounds as text: numbers, and what may happen."""
    words = []
    for field in fields(bounds):
        value = getattr(bounds, field.name)
        if value is True:
            words.append(field.name)
        elif value not in (False, None):
            words.append(f"{field.name} {value}")
    return ", ".join(words)


def row_of(family: Family, name: str, bounds: Any, search: Search) -> str:
    """Return a search's row in the table of the documentation."""
    return (
        f"| {family.name} | {name} | {bounds_of(bounds)} | {search.states:,} | {search.steps:,}"
        f" | {search.depth} |"
    )


def rows(*, larger: bool) -> Iterator[str]:
    """Search, and yield the rows of the table."""
    for family in FAMILIES:
        for name, bounds in {**family.holds, **(family.larger if larger else {})}.items():
            search = explore(family.make(bounds))
            assert search.broken is None, str(search)
            yield row_of(family, name, bounds, search)


def main() -> None:
    """Print all searches, and the history that shows each planted defect."""
    for row in rows(larger="--larger" in sys.argv):
        print(row, flush=True)
    for name, (world, promise, _) in ledger_model.LEFT_OPEN.items():
        ledger = ledger_model.LedgerModel(world, promises=frozenset({promise}))
        print(f"\nleft open: {name}: {explore(ledger)}")
    for family in FAMILIES:
        for name, model in family.planted.items():
            print(f"\nplanted in {family.name}: {name}: {explore(model)}")


if __name__ == "__main__":
    main()
