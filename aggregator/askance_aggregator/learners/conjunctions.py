"""Monotone conjunctions over d bits: the textbook SQ learner, and a non-adaptive one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.learners.assessments import THE_TARGET, Assessment, Users, assess
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answers, Batch, Question
from askance_aggregator.learners.literals import allowed_error, bits_width
from askance_aggregator.learners.parameters import Accuracy
from askance_aggregator.learners.presentation import Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.shapes import RuleList
from askance_aggregator.queries import predicate
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bits, Label, Schema


@hypothesis_of("conjunctions")
@dataclass(frozen=True, slots=True)
class Conjunction(JsonObject):
    """The conjunction of some of d variables; of none, it is always true."""

    json_name: ClassVar = "conjunction"
    json_keys: ClassVar = ("variables", "d")

    d: int
    variables: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(set(self.variables)) != list(self.variables) or not all(
            0 <= variable < self.d for variable in self.variables
        ):
            raise InvalidParameter(
                f"Conjunction expects ascending variables in 0..{self.d - 1},"
                f" got {value_text(self.variables)}"
            )

    def predict(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.int64]:
        """The labels 0 and 1 of rows, shape (n,), from "x" of shape (n, d) with 0/1."""
        x = np.asarray(columns["x"], dtype=np.int64).reshape(-1, self.d)
        return np.asarray(x[:, list(self.variables)].all(axis=1), dtype=np.int64)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per variable."""
        return [{"variable": variable} for variable in self.variables]

    def present(self) -> Presentation:
        """Return the conjunction as a line."""
        return Presentation(lines=(str(self),))

    def to_shape(self) -> RuleList:
        """Return the conjunction as a list: the label is 0 where a variable is 0, else 1."""
        rules = tuple((f"x[{variable}] = 0", "0", 0) for variable in self.variables)
        return RuleList("y", rules, "1", 1)

    def __str__(self) -> str:
        return " and ".join(f"x[{variable}]" for variable in self.variables) or "always"


def conjunctions_schema(d: Annotated[int, "variables (8 without data)"] = 8) -> Schema:
    """The records x with their label y."""
    return Schema("conjunctions", 1, x=Bits(d), y=Label([0, 1]))


@catalogued(
    summary="monotone conjunctions over d bits, asked all at once",
    error="share of labels that the hypothesis gets wrong, under the population's distribution",
    guess="the more frequent label",
    success=THE_TARGET,
    example=conjunctions_schema,
    population="conjunctions",
    small=SmallSettings(
        oracles={"d": "3", "accuracy": "1/2"}, fleets={"d": "2", "relevant": "1", "accuracy": "1/2"}
    ),
)
@non_adaptive("conjunctions", version=1)
def conjunctions(
    schema: Schema, accuracy: Accuracy = "1/10"
) -> tuple[Batch, Callable[[Answers], Conjunction]]:
    """Keep every variable that positive examples seldom have at 0.

    Utility: error at most `accuracy` under any distribution, if every answer is within its
    tolerance. The d questions phi_i = [x_i = 0, y = 1] have tau = accuracy/(2d); x_i is kept iff
    the answer is at most that: a variable of the target has E[phi_i] = 0 and is kept, and one that
    is kept has E[phi_i] < accuracy/d, so that all of them together err on less than `accuracy`.

    Raises:
        InvalidParameter: the schema has not x=Bits(d) and y=Label([0, 1]), or accuracy is not in
            (0, 1).

    Source: notes, Theorem 5.

    Example:
        >>> people = ask.Population.generated("conjunctions", users=2_000, d=4)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> ask.learn(ask.learners.conjunctions(), oracle) == people.target
        True
    """
    d = bits_width(schema, "conjunctions")
    tau = allowed_error(accuracy) / (2 * d)
    positive = schema["y"] == "1"
    batch = Batch(Question(predicate(~schema["x"][i] & positive), tau=tau) for i in range(d))

    threshold = float(tau)  # rounded as answers are: an answer of exactly tau is not above it

    def conclude(answers: Answers) -> Conjunction:
        kept = (i for i, answer in enumerate(answers) if answer.value <= threshold)
        return Conjunction(d, tuple(kept))

    return batch, conclude


@assess.register
def _(hypothesis: Conjunction, learner: Learner[Any], users: Users) -> Assessment:
    """Return the share of uniform rows on which two conjunctions differ, exactly."""
    target = users.target
    if not isinstance(target, Conjunction):
        return Assessment(None, None)
    one, other = set(hypothesis.variables), set(target.variables)
    both = 0.5 ** len(one | other)
    error = 0.5 ** len(one) + 0.5 ** len(other) - 2 * both
    true = 0.5 ** len(other)
    return Assessment(hypothesis == target, error, baseline=min(true, 1 - true))
