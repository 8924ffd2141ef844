"""Composition: the joint privacy cost of many releases.

Theory of operation: what happened (`events`: each release by the strongest guarantee that is known
of it) stands apart from what it costs. A `ReleaseLedger` is the one thing that changes: it records
events in order, and its `EventCounts` say how often each happened. Everything else is a function of
totals:

- an *accountant* says which (epsilon, delta) they satisfy: the sum, Theorem III.3, zero-
  concentration, or the optimum for what is pure or approximate. The releases may be chosen
  adaptively, but how many there are, and with which budgets, is fixed before the first;
- a *filter* says whether they are within a budget, also when each release's budget is chosen by
  what the earlier ones answered. A ledger with a filter records nothing that would pass it.

What a bound claims is rounded outward: sums are exact fractions; where floats come in
(logarithms, roots) the result is raised by more than all their errors.
"""

from collections.abc import Mapping
from types import MappingProxyType

from askance_aggregator.composition.accountants import Accountant, Advanced, Optimal, Sum
from askance_aggregator.composition.events import (
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    EventCounts,
    Pure,
)
from askance_aggregator.composition.filters import (
    AdaptiveFilter,
    Filter,
    SumFilter,
    Unlimited,
    ZeroConcentrated,
    epsilon_of_rho,
)
from askance_aggregator.composition.ledger import ReleaseLedger

ACCOUNTANTS: Mapping[str, Accountant] = MappingProxyType(
    {each.name: each for each in (Sum(), Advanced(), ZeroConcentrated(), Optimal())}
)
"""All accountants by name."""

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "AdaptiveFilter",
    "Advanced",
    "Approximate",
    "BoundedRange",
    "Concentrated",
    "Event",
    "EventCounts",
    "Filter",
    "Optimal",
    "Pure",
    "ReleaseLedger",
    "Sum",
    "SumFilter",
    "Unlimited",
    "ZeroConcentrated",
    "epsilon_of_rho",
]
