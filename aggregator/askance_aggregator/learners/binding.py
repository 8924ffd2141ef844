"""Learners that are called by columns' names: the schema may come first, or later.

`difference(schema, "income", "sex")` makes a learner at once. `difference("income", by="sex")`
makes an `Unbound` one, which a study, a simulation or an oracle binds to its schema. Both are calls
of one function, whose signature states the parameters: `schema_later` adds the second style to it.
A text is read as on the command line, and a parameter is known by its argument's name or by its
name on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from askance_aggregator.learners.learner import Learner, Unbound
from askance_aggregator.learners.parameters import Declared, ParameterKind, declared
from askance_aggregator.names import field_called, names_in
from askance_aggregator.numbers import plain_arguments
from askance_client.errors import InvalidParameter
from askance_client.printable import nearest_text, value_text
from askance_client.queries import Expression, Query, Schema

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)
L_co = TypeVar("L_co", bound=Learner[Any], covariant=True)

_SCHEMA = "schema"
_BY_ORDER = (Argument.POSITIONAL_ONLY, Argument.POSITIONAL_OR_KEYWORD)


class OfColumns(Protocol[P, L_co, T_co]):
    """Function of a learner that asks about columns of a schema, in both styles."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # no parameter after it is a schema
        self, schema: Schema, *args: P.args, **kwargs: P.kwargs
    ) -> L_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Unbound[T_co]: ...


class OfQuery(Protocol[P, L_co, T_co]):
    """Function of a learner that asks one query: a query, or a column of a schema."""

    @overload
    def __call__(self, query: Query | Expression, *args: P.args, **kwargs: P.kwargs) -> L_co: ...
    @overload
    def __call__(
        self, schema: Schema, column: str | Query | Expression, *args: P.args, **kwargs: P.kwargs
    ) -> L_co: ...
    @overload
    def __call__(self, column: str, *args: P.args, **kwargs: P.kwargs) -> Unbound[T_co]: ...


ByColumns = Callable[Concatenate[Schema, P], L_co]
ByQuery = Callable[Concatenate[Query | Expression, P], L_co]


def schema_later(
    name: str, version: int, function: Callable[..., Learner[Any]]
) -> Callable[..., Learner[Any]]:
    """Return a learner's function that takes its schema first, or does without one.

    Args:
        name: the learner's.
        version: the learner's.
        function: makes the learner; its first argument is `schema`, or it has no such argument.
    """
    arguments = list(signature(function).parameters.values())
    with_schema = bool(arguments) and arguments[0].name == _SCHEMA
    rest = tuple(arguments[1:] if with_schema else arguments)

    @wraps(function)
    @plain_arguments
    def make(*args: Any, **kwargs: Any) -> Learner[Any]:
        schema, args, kwargs = _schema_among(name, args, kwargs)
        known = {one.argument: one for one in declared(function)}
        given = _by_argument(name, rest, known, args, kwargs)
        for argument, value in given.items():
            if argument in known:
                _check_form(name, known[argument], value)

        def bind(to: Schema) -> Learner[Any]:
            read = {**given, **_read(name, to, known, given)}
            made = function(to, **read) if with_schema else function(**read)
            return replace(made, schema=to)

        if schema is not None:
            return bind(schema)
        named = [known[key] for key, value in given.items() if key in known and value is not None]
        if not with_schema and not any(
            one.is_query and isinstance(given[one.argument], str) for one in named
        ):
            return function(**given)
        return Unbound(
            name=name,
            version=version,
            parameters={},
            given=_call_text(args, kwargs),
            columns=_texts_in(given.values()),
            make=bind,
        )

    return make


def _schema_among(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Schema | None, tuple[Any, ...], dict[str, Any]]:
    """Return the schema, if there is one, and the other arguments."""
    others = {key: value for key, value in kwargs.items() if key != _SCHEMA}
    if _SCHEMA not in kwargs:
        if args and isinstance(args[0], Schema):
            return args[0], args[1:], others
        return None, args, others
    schema = kwargs[_SCHEMA]
    if not isinstance(schema, Schema):
        raise InvalidParameter(f"{name}: schema: expected a schema, got {value_text(schema)}")
    return schema, args, others


