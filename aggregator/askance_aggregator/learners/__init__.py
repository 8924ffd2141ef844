"""Learners: questions and conclusions, independent of the source of the answers.

Rules of the package:

- A learner does no I/O, draws no randomness and reads no clock: a run is a function of the answers
  it is sent. So a recorded run can be replayed, and the same learner runs on a theorem's oracle, on
  a simulated million and on real devices.
- It knows `askance_client.queries` and nothing else: no randomizer, no epsilon, no user. (A saved
  hypothesis writes down its schema as `askance_client.records` does.) Settings that it was not
  given may follow from two figures of the plan: how many users there are, and how much noise an
  answer has (`conditions`).
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

from askance_aggregator.learners.aims import Aim, PopulationMean, PriorMean, SampleMean, prior_in
from askance_aggregator.learners.assessments import Assessment, Users, assess
from askance_aggregator.learners.association import Association, association
from askance_aggregator.learners.centres import clusters_schema
from askance_aggregator.learners.conditions import Conditions, Settle
from askance_aggregator.learners.conjunctions import Conjunction, conjunctions, conjunctions_schema
from askance_aggregator.learners.correlation import Correlation, correlation
from askance_aggregator.learners.decision_lists import DecisionList, Rule, decision_lists
from askance_aggregator.learners.decision_tree import decision_tree
from askance_aggregator.learners.decisions import (
    AssociationFound,
    Crossing,
    Decision,
    OneStandsOut,
    RatiosKept,
    SharesKept,
    SignsListed,
)
from askance_aggregator.learners.difference import Difference, difference
from askance_aggregator.learners.encodings import Cells, Number
from askance_aggregator.learners.frequency import FrequencyEstimate, frequency
from askance_aggregator.learners.gaussian_mixture import GaussianMixture, gaussian_mixture
from askance_aggregator.learners.glm_classifiers import linear_svm, logistic_regression
from askance_aggregator.learners.glm_regressions import (
    huber_regression,
    linear_regression,
    ridge_regression,
)
from askance_aggregator.learners.heavy_hitters import HeavyHitter, HeavyHitters, heavy_hitters
from askance_aggregator.learners.hypotheses import (
    Classifier,
    Document,
    JsonObject,
    Regressor,
    hypothesis_from_json,
    hypothesis_json,
    hypothesis_of,
)
from askance_aggregator.learners.k_means import Clusters, k_means
from askance_aggregator.learners.learner import (
    Adaptive,
    Learner,
    NonAdaptive,
    Rehearsal,
    Unbound,
    adaptive,
    non_adaptive,
)
from askance_aggregator.learners.learning import (
    Allocation,
    Answer,
    Answers,
    Batch,
    Learning,
    Presence,
    Question,
    SamplingLaw,
    check_answers,
    check_batch,
    neutral_answer,
)
from askance_aggregator.learners.linear import LinearModel
from askance_aggregator.learners.linear_classifiers import (
    Halfspace,
    LinearClassifier,
    LogisticModel,
    SupportVectorModel,
    halfspaces_schema,
)
from askance_aggregator.learners.literals import (
    Disjunction,
    LiteralConjunction,
    disjunctions,
    labelled_bits_schema,
    literal_conjunctions,
)
from askance_aggregator.learners.marginals import Marginal, Marginals, marginals
from askance_aggregator.learners.masked_parity import (
    MaskedParity,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.learners.mean import MeanEstimate, mean
from askance_aggregator.learners.mean_vector import MeanVector, mean_vector
from askance_aggregator.learners.naive_bayes import NaiveBayes, naive_bayes
from askance_aggregator.learners.parameters import (
    Parameter,
    ParameterEntry,
    ParameterKind,
    canonical_text,
)
from askance_aggregator.learners.pca import PrincipalComponents, principal_components
from askance_aggregator.learners.perceptron import perceptron, perceptron_rounds
from askance_aggregator.learners.prefixes import bits_of_text, text_of_bits
from askance_aggregator.learners.presentation import (
    EstimateRow,
    Presentation,
    presentation_of,
    presentation_of_json,
    table_of,
)
from askance_aggregator.learners.quantiles import Quantile, Quantiles, quantiles
from askance_aggregator.learners.random_features import RandomFeatures, random_features
from askance_aggregator.learners.ranges import Ranges, ranges
from askance_aggregator.learners.registry import (
    LearnerEntry,
    SmallSettings,
    catalogued,
    find,
    learners,
    register,
)
from askance_aggregator.learners.rows import Rows
from askance_aggregator.learners.schemas import (
    paths_schema,
    plane_schema,
    traits_schema,
    vectors_schema,
    words_schema,
)
from askance_aggregator.learners.trees import DecisionTree
from askance_aggregator.learners.trend import Trend, trend
from askance_aggregator.numbers import Rational, rational

__all__ = [
    "Adaptive",
    "Aim",
    "Allocation",
    "Answer",
    "Answers",
    "Assessment",
    "Association",
    "AssociationFound",
    "Batch",
    "Cells",
    "Classifier",
    "Clusters",
    "Conditions",
    "Conjunction",
    "Correlation",
    "Crossing",
    "Decision",
    "DecisionList",
    "DecisionTree",
    "Difference",
    "Disjunction",
    "Document",
    "EstimateRow",
    "FrequencyEstimate",
    "GaussianMixture",
    "Halfspace",
    "HeavyHitter",
    "HeavyHitters",
    "JsonObject",
    "Learner",
    "LearnerEntry",
    "Learning",
    "LinearClassifier",
    "LinearModel",
    "LiteralConjunction",
    "LogisticModel",
    "Marginal",
    "Marginals",
    "MaskedParity",
    "MeanEstimate",
    "MeanVector",
    "NaiveBayes",
    "NonAdaptive",
    "Number",
    "OneStandsOut",
    "Parameter",
    "ParameterEntry",
    "ParameterKind",
    "PopulationMean",
    "Presence",
    "Presentation",
    "PrincipalComponents",
    "PriorMean",
    "Quantile",
    "Quantiles",
    "Question",
    "RandomFeatures",
    "Ranges",
    "Rational",
    "RatiosKept",
    "Regressor",
    "Rehearsal",
    "Rows",
    "Rule",
    "SampleMean",
    "SamplingLaw",
    "Settle",
    "SharesKept",
    "SignsListed",
    "SmallSettings",
    "SupportVectorModel",
    "Trend",
    "Unbound",
    "Users",
    "adaptive",
    "assess",
    "association",
    "bits_of_text",
    "canonical_text",
    "catalogued",
    "check_answers",
    "check_batch",
    "clusters_schema",
    "conjunctions",
    "conjunctions_schema",
    "correlation",
    "decision_lists",
    "decision_tree",
    "difference",
    "disjunctions",
    "find",
    "frequency",
    "gaussian_mixture",
    "halfspaces_schema",
    "heavy_hitters",
    "huber_regression",
    "hypothesis_from_json",
    "hypothesis_json",
    "hypothesis_of",
    "k_means",
    "labelled_bits_schema",
    "learners",
    "linear_regression",
    "linear_svm",
    "literal_conjunctions",
    "logistic_regression",
    "marginals",
    "masked_parity",
    "masked_parity_schema",
    "mean",
    "mean_vector",
    "naive_bayes",
    "neutral_answer",
    "non_adaptive",
    "paths_schema",
    "perceptron",
    "perceptron_rounds",
    "plane_schema",
    "presentation_of",
    "presentation_of_json",
    "principal_components",
    "prior_in",
    "quantiles",
    "random_features",
    "ranges",
    "rational",
    "register",
    "ridge_regression",
    "table_of",
    "text_of_bits",
    "traits_schema",
    "trend",
    "vectors_schema",
    "words_schema",
]
