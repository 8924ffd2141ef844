"""Decision lists over d bits: at each round, every literal that settles those it catches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.hypotheses import hypothesis_of
from askance_aggregator.learners.learner import Adaptive, adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Learning, Question
from askance_aggregator.learners.literals import (
    LabelledBits,
    allowed_error,
    bits_width,
    labelled_bits_schema,
)
from askance_aggregator.learners.parameters import Accuracy
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import Rows, bits_of
from askance_aggregator.learners.shapes import RuleList
from askance_aggregator.numbers import named_count
from askance_aggregator.queries import category, dot, where
from askance_client.errors import InvalidAnswer, InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Query, Schema

_CELLS = 4  # (x_j, y) in binary: 00, 01, 10, 11


class Rule(NamedTuple):
    """If x[variable] == value, the label is `label`."""

    variable: int
    value: int
    label: int


@hypothesis_of("decision-lists")
@dataclass(frozen=True, slots=True)
class DecisionList(LabelledBits):
    """The label of the first rule that fits; of none, the default.

    Rules are in order, at most one a variable; values and labels are 0 or 1.
    """

    json_name: ClassVar = "decision list"
    json_keys: ClassVar = ("summary", "rules", "default", "d")

    d: int
    rules: tuple[Rule, ...]
    default: int

    def __post_init__(self) -> None:
        variables = [rule.variable for rule in self.rules]
        bits = {self.default, *(b for rule in self.rules for b in (rule.value, rule.label))}
        if len(set(variables)) < len(variables) or not bits <= {0, 1}:
            raise InvalidParameter(
                "DecisionList expects at most one rule per variable, values and labels 0 or 1;"
                f" got {value_text(self.rules)}"
            )
        if not all(0 <= variable < self.d for variable in variables):
            raise InvalidParameter(f"DecisionList expects variables in 0..{self.d - 1}")

    @property
    def is_constant(self) -> bool:
        """Return whether it has one label for every row."""
        return all(rule.label == self.default for rule in self.rules)

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        """The labels 0 and 1 of rows with x of shape (n, d), shape (n,)."""
        x = bits_of("x", self.d, rows)
        labels = np.full(len(x), self.default, dtype=np.int64)
        for rule in reversed(self.rules):  # so that the first rule has the last word
            labels[x[:, rule.variable] == rule.value] = rule.label
        return labels

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per rule in order; the last is the default, without a condition."""
        rules: list[dict[str, Any]] = [rule._asdict() for rule in self.rules]
        return [*rules, {"variable": None, "value": None, "label": self.default}]

    def to_shape(self) -> RuleList:
        """Return the rules as a diagram."""
        rules = tuple(
            (f"x[{rule.variable}] = {rule.value}", str(rule.label), rule.label)
            for rule in self.rules
        )
        return RuleList(self.label, rules, str(self.default), self.default)

    def __str__(self) -> str:
        told = [f"x[{rule.variable}] = {rule.value}: {rule.label}" for rule in self.rules]
        return ", else ".join([*told, str(self.default)])


@adaptive("decision-lists", version=1)
def _decision_lists(schema: Schema, accuracy: Fraction, length: int) -> Learning[DecisionList]:
    d = bits_width(schema, "decision-lists")
    return _rounds(schema, d, accuracy / (2 * (d + 1)), named_count(length, "length"))


@catalogued_classifier(
    summary="lists of rules on single bits, every rule that is sure in one round",
    example=labelled_bits_schema,
    population="decision-lists",
    small=SmallSettings(
        oracles={"d": "3", "relevant": "2", "accuracy": "4/5", "length": "2"},
        fleets={"d": "2", "relevant": "2", "accuracy": "4/5", "length": "2"},
    ),
    made_by=_decision_lists,
)
def decision_lists(
    schema: Schema,
    accuracy: Accuracy = "1/10",
    length: Annotated[int, "how many rules the target may have"] = 2,
) -> Adaptive[DecisionList]:
    """Append, round by round, every literal whose new examples all but agree.

    Let R be the examples that no rule so far has caught. A round asks for each variable that is
    in no rule the shares of (x_j, y) within R, one question of five cells. The literal x_j = v
    settles its examples if at most tau of all are in R, have x_j = v, and another label than the
    rest. All literals that do are appended at once: what a later one catches is only less than
    what it was asked about. If both literals of a variable do, the list is complete. One variable
    is left open until then: where all others have a rule, its two literals are sure.

    Utility: for a target of at most `length` rules, error below `accuracy` under any distribution,
    if every answer is within its tolerance: tau = accuracy/(2 (d + 1)), and each of at most d
    rules and the default errs on less than 2 tau. In round r the r-th rule of the target settles
    what is left to it, so there are at most length + 1 rounds, of at most d + 1 - r questions.
    Users: a fresh group a question, of the order length d (d/accuracy)^2 log d / epsilon^2 in all;
    about 11 million at d = 8, accuracy = 1/10, length = 2, epsilon = 2.

    Raises:
        InvalidParameter: the schema has not x=Bits(d) and y=Label([0, 1]), accuracy is not in
            (0, 1), or length is below 1.
        InvalidAnswer: while running: no decision list of that length has such answers.

    Source: notes, section 1.2; Rivest 1987, Kearns 1998; deviation: many literals a round.

    Example:
        >>> people = ask.Population.generated("decision-lists", users=2_000, d=4)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> ask.learn(ask.learners.decision_lists(), oracle).d
        4
    """
    made = _decision_lists(schema, allowed_error(accuracy), length)
    rehearsal = _Rehearsal(bits_width(schema, made.name), length)
    return replace(made, rehearsal=rehearsal)