def _by_argument(
    name: str,
    arguments: Sequence[Argument],
    known: Mapping[str, Declared],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the values by argument.

    Raises:
        InvalidParameter: one too many, one given twice, one missing, or an unknown name.
    """
    ordered = [one.name for one in arguments if one.kind in _BY_ORDER]
    names = {one.name: one.name for one in arguments}
    names |= {one.entry.name: key for key, one in known.items() if one.entry.name not in names}
    shown = ", ".join(names[one.name] for one in arguments)
    if len(args) > len(ordered):
        raise InvalidParameter(
            f"{name}: expected at most {len(ordered)} arguments in order"
            f" ({', '.join(ordered) or 'none'}), got {value_text(args[len(ordered)])} besides"
        )
    given = dict(zip(ordered, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            raise InvalidParameter(
                f"{name}: expected one of the parameters {shown}, got {key}={value_text(value)}"
                f"{nearest_text(key, names)}"
            )
        if names[key] in given:
            raise InvalidParameter(
                f"{name}: {key}: expected one value, got {value_text(given[names[key]])} and"
                f" {value_text(value)}"
            )
        given[names[key]] = value
    for one in arguments:
        if one.default is Argument.empty and one.name not in given:
            found = known.get(one.name)
            expected = "a value" if found is None else found.entry.summary
            shown = one.name if found is None else found.shown
            raise InvalidParameter(f"{name}: {shown}: expected {expected}, got none")
    return given


def _read(
    name: str, schema: Schema, known: Mapping[str, Declared], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of texts, read as on the command line, and of lists of columns.

    Raises:
        InvalidParameter: a text does not suit the schema; the message says if two are swapped.
    """
    texts = {key: value for key, value in given.items() if key in known and isinstance(value, str)}
    found: dict[str, Any] = {
        key: [field_called(column, schema.fields) for column in given[key]]
        for key, one in known.items()
        if one.entry.kind is ParameterKind.FIELDS and key not in texts and given.get(key)
    }
    for key, text in texts.items():
        try:
            found |= known[key].value(name, schema, text)
        except InvalidParameter as error:
            pairs = ((other, known[other]) for other in texts if other != key)
            swapped = (
                f"; are {known[key].shown} and {one.shown} swapped?"
                for other, one in pairs
                if one.entry.kind is known[key].entry.kind is ParameterKind.FIELD
                and _fits(name, schema, known[key], texts[other])
                and _fits(name, schema, one, text)
            )
            raise InvalidParameter(f"{error}{next(swapped, '')}") from None
    return found


def _fits(name: str, schema: Schema, parameter: Declared, text: str) -> bool:
    try:
        parameter.value(name, schema, text)
    except InvalidParameter:
        return False
    return True


def _check_form(name: str, parameter: Declared, value: object) -> None:
    """Check the form of a value, for which no schema is needed.

    Raises:
        InvalidParameter: no name or list of names where one is expected, or a text of another form.
    """
    kind, place = parameter.entry.kind, f"{name}: {parameter.shown}"
    if value is None and not parameter.is_needed:
        return
    if kind is ParameterKind.FIELD and not isinstance(value, str):
        if parameter.is_query and isinstance(value, Query | Expression):
            return
        expected = "a column's name or an expression" if parameter.is_query else "a column's name"
        raise InvalidParameter(f"{place}: expected {expected}, got {value_text(value)}")
    if kind is ParameterKind.FIELDS and not _are_names(value):
        raise InvalidParameter(
            f"{place}: expected a list of columns' names, got {value_text(value)}"
        )
    if isinstance(value, str):
        try:
            parameter.entry.check(value)
        except InvalidParameter as error:
            raise InvalidParameter(f"{name}: {error}") from None


def _are_names(value: object) -> bool:
    if isinstance(value, str):
        return True
    if isinstance(value, Mapping | Schema) or not hasattr(value, "__iter__"):
        return False
    return all(isinstance(name, str) for name in value)


def _texts_in(values: Iterable[object]) -> frozenset[str]:
    """Return the texts among arguments, and the names in their lists."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            found |= {value, *names_in(value)}
        elif _are_names(value):
            found |= _texts_in(cast("Iterable[str]", value))
    return frozenset(found)


def _call_text(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Format arguments as they were written."""
    return ", ".join(
        [*map(value_text, args), *(f"{key}={value_text(value)}" for key, value in kwargs.items())]
    )
