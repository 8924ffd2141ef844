"""Learners as values: a name, parameters as canonical text, and the way to run them.

Two kinds, distinguished by type. `Adaptive` holds a generator: a later batch may depend on earlier
answers. `NonAdaptive` holds *one* batch and a function from its answers to the hypothesis: it has
no way to see an answer before everything has been asked (KLNRS08's "non-interactive"). An `Unbound`
learner names columns of a schema that it does not have yet, and makes one of the two when it is
given one.

The text of the parameters is part of what an analyst signs, so a learner can be built again from
its name, its version and that text, and replayed.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from askance_aggregator.learners.conditions import Conditions, Settle
from askance_aggregator.learners.learning import Answers, Batch, Learning
from askance_aggregator.learners.parameters import canonical_text
from askance_aggregator.numbers import plain_arguments
from askance_aggregator.queries import as_query
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Query, Schema

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Rehearsal = Callable[[Batch], Answers]
"""Answers to plan with, where zeros would not lead a learner through its usual rounds."""

_IDENTITIES: dict[Callable[..., Any], tuple[str, int]] = {}  # of decorated functions

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)


@dataclass(frozen=True, eq=False, kw_only=True)
class Learner(ABC, Generic[T_co]):
    """A procedure that asks questions and concludes a hypothesis.

    Args:
        name: its name in the registry; lower case, digits and dashes.
        version: changes when what it asks changes.
        parameters: canonical text by name, sorted by name.
        schema: what the records look like, where the learner was given one.
        rehearsal: answers for the planner's dry run; None: the neutral ones. The dry run must be
            the longest one: a run that asks for more values than it ends as `PlanExceeded`.
        argument_fields: fields that the expressions among its arguments use.
        distribution: "name==version" of the installed distribution that it was built from, as the
            catalogue lists it; empty for a built-in one and for a function that was called.
        chosen: note on the fields that the catalogue chose among several that suit, as no parameter
            named them; empty: none.
        compared: note on which two groups are compared, where there are more and the parameters
            name fewer than two; empty: none.
        settling: makes the learner with settings for given conditions, None where they set nothing;
            None: it has no such rule.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> learner = ask.learners.mean(schema.age)
        >>> isinstance(learner, ask.Learner), learner.name, learner.version
        (True, 'mean', 2)
    """

    name: str
    version: int
    parameters: dict[str, str]
    schema: Schema | None = None
    rehearsal: Rehearsal | None = None
    argument_fields: frozenset[str] = frozenset()
    distribution: str = ""
    chosen: str = ""
    compared: str = ""
    settling: Callable[[Conditions], Learner[T_co] | None] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidParameter(
                "a learner's name expects lower-case letters, digits and dashes,"
                f" got {value_text(self.name)}"
            )
        if self.version < 1:
            raise InvalidParameter(f"a learner's version expects 1 or more, found {self.version}")
        object.__setattr__(self, "parameters", dict(sorted(self.parameters.items())))

    @abstractmethod
    def run(self) -> Learning[T_co]:
        """A fresh run: the same answers always lead to the same batches and hypothesis."""

    @property
    @abstractmethod
    def fields_named(self) -> frozenset[str]:
        """Return the fields that a run may use beside those of its rehearsal."""

    def bound(self, schema: Schema) -> Learner[T_co]:
        """Return the learner for records of a schema; only an `Unbound` one is another."""
        return self

    def settled(self, conditions: Conditions) -> Learner[T_co]:
        """Return the learner with the settings that it was not given, made for these conditions.

        A learner that has no such rule is returned as it is. Settling twice changes nothing.
        """
        made = None if self.settling is None else self.settling(conditions)
        return self if made is None else made


@dataclass(frozen=True, eq=False, kw_only=True)
class Adaptive(Learner[T_co]):
    """A learner whose later questions may depend on earlier answers.

    Example:
        >>> schema = ask.learners.masked_parity_schema(4)
        >>> isinstance(ask.learners.masked_parity(schema), ask.Adaptive)
        True
    """

    factory: Callable[[], Learning[T_co]]

    def run(self) -> Learning[T_co]:
        """A fresh generator."""
        return self.factory()

    @property
    def fields_named(self) -> frozenset[str]:
        """Return the fields that its arguments name, by an expression or by text."""
        texts = {part for text in self.parameters.values() for part in text.split(",")}
        known = frozenset() if self.schema is None else frozenset(self.schema.fields)
        return self.argument_fields | (texts & known)


@dataclass(frozen=True, eq=False, kw_only=True)
class NonAdaptive(Learner[T_co]):
    """Learner that asks everything before it receives an answer.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> isinstance(ask.learners.mean(schema.age), ask.NonAdaptive)
        True
    """

    batch: Batch
    conclude: Callable[[Answers], T_co]

    def run(self) -> Learning[T_co]:
        """A generator that yields exactly once."""
        answers = yield self.batch
        return self.conclude(answers)

    @property
    def fields_named(self) -> frozenset[str]:
        """Return no field: all that it asks is its one batch."""
        return frozenset()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Unbound(Learner[T_co]):
    """Learner that names columns, before it has the schema of the records.

    A study, a simulation or an oracle binds it to its schema.

    Args:
        given: its arguments as text.
        columns: names of columns among them, and other texts.
        make: makes the learner for a schema.

    Example:
        >>> learner = ask.learners.mean("age")
        >>> learner
        <Unbound: mean('age')>
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> learner.bound(schema).parameters == ask.learners.mean(schema.age).parameters
        True
    """

    given: str
    columns: frozenset[str]
    make: Callable[[Schema], Learner[T_co]]

    def bound(self, schema: Schema) -> Learner[T_co]:
        """Return the learner for records of a schema.

        Raises:
            InvalidParameter: a column that the schema does not have, or of another type.
        """
        return self.make(schema)

    def run(self) -> Learning[T_co]:
        """Refuse to run."""
        raise self._without_schema()

    @property
    def fields_named(self) -> frozenset[str]:
        """Refuse to name fields."""
        raise self._without_schema()

    def __repr__(self) -> str:
        return f"<Unbound: {self._call}>"

    @property
    def _call(self) -> str:
        return f"{self.name}({self.given})"

    def _without_schema(self) -> InvalidParameter:
        return InvalidParameter(f"{self._call}: expected the schema of the records, got none")


def adaptive(
    name: str,
    version: int = 1,
    rehearsal: Rehearsal | None = None,
    settle: Settle | None = None,
    rehearse: Callable[[Mapping[str, Any]], Rehearsal] | None = None,
) -> Callable[[Callable[P, Learning[T]]], Callable[P, Adaptive[T]]]:
    """Make a learner of a generator function; its arguments become the parameters.

    Args:
        name: the learner's name in the registry.
        version: changes when the questions change.
        rehearsal: answers to plan with, called with each batch; None: neutral ones (zeros). The
            rehearsed run must be the longest that any answers lead to: beta is divided over the
            values that it asks for. A run that asks for more is stopped with `PlanExceeded`, after
            users were charged.
        settle: sets arguments that were not given by users, noise and users needed; None: there is
            no such rule. What it sets at the signing of a study is signed with it.
        rehearse: makes the answers to plan with from the arguments by name, in the place of
            `rehearsal`.

    The function may also check its arguments and return a generator: it is called once, and the
    generator closed, when the learner is made, so that a bad argument is refused there and not in
    the middle of a study.

    Example:
        >>> @ask.adaptive("older")
        ... def older(age: ask.Expression) -> ask.Learning[int]:
        ...     low, high = 0, 120
        ...     while low < high:
        ...         middle = (low + high) // 2
        ...         (share,) = yield ask.Batch([ask.Question(ask.predicate(age <= middle))])
        ...         low, high = (low, middle) if share.value >= 0.5 else (middle + 1, high)
        ...     return low
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.learn(older(schema.age), ask.ExactOracle(schema, {"age": [18, 40, 71]}))
        40
    """

    def decorate(function: Callable[P, Learning[T]]) -> Callable[P, Adaptive[T]]:
        @plain_arguments
        @wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> Adaptive[T]:
            run = function(*args, **kwargs)
            if not isinstance(run, Generator):
                raise InvalidParameter(
                    f"{name} expects a generator function (with a yield), found one that returns"
                    f" {type(run).__name__}"
                )
            run.close()
            arguments = _bound(function, *args, **kwargs)
            return Adaptive(
                name=name,
                version=version,
                **_recorded(arguments),
                rehearsal=rehearsal if rehearse is None else rehearse(arguments),
                factory=lambda: function(*args, **kwargs),
                settling=_settling(make, settle, arguments),
            )

        _IDENTITIES[make] = (name, version)
        return make

    return decorate


def non_adaptive(
    name: str, version: int = 1, settle: Settle | None = None
) -> Callable[[Callable[P, tuple[Batch, Callable[[Answers], T]]]], Callable[P, NonAdaptive[T]]]:
    """Make a learner of a function that returns the one batch and how to conclude from it.

    Arguments are as of `adaptive`.

    Example:
        >>> @ask.non_adaptive("share-above")
        ... def share_above(age: ask.Expression, limit: int):
        ...     batch = ask.Batch([ask.Question(ask.predicate(age > limit))])
        ...     return batch, lambda answers: answers[0].value
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> ask.learn(
        ...     share_above(schema.age, 40), ask.ExactOracle(schema, {"age": [18, 40, 71, 80]})
        ... )
        0.5
    """

    def decorate(
        function: Callable[P, tuple[Batch, Callable[[Answers], T]]],
    ) -> Callable[P, NonAdaptive[T]]:
        @plain_arguments
        @wraps(function)
        def make(*args: P.args, **kwargs: P.kwargs) -> NonAdaptive[T]:
            made = function(*args, **kwargs)
            if not (
                isinstance(made, tuple)
                and len(made) == 2
                and isinstance(made[0], Batch)
                and callable(made[1])
            ):
                raise InvalidParameter(
                    f"{name} expects a batch and what concludes from its answers, found"
                    f" {type(made).__name__}"
                )
            batch, conclude = made
            arguments = _bound(function, *args, **kwargs)
            return NonAdaptive(
                name=name,
                version=version,
                **_recorded(arguments),
                batch=batch,
                conclude=conclude,
                settling=_settling(make, settle, arguments),
            )

        _IDENTITIES[make] = (name, version)
        return make

    return decorate


def identity_of(function: Callable[..., Any]) -> tuple[str, int]:
    """Return name and version of the learners that a decorated function makes."""
    made = inspect.unwrap(function, stop=_IDENTITIES.__contains__)
    if made not in _IDENTITIES:
        raise InvalidParameter(
            "expected a function that adaptive or non_adaptive decorates,"
            f" got {getattr(function, '__qualname__', type(function).__name__)}"
        )
    return _IDENTITIES[made]


def _bound(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
    """Return the arguments of a call by name, defaults too."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _settling(
    make: Callable[..., Learner[T]], rule: Settle | None, arguments: Mapping[str, Any]
) -> Callable[[Conditions], Learner[T] | None] | None:
    """Return what makes the learner with the settings that a rule sets; None without a rule."""
    if rule is None:
        return None
    known = rule

    def settling(conditions: Conditions) -> Learner[T] | None:
        chosen = known(arguments, conditions)
        if all(arguments[name] is value for name, value in chosen.items()):
            return None
        return make(**{**arguments, **chosen})

    return settling


def _recorded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema among the arguments, the others as text, and their expressions' fields."""
    # An argument that is None is left out.
    schema: Schema | None = None
    parameters: dict[str, str] = {}
    fields: frozenset[str] = frozenset()
    for name, value in arguments.items():
        if isinstance(value, Schema):
            schema = value
        elif value is not None:
            parameters[name] = canonical_text(value)
            fields |= fields_used_by(value)
    return {"schema": schema, "parameters": parameters, "argument_fields": fields}


def fields_used_by(value: object) -> frozenset[str]:
    """Return the fields that an argument's expressions use; text and numbers use none."""
    if isinstance(value, Expression | Query):
        return as_query(value).fields_used
    if isinstance(value, tuple | list):
        return frozenset().union(*(fields_used_by(item) for item in value))
    return frozenset()
