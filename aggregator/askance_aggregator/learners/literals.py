"""Conjunctions and disjunctions of literals: variables and negated variables, asked all at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import non_adaptive
from askance_aggregator.learners.learning import Answers, Batch, Question
from askance_aggregator.learners.parameters import Accuracy
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import Rows, bits_of
from askance_aggregator.learners.shapes import ResultShape, RuleList, shape_of
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import EncodedColumns, merge_disjoint
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bits, Label, Schema


class LabelledBits(JsonObject):
    """Classifier of rows with bits x, whose label y is 0 or 1."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """The field that it predicts."""
        return "y"

    @property
    def classes_(self) -> NDArray[np.int64]:
        """0 and 1."""
        return np.array([0, 1])

    def tested_shape(self, rows: EncodedColumns) -> ResultShape | None:
        """Return the diagram; rows do not change it."""
        return shape_of(self)


@dataclass(frozen=True, slots=True)
class Literals(LabelledBits):
    """Some of the 2d literals over d bits, joined.

    Args:
        variables: the indices of those that are to be 1, ascending.
        negated: the indices of those that are to be 0, ascending; a variable may be in both.
    """

    json_name: ClassVar = "literals"
    json_keys: ClassVar = ("summary", "variables", "negated", "d")

    d: int
    variables: tuple[int, ...]
    negated: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for indices in (self.variables, self.negated):
            if sorted(set(indices)) != list(indices) or not all(0 <= j < self.d for j in indices):
                raise InvalidParameter(
                    f"literals expect ascending variables in 0..{self.d - 1},"
                    f" got {value_text(indices)}"
                )

    def literals(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which of the rows' literals hold, shape (n, literals)."""
        x = bits_of("x", self.d, rows)
        return np.concatenate(
            [x[:, list(self.variables)] == 1, x[:, list(self.negated)] == 0], axis=1
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per literal: the bit's number, and whether it is negated."""
        signs = {**dict.fromkeys(self.variables, False), **dict.fromkeys(self.negated, True)}
        return [{"variable": j, "negated": signs[j]} for j in sorted(signs)]

    def rule_list(self, holds: bool) -> RuleList:
        """Return a rule per literal: the label where it holds, or where it does not.

        Args:
            holds: whether one literal that holds, or one that does not, settles the label, as 1 or
                as 0.
        """
        literals = [(j, 1) for j in self.variables] + [(j, 0) for j in self.negated]
        outcome = int(holds)
        rules = tuple(
            (f"x[{j}] = {value if holds else 1 - value}", str(outcome), outcome)
            for j, value in sorted(literals)
        )
        return RuleList(self.label, rules, str(1 - outcome), 1 - outcome)

    def joined(self, word: str, nothing: str) -> str:
        """The literals by name, in the variables' order, joined by a word."""
        names = [(j, f"x[{j}]") for j in self.variables]
        names += [(j, f"not x[{j}]") for j in self.negated]
        return f" {word} ".join(name for _, name in sorted(names)) or nothing


@hypothesis_of("literal-conjunctions")
class LiteralConjunction(Literals):
    """1 where all of its literals hold; of none, it is always 1."""

    __slots__ = ()

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        """The labels 0 and 1 of rows with x of shape (n, d), shape (n,)."""
        return np.asarray(self.literals(rows).all(axis=1), dtype=np.int64)

    def to_shape(self) -> RuleList:
        """Return a rule per literal: 0 where it does not hold."""
        return self.rule_list(holds=False)

    def __str__(self) -> str:
        return self.joined("and", "always")


@hypothesis_of("disjunctions")
class Disjunction(Literals):
    """1 where one of its literals holds; of none, it is never 1."""

    __slots__ = ()

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        """The labels 0 and 1 of rows with x of shape (n, d), shape (n,)."""
        return np.asarray(self.literals(rows).any(axis=1), dtype=np.int64)

    def to_shape(self) -> RuleList:
        """Return a rule per literal: 1 where it holds."""
        return self.rule_list(holds=True)

    def __str__(self) -> str:
        return self.joined("or", "never")


def labelled_bits_schema(d: Annotated[int, "variables (8 without data)"] = 8) -> Schema:
    """Records of d bits x with their label y."""
    return Schema("labelled-bits", 1, x=Bits(d), y=Label([0, 1]))


@catalogued_classifier(
    summary="conjunctions of variables and negated variables, asked all at once",
    example=labelled_bits_schema,
    population="literal-conjunctions",
    small=SmallSettings(
        oracles={"d": "3", "accuracy": "4/5"}, fleets={"d": "2", "relevant": "1", "accuracy": "4/5"}
    ),
)
@non_adaptive("literal-conjunctions", version=1)
def literal_conjunctions(
    schema: Schema, accuracy: Accuracy = "1/10"
) -> tuple[Batch, Callable[[Answers], LiteralConjunction]]:
    """Keep every literal that positive examples seldom violate.

    Utility: error below `accuracy` under any distribution, if every answer is within its
    tolerance. d questions with tau = accuracy/(4d), one a variable: its two literals are violated
    by disjoint sets of positive examples, so both shares are cells of one categorical question,
    for the users of one. A literal is kept iff its share is at most tau: those of the target are
    never violated and kept; one that is kept is violated by less than 2 tau, and there are 2d.
    Users: a fresh group a question, of the order d (d/accuracy)^2 log d / epsilon^2 in all; about
    7.5 million at d = 8, accuracy = 1/10, epsilon = 2.

    Raises:
        InvalidParameter: the schema has not x=Bits(d) and y=Label([0, 1]), or accuracy is not in
            (0, 1).

    Source: notes, Theorem 5; deviation: negations, two literals a question.

    Example:
        >>> people = ask.Population.generated("literal-conjunctions", users=2_000, d=4)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> ask.learn(ask.learners.literal_conjunctions(), oracle).d
        4
    """
    d = bits_width(schema, "literal-conjunctions")
    batch, tau = _violations(schema, d, accuracy, label="1")

    def conclude(answers: Answers) -> LiteralConjunction:
        return LiteralConjunction(d, _kept(answers, 0, tau), _kept(answers, 1, tau))

    return batch, conclude


@catalogued_classifier(
    summary="disjunctions of variables and negated variables, asked all at once",
    example=labelled_bits_schema,
    population="disjunctions",
    small=SmallSettings(
        oracles={"d": "3", "accuracy": "4/5"}, fleets={"d": "2", "relevant": "1", "accuracy": "4/5"}
    ),
)
@non_adaptive("disjunctions", version=1)
def disjunctions(
    schema: Schema, accuracy: Accuracy = "1/10"
) -> tuple[Batch, Callable[[Answers], Disjunction]]:
    """Keep every literal that negative examples seldom satisfy: De Morgan's other side.

    Utility: as `literal_conjunctions`: d questions with tau = accuracy/(4d), error below
    `accuracy` under any distribution, as many users.

    Arguments and errors are as of `literal_conjunctions`.

    Source: notes, Theorem 5; deviation: disjunctions, negations, two literals a question.

    Example:
        >>> people = ask.Population.generated("disjunctions", users=2_000, d=4)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> ask.learn(ask.learners.disjunctions(), oracle).d
        4
    """
    d = bits_width(schema, "disjunctions")
    batch, tau = _violations(schema, d, accuracy, label="0")

    def conclude(answers: Answers) -> Disjunction:
        return Disjunction(d, _kept(answers, 1, tau), _kept(answers, 0, tau))

    return batch, conclude


def bits_width(schema: Schema, learner: str) -> int:
    """d, where the schema has x=Bits(d) and y=Label([0, 1])."""
    bits, label = schema.fields.get("x"), schema.fields.get("y")
    if isinstance(bits, Bits) and isinstance(label, Label) and set(label.labels) == {"0", "1"}:
        return bits.width
    raise InvalidParameter(
        f"{learner} expects the fields x=Bits(d) and y=Label([0, 1]),"
        f" got {value_text(dict(schema.fields))}"
    )


def allowed_error(accuracy: Rational) -> Fraction:
    """The accuracy that was asked for, in (0, 1)."""
    allowed = rational(accuracy, "accuracy")
    if not 0 < allowed < 1:
        raise InvalidParameter(f"accuracy expects an error in (0, 1), got {value_text(accuracy)}")
    return allowed


def _violations(schema: Schema, d: int, accuracy: Rational, label: str) -> tuple[Batch, float]:
    """For each variable, the shares of examples of a label that have it at 0, and at 1."""
    tau = allowed_error(accuracy) / (4 * d)
    labelled = schema["y"] == label
    queries = (merge_disjoint([~x & labelled, x & labelled]) for x in schema["x"])
    # Rounded as answers are: an answer of exactly tau is not above it.
    return Batch(Question(query, tau=tau) for query in queries), float(tau)


def _kept(answers: Answers, value: int, tau: float) -> tuple[int, ...]:
    """The variables that have this value at hardly any such example."""
    return tuple(j for j, answer in enumerate(answers) if answer.values[value] <= tau)
