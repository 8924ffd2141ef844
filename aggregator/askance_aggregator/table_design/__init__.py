"""Tables for the mean of a bounded number, designed by linear program.

Rules of the package:

- A table is a `Channel` of the client: integers that a device verifies itself. What is designed
  here decides how much a report is worth, never what it reveals.
- What is claimed of a table is computed from its integers, exactly; what is claimed of all others
  is a dual's bound, which holds whatever the solver did.
- Floats and the solver stay between a budget and the integers; a design is a function of the
  levels, the budget and the objective alone, and is kept.

Theory of operation: on a grid of inputs and given decode values a_y, the table Q[y | x] that is
best by an objective (`objectives`) is a linear program (`programme`): rows sum to 1, means are the
grid, columns stay within e^eps. Its prices name better decode values, and bound what any table
attains (`Dual`); the two alternate until they meet (`refinement`). Beyond 4 nats prices and values
come from a convex program over intervals of levels (`refinement`), and the table, of up to 720
levels, from a linear program over windows of levels (`refinement`). The floats become integers with
the ratio of every column kept (`integers`), and since those are not quite unbiased, the grid is
moved to where they are (`designs`). A table with a level for "missing" has two scores a symbol and
a program and a search of its own (`presence`). Optima of a grid of budgets are shipped with the
package (`recorded`).

Source: KLNRS08 Definition 4.3 (local randomizers); Kairouz, Oh, Viswanath, "Extremal mechanisms for
local differential privacy" (2016).
"""

from askance_aggregator.table_design.designs import (
    MAX_NANO_NATS,
    MIN_NANO_NATS,
    DesignedTable,
    design_sample,
    design_table,
    figure_of,
    sample_levels,
)
from askance_aggregator.table_design.integers import integer_table
from askance_aggregator.table_design.objectives import (
    Conditional,
    Minimax,
    Objective,
    Prior,
    Terms,
    prior_at,
    prior_of,
    rounding_variance,
)
from askance_aggregator.table_design.presence import (
    NUMBERS,
    PresenceObjective,
    PresenceTable,
    PresentPopulation,
    PresentPrior,
    PresentSample,
    design_presence,
)
from askance_aggregator.table_design.programme import Dual, solve
from askance_aggregator.table_design.recorded import recorded_epsilons, recorded_optimum
from askance_aggregator.table_design.refinement import refine

__all__ = [
    "MAX_NANO_NATS",
    "MIN_NANO_NATS",
    "NUMBERS",
    "Conditional",
    "DesignedTable",
    "Dual",
    "Minimax",
    "Objective",
    "PresenceObjective",
    "PresenceTable",
    "PresentPopulation",
    "PresentPrior",
    "PresentSample",
    "Prior",
    "Terms",
    "design_presence",
    "design_sample",
    "design_table",
    "figure_of",
    "integer_table",
    "prior_at",
    "prior_of",
    "recorded_epsilons",
    "recorded_optimum",
    "refine",
    "rounding_variance",
    "sample_levels",
    "solve",
]