def _rounds(schema: Schema, d: int, tau: Fraction, length: int) -> Learning[DecisionList]:
    rules: list[Rule] = []
    for _ in range(length + 1):
        used = {rule.variable for rule in rules}
        open_ = [variable for variable in range(d) if variable not in used]
        answers = yield Batch(
            Question(_caught(schema, rules, variable), tau=tau) for variable in open_
        )
        settled = _settled(open_, answers, float(tau))
        both = [pair for pair in settled if len(pair) == 2]
        alone = [pair[0] for pair in settled if len(pair) == 1]
        if both:
            return DecisionList(d, (*rules, *alone, both[0][0]), both[0][1].label)
        if not settled:  # no literal is sure: no decision list at all
            break
        rules += alone[: d - 1 - len(rules)]  # one variable stays open, to determine the default
    raise InvalidAnswer(_no_list(open_, answers, tau, length))


def _settled(open_: Sequence[int], answers: Answers, tau: float) -> list[tuple[Rule, ...]]:
    """For each variable the one or two literals that settle theirs; what catches most first."""
    found: list[tuple[float, tuple[Rule, ...]]] = []
    for variable, answer in zip(open_, answers, strict=True):
        rules, caught = [], 0.0
        for value in (0, 1):
            if _wrong(answer, value) <= tau:
                negative, positive = answer.values[2 * value : 2 * value + 2]
                rules.append(Rule(variable, value, int(positive > negative)))
                caught += negative + positive
        if rules:
            found.append((caught, tuple(rules)))
    return [rules for _, rules in sorted(found, key=lambda item: -item[0])]


def _no_list(open_: Sequence[int], answers: Answers, tau: Fraction, length: int) -> str:
    """Explain why no decision list of that length has these answers, and which comes nearest."""
    pairs = zip(open_, answers, strict=True)
    worse = {variable: max(_wrong(answer, 0), _wrong(answer, 1)) for variable, answer in pairs}
    least = min(worse, key=lambda variable: worse[variable])
    return (
        f"expected answers of a list of at most {length} rules: by now a variable with at most"
        f" {float(tau):.4g} of the rarer label at each of its values, found {worse[least]:.4g} at"
        f" the least, in the answer about x[{least}]"
    )


def _wrong(answer: Answer, value: int) -> float:
    """The share of the rarer label where the variable has this value."""
    return min(answer.values[2 * value : 2 * value + 2])


def _caught(schema: Schema, rules: Sequence[Rule], variable: int) -> Query:
    """The cell (x_j, y) of an example that no rule has caught; the last cell is for all others."""
    x = schema["x"]
    cell = 2 * x[variable] + (schema["y"] == "1")
    if rules:
        fits = [x[rule.variable] if rule.value else ~x[rule.variable] for rule in rules]
        reached = dot([1] * len(fits), fits) == 0
    else:
        reached = cell >= 0  # all users
    return category(where(reached, cell, _CELLS), default=_CELLS)


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    """Examples of which each round settles one literal, and the last round the rest."""

    d: int
    length: int

    def __call__(self, batch: Batch) -> Answers:
        open_ = len(batch.questions)
        last = self.d - open_ >= self.length or open_ == 1
        mixed, one = (0.25, 0.25, 0.25, 0.25, 0.0), (0.0, 0.5, 0.25, 0.25, 0.0)
        first = (0.5, 0.0, 0.0, 0.5, 0.0) if last else one
        rows = [first, *([mixed] * (open_ - 1))]
        return tuple(Answer(row, row, row) for row in rows)
