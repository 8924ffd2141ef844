"""Answers to many queries at once, from one synopsis of the data.

Rules of the package:

- Data are a histogram over a finite universe; true answers are whole numbers of a stated unit,
  computed exactly, and what replacing a record does to them is counted in the same units.
- Only two things touch the data: answers with exact discrete noise (`boosting`, `independent`,
  `mwem`, `small_databases`) and exact draws of queries or databases (`sampling`). Both are events.
  Fitting, medians and synthetic tables are made of what was released; there floats are welcome.
- What is checked is checked before the first word is drawn.
- Base generators and answerers are interfaces, so the same Figure 1 runs on a curator's
  histogram, on small databases, and on a fleet.

Theory of operation: a `QueryFamily` is an implicit matrix over a `Universe`. `boosting` draws the
queries that were answered badly more often, `accounting` says what that may cost; `mwem` and
`independent` answer the same families for comparison, and all hand out a
`Answered`.
"""

from askance_papers.curator.synopsis.accounting import (
    BoostingPlan,
    QuerySet,
    Schedule,
    concentrated_within,
    per_release_epsilon,
    printed_plan,
    rounds_for,
    tight_plan,
)
from askance_papers.curator.synopsis.boosting import (
    Answering,
    BaseGenerator,
    Boosted,
    CountingGenerator,
    GaussianAnswers,
    QueryWeights,
    boost,
    boosted_counting,
    boosted_search,
)
from askance_papers.curator.synopsis.independent import (
    gaussian,
    gaussian_fit,
    laplace_by_sums,
    laplace_by_theorem,
)
from askance_papers.curator.synopsis.local import (
    OracleAnswers,
    boosted_locally,
    boosting_rehearsal,
    conjunctions,
)
from askance_papers.curator.synopsis.mwem import mwem
from askance_papers.curator.synopsis.queries import (
    MarginalFamily,
    MatrixQueries,
    PredicateQueries,
    QueryFamily,
    column_ranges,
    random_queries,
    ranges,
)
from askance_papers.curator.synopsis.sampling import queries_for
from askance_papers.curator.synopsis.small_databases import (
    LowSensitivityQueries,
    NoisySearchGenerator,
    SmallDatabaseGenerator,
)
from askance_papers.curator.synopsis.synopses import (
    Answered,
    Distribution,
    MedianSynopsis,
    Synopsis,
)
from askance_papers.curator.synopsis.universe import Histogram, Universe

__all__ = [
    "Answered",
    "Answering",
    "BaseGenerator",
    "Boosted",
    "BoostingPlan",
    "CountingGenerator",
    "Distribution",
    "GaussianAnswers",
    "Histogram",
    "LowSensitivityQueries",
    "MarginalFamily",
    "MatrixQueries",
    "MedianSynopsis",
    "NoisySearchGenerator",
    "OracleAnswers",
    "PredicateQueries",
    "QueryFamily",
    "QuerySet",
    "QueryWeights",
    "Schedule",
    "SmallDatabaseGenerator",
    "Synopsis",
    "Universe",
    "boost",
    "boosted_counting",
    "boosted_locally",
    "boosted_search",
    "boosting_rehearsal",
    "column_ranges",
    "concentrated_within",
    "conjunctions",
    "gaussian",
    "gaussian_fit",
    "laplace_by_sums",
    "laplace_by_theorem",
    "mwem",
    "per_release_epsilon",
    "printed_plan",
    "queries_for",
    "random_queries",
    "ranges",
    "rounds_for",
    "tight_plan",
]
