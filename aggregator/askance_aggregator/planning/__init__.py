"""Planning: the number of users per round and their randomizers, before any privacy is spent.

Rules of the package:

- A plan is a function of the learner, the budget, beta and the population's size: of no data.
- A size is an upper bound that holds for every population within the question's promise: by exact
  tails at the worst of them where that can be had, else by a bound that is nearly so (`tails`),
  never more than Chernoff's and Hoeffding's. The paper's
  size and a lower bound for any randomizers are printed beside it.
- The shares of a category are sized together: they sum to 1 (`cells`, docs/math/cells.md).
- A question whose answer serves a decision only is sized for that decision (`decided`); the law of
  a list of sign patterns is a table of simulated limits of 99.9 % confidence.
- A plan that cannot work is refused before any user is asked.

Theory of operation: `plan` rehearses the learner to see its batches, gives each of the T values
of all answers beta/T, and sizes each batch (`sizing`): a tail bound for each randomizer that a
question could have (`precision.candidates`), the randomizer that needs the fewest users, fresh
groups or one cohort that splits its budget. A running study
plans each real batch by `plan_batch`, with what `StudyPlan.allowance` lets it take.
"""

from askance_aggregator.planning.cells import Binomial, JointShares
from askance_aggregator.planning.designed import Designed
from askance_aggregator.planning.looks import prefixes, shares
from askance_aggregator.planning.lower_bound import least_users
from askance_aggregator.planning.planner import fields_needed, plan, plan_batch, rehearse, settled
from askance_aggregator.planning.plans import EpsilonCurve, GroupPlan, RoundPlan, StudyPlan
from askance_aggregator.planning.precision import (
    Design,
    RoundRules,
    candidates,
    n_variance,
    randomizer_text,
    tail_of,
)
from askance_aggregator.planning.scored import Scored
from askance_aggregator.planning.sizing import choices
from askance_aggregator.planning.tails import Tail
from askance_aggregator.planning.ternary import Ternary

__all__ = [
    "Binomial",
    "Design",
    "Designed",
    "EpsilonCurve",
    "GroupPlan",
    "JointShares",
    "RoundPlan",
    "RoundRules",
    "Scored",
    "StudyPlan",
    "Tail",
    "Ternary",
    "candidates",
    "choices",
    "fields_needed",
    "least_users",
    "n_variance",
    "plan",
    "plan_batch",
    "prefixes",
    "randomizer_text",
    "rehearse",
    "settled",
    "shares",
    "tail_of",
]
