"""Base class of the estimators: rows as a population, the study of a fit, and its results.

Annotations are values here: a parameter's type is read where another module's class inherits it.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from askance_aggregator.learners import Learner, assess, find, presentation_of
from askance_aggregator.reports.verdict import Placement, ResultVerdict
from askance_aggregator.studies.study import Epsilon, Study
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_client.queries import Schema
from askance_client.records import Table, field_names
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population
from askance_simulation.populations.arrow_tables import columns_of_frame
from askance_simulation.populations.cells import cells_of_objects
from askance_simulation.populations.population import people_of
from askance_simulation.randomness import Seed

Columns = Mapping[str, NDArray[Any]]
_SOURCE = Path("rows")  # stands for a file's path in messages


def columns_of(rows: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a table by field name.

    Args:
        rows: a DataFrame, whose columns' names become fields' names if all are texts; or an array
            of shape (n, d). Other columns are called x0, x1, ...

    Raises:
        InvalidParameter: no column, two of one name, or one of other values than numbers, truth
            values, texts and times.
    """
    if not hasattr(rows, "columns"):
        table = np.asarray(rows)
        return {f"x{place}": table[:, place] for place in range(table.shape[1])}
    columns = columns_of_frame(rows)
    texts = all(isinstance(name, str) for name, _ in columns)
    if not columns:
        raise InvalidParameter("columns: expected one or more, got none")
    try:
        own = [name if texts else f"x{place}" for place, (name, _) in enumerate(columns)]
        names = field_names("columns", own)
    except InvalidRecord as error:
        raise InvalidParameter(str(error)) from None
    return {name: _array(name, column) for name, (_, column) in zip(names, columns, strict=True)}


def population_of(
    columns: Columns, seed: Seed, schema: Schema | None, label: str | None = None
) -> Population:
    """Make a population of columns, one user per row.

    Args:
        columns: arrays of equal length, by field name.
        seed: root of all randomness.
        schema: of the records; None: inferred from the columns, which a result notes.
        label: field to be predicted; None: there is none.

    Raises:
        InvalidRecord: no column can be asked about, or more than half of a column's values are
            outside the schema.
    """
    cells = [cells_of_objects(column.tolist()) for column in columns.values()]
    names = tuple(columns)
    table = Table(_SOURCE, names, names, list(zip(*cells, strict=True)))
    keep: Collection[str] = names
    return people_of(table, seed, schema=schema, label=label, keep=keep)


