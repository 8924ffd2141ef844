"""Learners: what to ask next, and what to conclude; nothing about who answers, or how.

Rules of the room:

- A learner does no I/O, draws no randomness and reads no clock: a run is a function of the answers
  it is sent. So a recorded run can be replayed, and the same learner runs on a theorem's oracle, on
  a simulated million and on real devices.
- It knows `askance.client.queries` and nothing else: no randomizer, no epsilon, no user. (A saved
  hypothesis writes down its schema as `askance.client.records` does.)
- Fields become cells or numbers by the schema alone (`encodings`), never by a look at the data.
- What it concludes can be saved as JSON and loaded (`hypotheses`).
- A learner is adaptive or non-adaptive by its *type* (`Adaptive`, `NonAdaptive`).
- Tolerances are open: an answer is off by *less* than tau.

A learner, whole::

    @adaptive("masked-parity", version=1)
    def masked_parity(schema):
        r = yield from read_mask(schema)                       # round 1
        (answer,) = yield Batch([Question(wrong(schema, r), tau=Fraction(1, 4))])   # round 2
        return MaskedParity(r, int(answer.value > 1 / 4))
"""

from askance.aggregator.learners.conjunctions import (
    Conjunction,
    conjunctions,
    conjunctions_schema,
)
from askance.aggregator.learners.encodings import Cells, Number
from askance.aggregator.learners.frequency import FrequencyEstimate, frequency
from askance.aggregator.learners.hypotheses import (
    Classifier,
    Document,
    Regressor,
    hypothesis_from_json,
    hypothesis_json,
    hypothesis_of,
)
from askance.aggregator.learners.learner import (
    Adaptive,
    Learner,
    NonAdaptive,
    Rehearsal,
    adaptive,
    canonical_text,
    non_adaptive,
)
from askance.aggregator.learners.learning import (
    Allocation,
    Answer,
    Answers,
    Batch,
    Learning,
    Question,
    check_answers,
    check_batch,
    neutral_answer,
)
from askance.aggregator.learners.masked_parity import (
    MaskedParity,
    masked_parity,
    masked_parity_schema,
)
from askance.aggregator.learners.mean import MeanEstimate, mean
from askance.aggregator.learners.rationals import Rational, rational
from askance.aggregator.learners.registry import (
    LearnerEntry,
    ParameterEntry,
    find,
    learners,
    register,
)
from askance.aggregator.learners.rows import Rows

__all__ = [
    "Adaptive",
    "Allocation",
    "Answer",
    "Answers",
    "Batch",
    "Cells",
    "Classifier",
    "Conjunction",
    "Document",
    "FrequencyEstimate",
    "Learner",
    "LearnerEntry",
    "Learning",
    "MaskedParity",
    "MeanEstimate",
    "NonAdaptive",
    "Number",
    "ParameterEntry",
    "Question",
    "Rational",
    "Regressor",
    "Rehearsal",
    "Rows",
    "adaptive",
    "canonical_text",
    "check_answers",
    "check_batch",
    "conjunctions",
    "conjunctions_schema",
    "find",
    "frequency",
    "hypothesis_from_json",
    "hypothesis_json",
    "hypothesis_of",
    "learners",
    "masked_parity",
    "masked_parity_schema",
    "mean",
    "neutral_answer",
    "non_adaptive",
    "rational",
    "register",
]
