"""Local differential privacy over devices: the public Python interface.

    >>> import askance as ask
    >>> people = ask.read("census")  # or "people.csv", "people.parquet", a frame
    >>> learner = ask.learners.frequency("education")  # the study has the schema
    >>> study = ask.Study(learner, people.schema, epsilon=1.0)
    >>> study.plan(n_users=people.size).feasible  # before anything is spent
    True
    >>> result = ask.simulate(study, people, fleet="columns", seed=7)
    >>> result.error < result.baseline, result.epsilon_spent.max
    (True, 1.0)
    >>> list(result.to_pandas()["name"])[:2]
    ['Bachelor', 'College']

Examples of this interface assume `import askance as ask` and `import numpy as np`; the tests run
them.

Importing this package imports nothing else: a name is imported when it is first used, from the
module that the imports below state for type checkers. No public callable shares a submodule's name,
because importing the submodule replaces it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from askance import learners
    from askance.budgets import Budget, budget
    from askance.operations import (
        amplification,
        audit,
        catalogue,
        connect,
        demo,
        new_analyst_key,
        plan,
        read,
        study_from_toml,
        verify_export,
    )
    from askance_aggregator.families import (
        best_for,
        hypercube_response,
        k_ary_response,
        linear_hashing,
        random_codebook,
        randomized_response,
        subset_selection,
    )
    from askance_aggregator.learners import (
        Adaptive,
        Allocation,
        Answer,
        Answers,
        Batch,
        Learner,
        Learning,
        NonAdaptive,
        Question,
        adaptive,
        non_adaptive,
    )
    from askance_aggregator.oracles import (
        CentralOracle,
        CentreOracle,
        CheckedOracle,
        ClassificationNoiseOracle,
        EmpiricalOracle,
        ExactOracle,
        LazyOracle,
        Oracle,
        RandomSignOracle,
        WrongSideOracle,
        learn,
        learn_under_noise,
    )
    from askance_aggregator.planning import StudyPlan
    from askance_aggregator.queries import (
        absolute,
        among_present,
        bucketize,
        category,
        clip,
        cross,
        dot,
        first,
        index_of,
        maximum,
        merge_disjoint,
        minimum,
        parity,
        predicate,
        real,
        round_to,
        sigmoid,
        signed,
        vector,
        where,
    )
    from askance_aggregator.reports.schemas import Schema
    from askance_aggregator.sampling import SystemWords
    from askance_aggregator.studies.study import Study
    from askance_client.errors import (
        AskanceError,
        InvalidAnswer,
        InvalidParameter,
        InvalidQuery,
        InvalidRecord,
        PlanExceeded,
        PlanRefused,
    )
    from askance_client.queries import (
        Bit,
        Bits,
        Category,
        Expression,
        Integer,
        Label,
        Query,
        Real,
        constant,
    )
    from askance_client.randomizers import Channel
    from askance_client.version import __version__
    from askance_papers.interface import curate, reproduce
    from askance_simulation.disturbances import Faults, Misbehaviour
    from askance_simulation.experiments import (
        Named,
        Simulation,
        Sweep,
        Trial,
        local_oracle,
        named,
        run_trial,
        simulate,
        sweep,
        verify,
    )
    from askance_simulation.plots import epsilon_curve
    from askance_simulation.populations import Population
    from askance_simulation.randomness import Seed

__all__ = [
    "Adaptive",
    "Allocation",
    "Answer",
    "Answers",
    "AskanceError",
    "Batch",
    "Bit",
    "Bits",
    "Budget",
    "Category",
    "CentralOracle",
    "CentreOracle",
    "Channel",
    "CheckedOracle",
    "ClassificationNoiseOracle",
    "EmpiricalOracle",
    "ExactOracle",
    "Expression",
    "Faults",
    "Integer",
    "InvalidAnswer",
    "InvalidParameter",
    "InvalidQuery",
    "InvalidRecord",
    "Label",
    "LazyOracle",
    "Learner",
    "Learning",
    "Misbehaviour",
    "Named",
    "NonAdaptive",
    "Oracle",
    "PlanExceeded",
    "PlanRefused",
    "Population",
    "Query",
    "Question",
    "RandomSignOracle",
    "Real",
    "Schema",
    "Seed",
    "Simulation",
    "Study",
    "StudyPlan",
    "Sweep",
    "SystemWords",
    "Trial",
    "WrongSideOracle",
    "__version__",
    "absolute",
    "adaptive",
    "among_present",
    "amplification",
    "audit",
    "best_for",
    "bucketize",
    "budget",
    "catalogue",
    "category",
    "clip",
    "connect",
    "constant",
    "cross",
    "curate",
    "demo",
    "dot",
    "epsilon_curve",
    "first",
    "hypercube_response",
    "index_of",
    "k_ary_response",
    "learn",
    "learn_under_noise",
    "learners",
    "linear_hashing",
    "local_oracle",
    "maximum",
    "merge_disjoint",
    "minimum",
    "named",
    "new_analyst_key",
    "non_adaptive",
    "parity",
    "plan",
    "predicate",
    "random_codebook",
    "randomized_response",
    "read",
    "real",
    "reproduce",
    "round_to",
    "run_trial",
    "sigmoid",
    "signed",
    "simulate",
    "study_from_toml",
    "subset_selection",
    "sweep",
    "vector",
    "verify",
    "verify_export",
    "where",
]


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public name, by the imports that type checkers read."""
    import ast

    loader: Any = globals()["__loader__"]
    source = loader.get_source(__name__)  # also where the package is in an archive
    (read_by_checkers,) = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    return {
        alias.name: str(node.module)
        for node in read_by_checkers.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    module = _modules().get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module == __name__:  # a submodule
        return import_module(f"{__name__}.{name}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names only."""
    return sorted(__all__)