def _array(name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array of numbers, truth values or texts; None where one is missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if isinstance(kind, str) and kind in tuple("biuf"):
        found = np.asarray(column)
        if found.dtype.kind in "biuf":
            return found
    try:
        cells = cells_of_objects(column.to_pylist() if hasattr(column, "to_pylist") else column)
    except Exception:  # of any library, with a value in its text perhaps
        cells = "values that cannot be read"
    if isinstance(cells, str):
        raise InvalidParameter(
            f"columns: expected numbers, truth values, text or times in {value_text(name)},"
            f" got {cells}"
        )
    return np.array(cells, dtype=object)


_SEEDS = (1 << 31) - 1

MakeLearner = Callable[[Schema, list[str]], Learner[Any]]
"""Makes the learner from the population's schema and the names of the columns to ask about."""


@dataclass(eq=False, repr=False, kw_only=True)
class LocalEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Estimator whose `fit` runs a study on simulated devices, one per row.

    Privacy: pure epsilon-LDP per row, as of `askance.simulate`: each device spends at most epsilon.
        Without a schema the bounds and labels are inferred from the rows, which is not private and
        which `notes_` states.

    Args:
        epsilon: each user's whole budget, in nats; > 0.
        schema: fields, bounds and labels, known before any row is read; None: inferred.
        random_state: of the devices' coins, as scikit-learn takes it; None: new ones at each fit.

    Attributes:
        study_: the simulated study (`askance.Simulation`); it is not pickled.
        model_: its hypothesis.
        n_users_: the number of rows.
        epsilon_spent_: the most that a user spent, in nats.
        notes_: facts that a reader of the result must know.

    Warns:
        UserWarning: what was learned is no better, on the rows of the fit, than the most frequent
            class, the mean or one centre. Only a simulation can tell: on devices the rows are not
            known.
    """

    epsilon: Epsilon = 1.0
    schema: Schema | None = None
    random_state: Any = None

    def _run(self, columns: Columns, make: MakeLearner, label: str | None = None) -> None:
        """Run the study and keep its results.

        Args:
            columns: of the rows, with the field to be predicted where there is one.
            make: makes the learner.
            label: the category to be predicted; None: there is none.
        """
        words = check_random_state(self.random_state).randint(_SEEDS, size=2)
        people = population_of(columns, Seed.of(int(words[0])), self.schema, label)
        names = [name for name in columns if name in people.schema.fields]
        study = Study(make(people.schema, names), people.schema, epsilon=self.epsilon)
        self.study_ = simulate(study, people, fleet="columns", seed=int(words[1]))
        self.model_ = self.study_.hypothesis
        self.n_users_ = people.size
        self.epsilon_spent_ = self.study_.epsilon_spent.max
        poor = self._no_better(people)
        self.notes_ = (*self.study_.notes, *people.warnings, *filter(None, [poor]))
        if poor:
            warnings.warn(f"{type(self).__name__}: {poor}", UserWarning, stacklevel=3)

    def _no_better(self, people: Population) -> str:
        """Say that a constant would do as well on the rows of the fit; empty: it would not."""
        learner = self.study_.study.learner
        if not find(learner.name).held_out:
            return ""
        rows = replace(people, unseen=lambda most: people.columns(0, min(most, people.size)))
        found = ResultVerdict(
            presentation_of(self.model_),
            float(self.study_.study.confidence),
            people.size,
            assessments=(assess(self.model_, learner, rows),),
        )
        if found.placement is not Placement.NO_BETTER:
            return ""
        where = f"the {people.size:,} rows of the fit, epsilon {self.study_.study.epsilon:g}"
        return f"{str(found).removesuffix('.')} ({where})"

    def _features(self, rows: Any) -> dict[str, NDArray[Any]]:
        """Return the columns of rows to predict, after scikit-learn's checks."""
        check_is_fitted(self)
        return self._checked(rows, reset=False)

    def _checked(self, rows: Any, *, reset: bool) -> dict[str, NDArray[Any]]:
        if hasattr(rows, "columns"):  # a frame keeps its columns' types
            columns = columns_of(rows)
            validate_data(self, rows, reset=reset, skip_check_array=True)
            return columns
        read = validate_data(
            self,
            rows,
            reset=reset,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        if np.isinf(read.astype(np.float64, copy=False)).any():
            raise ValueError("expected finite numbers or NaN (missing), got infinity")
        return columns_of(read)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: missing numbers are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the study, which holds the rows' devices."""
        return {name: value for name, value in super().__getstate__().items() if name != "study_"}


class Supervised(LocalEstimator):
    """Estimator that predicts one field from the others.

    With a schema, the field to be predicted is the one that the rows do not have.
    """

    _outcome_type: type[np.float64] | None = None  # what is predicted is read as; None: as it is

    @abstractmethod
    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        """Make the learner that predicts a field from columns."""

    def _examples(self, rows: Any, outcome: Any) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """Return the columns and what is to be predicted, shape (n,), after the checks."""
        columns = self._checked(rows, reset=True)
        if outcome is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        try:
            checked = column_or_1d(outcome, warn=True, dtype=self._outcome_type)
        except (TypeError, ValueError) as error:
            if np.ndim(outcome) != 1:
                raise
            kind = type(error).__name__  # its text has a value of a user
            raise InvalidParameter(
                f"y: expected numbers, got values that are none ({kind})"
            ) from None
        assert_all_finite(checked, input_name="y")
        check_consistent_length(next(iter(columns.values())), checked)
        return columns, checked

    def _outcome_name(self, columns: Columns, usual: str) -> str:
        """Return the name of the field to be predicted.

        Raises:
            InvalidParameter: a column has the usual name, or the schema has not exactly one field
                more than the rows.
        """
        if self.schema is not None:
            others = [name for name in self.schema.fields if name not in columns]
            if len(others) != 1:
                raise InvalidParameter(
                    "schema: expected one field that is no column of the rows, the one to be"
                    f" predicted, got {value_text(others)}"
                )
            return others[0]
        if usual in columns:
            raise InvalidParameter(
                f"columns: expected none of the name of what is predicted, got {usual!r}; rename it"
            )
        return usual
