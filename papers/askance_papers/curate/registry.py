"""The curator's learners by name, each imported when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from askance_aggregator.learners import ParameterEntry, ParameterKind
from askance_aggregator.names import unknown_name
from askance_papers.curate.request import Curated, CuratorRequest


@dataclass(frozen=True, slots=True)
class CuratorEntry:
    """A learner that can be asked for.

    Args:
      place: "module:function" below this package; the function turns a request into `Curated`.
      summary: a line for `--list`.
      parameters: its own settings, beside the common ones.
    """

    name: str
    place: str
    summary: str
    parameters: tuple[ParameterEntry, ...]

    def curate(self, request: CuratorRequest) -> Curated:
        """Run it."""
        module, _, function = self.place.partition(":")
        found: Curated = getattr(import_module(f"{__package__}.{module}"), function)(request)
        return found


_CONFIDENCE = ParameterEntry(
    "confidence", "of all intervals together", "0.95", kind=ParameterKind.NUMBER
)
_CUTS = ParameterEntry(
    "cuts", "of a column of numbers, dividing its bounds evenly", "15", kind=ParameterKind.WHOLE
)

_ENTRIES = (
    CuratorEntry(
        "mean",
        "answers:release_means",
        "averages of columns, by the Laplace mechanism",
        (
            ParameterEntry(
                "columns",
                "which, commas between them; epsilon is shared",
                kind=ParameterKind.FIELDS,
            ),
            _CONFIDENCE,
        ),
    ),
    CuratorEntry(
        "histogram",
        "answers:release_histogram",
        "number of records in each cell of a column, by the Laplace mechanism",
        (
            ParameterEntry("column", "which", kind=ParameterKind.FIELD),
            ParameterEntry(
                "bins",
                "of a column of numbers, dividing its bounds evenly",
                "10",
                kind=ParameterKind.WHOLE,
            ),
            _CONFIDENCE,
        ),
    ),
    CuratorEntry(
        "agnostic",
        "classifiers:learn_stump",
        "the best decision stump for --label, by permute-and-flip (KLNRS08 Theorem 3.7)",
        (_CUTS,),
    ),
    CuratorEntry(
        "adaboost",
        "classifiers:boost_stumps",
        "a majority of boosted decision stumps for --label, each chosen by permute-and-flip",
        (
            ParameterEntry("rounds", "how many stumps", "30", kind=ParameterKind.WHOLE),
            ParameterEntry(
                "edge",
                "how far below 1/2 a stump's error is taken to be",
                "0.1",
                kind=ParameterKind.NUMBER,
            ),
            ParameterEntry(
                "cap",
                "greatest weight of a record, in units of 1/n",
                "1",
                kind=ParameterKind.NUMBER,
            ),
            _CUTS,
        ),
    ),
    CuratorEntry(
        "parity",
        "classifiers:learn_parity",
        "which columns of bits --label is the parity of (KLNRS08 section 3.2)",
        (
            ParameterEntry(
                "beta", "the chance to fail on enough examples", "0.05", kind=ParameterKind.NUMBER
            ),
        ),
    ),
    CuratorEntry(
        "logistic",
        "classifiers:learn_logistic",
        "a linear classifier for --label, by logistic regression (CM08, corrected)",
        (
            ParameterEntry(
                "mechanism",
                "objective or output: what is perturbed",
                "objective",
                choices=("objective", "output"),
            ),
            ParameterEntry("regularisation", "lambda", "0.01", kind=ParameterKind.NUMBER),
        ),
    ),
    CuratorEntry(
        "synopsis",
        "answers:release_table",
        "a synthetic table of all columns of labels, fitted to private marginals",
        (
            ParameterEntry(
                "method", "mwem, which is pure, or gaussian", "mwem", choices=("mwem", "gaussian")
            ),
            ParameterEntry("delta", "of gaussian", "1e-6", kind=ParameterKind.NUMBER),
            ParameterEntry("way", "how many columns a marginal has", "2", kind=ParameterKind.WHOLE),
            ParameterEntry("rows", "of the synthetic table", "100", kind=ParameterKind.WHOLE),
        ),
    ),
)

LEARNERS: Mapping[str, CuratorEntry] = MappingProxyType({one.name: one for one in _ENTRIES})


def find(name: str) -> CuratorEntry:
    """Return the learner of this name."""
    if name not in LEARNERS:
        raise unknown_name("learner", name, LEARNERS)
    return LEARNERS[name]
