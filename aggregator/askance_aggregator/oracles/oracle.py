"""Interface between learners and sources of answers."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Protocol, TypeVar

from askance_aggregator.learners import Answer, Answers, Batch, Learner, check_answers, check_batch
from askance_client.errors import InvalidAnswer, InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema


class Shares:
    """Gives every value its share of beta; all shares together are at most beta.

    The k-th value that is asked for spends beta / (k (k+1)), which sums to beta however many there
    will be, or beta / M if their number M is given. All values of one question spend what its last
    one does.

    Args:
        beta: the probability of failure, in (0, 1).
        values: how many values will be asked for in all, if it is known.
    """

    def __init__(self, beta: float | Fraction, values: int | None = None) -> None:
        if not 0 < beta < 1:
            raise InvalidParameter(f"beta expects a probability in (0, 1), got {value_text(beta)}")
        if values is not None and values < 1:
            raise InvalidParameter(f"values expects 1 or more, found {values}")
        self._beta = float(beta)
        self._values = values
        self._asked = 0

    def spend(self, values: int) -> float:
        """Return the share of each of the next values."""
        self._asked += values
        if self._values is None:
            return self._beta / (self._asked * (self._asked + 1))
        if self._asked > self._values:
            raise InvalidParameter(
                f"an oracle for {self._values} values was asked for {self._asked}"
            )
        return self._beta / self._values


T = TypeVar("T")


class Oracle(Protocol):
    """Answers statistical queries.

    One that knows the schema of its records has it as `schema`; None: it knows none.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> oracle: ask.Oracle = ask.ExactOracle(schema, {"age": [20, 40, 60, 80]})
        >>> oracle.answer(ask.Batch([ask.Question(ask.predicate(schema.age > 70))]))[0].value
        0.25
    """

    def answer(self, batch: Batch) -> Answers:
        """Answer each question, in order."""
        ...


def schema_of(oracle: Oracle) -> Schema | None:
    """Return the schema of an oracle's records; None: it knows none."""
    found: Schema | None = getattr(oracle, "schema", None)
    return found


def learn(learner: Learner[T], oracle: Oracle, schema: Schema | None = None) -> T:
    """Run a learner to its end against an oracle, and return its hypothesis.

    Args:
        learner: with or without a schema.
        oracle: answers it.
        schema: of the records, for a learner that names columns; None: the oracle's, if it has one.

    Raises:
        InvalidParameter: a learner that has no schema, and none is known; one of fields that
            are others in the records; or not a learner and an oracle.
        LocalProtocolError: the oracle's answers do not have the shape of the batch.
        InvalidAnswer: an answer cannot be valid: it is no number, or a `CheckedOracle` has seen it,
            or the learner itself has, from what it knows of its concepts; the error names the
            round.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> oracle = ask.ExactOracle(schema, {"age": [20, 40, 60]})
        >>> ask.learn(ask.learners.mean("age"), oracle).estimate
        40.0
    """
    if not isinstance(learner, Learner):
        raise InvalidParameter(f"learn: learner: expected a learner, got {value_text(learner)}")
    if not hasattr(oracle, "answer"):
        raise InvalidParameter(f"learn: oracle: expected an oracle, got {value_text(oracle)}")
    records = schema_of(oracle)
    known = records if schema is None else schema
    made = learner if known is None else learner.bound(known)
    if records is not None and made.schema is not None:
        _check_fields(made.name, made.schema, records)
    run = made.run()
    number = 0
    try:
        batch = check_batch(next(run), learner.name)
        while True:
            answers = check_answers(batch, oracle.answer(batch))
            for place, answer in enumerate(answers):
                finite_values(f"{learner.name}: round {number + 1}, question {place + 1}", answer)
            try:
                asked = run.send(answers)
            except InvalidAnswer as error:
                raise InvalidAnswer(f"{learner.name}: round {number + 1}: {error}") from error
            batch = check_batch(asked, learner.name)
            number += 1
    except StopIteration as end:
        hypothesis: T = end.value
        return hypothesis
    finally:
        run.close()


def finite_values(where: str, answer: Answer) -> list[Fraction]:
    """An answer's values, exactly: no distribution has an expectation that is not finite."""
    for index, value in enumerate(answer.values):
        if not isfinite(value):
            raise InvalidAnswer(f"{where}: expected a finite number as value {index}, got {value}")
    return [Fraction(value) for value in answer.values]


def _check_fields(name: str, schema: Schema, records: Schema) -> None:
    """Refuse a learner whose fields are others in the records: labels would be taken for others."""
    for field, kind in schema.fields.items():
        if field in records.fields and records.fields[field].type != kind.type:
            raise InvalidParameter(
                f"{name}: expected fields as the oracle's schema has them, got {value_text(field)}"
            )
