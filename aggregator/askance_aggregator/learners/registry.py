"""Catalogue of learners: found by name, built from text, for the command line and signed studies.

A learner is listed by the decorator `catalogued` of the function that makes it. The modules of this
package are found by themselves. A distribution of its own lists a learner under the entry-point
group `askance.learners`, by the learner's name; it is imported when that name is asked for.

A learner is called by columns' names, with the schema first or later:
`difference(schema, "income", "sex")` makes a learner at once. `difference("income", by="sex")`
makes an `Unbound` one, which a study, a simulation or an oracle binds to its schema. Both are calls
of one function, whose signature states the parameters: `schema_later` adds the second style to it.
A text is read as on the command line, and a parameter is known by its argument's name or by its
name on the command line.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter as Argument
from inspect import signature
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from askance_aggregator.learners.learner import (
    Adaptive,
    Learner,
    NonAdaptive,
    Unbound,
    fields_used_by,
    identity_of,
)
from askance_aggregator.learners.parameters import (
    Declared,
    ParameterEntry,
    ParameterKind,
    canonical_text,
    declared,
    whole,
)
from askance_aggregator.names import field_called, names_in
from askance_aggregator.numbers import plain_arguments
from askance_client.errors import InvalidParameter, InvalidQuery
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
    """Return a learner's function that takes its schema first, or does without one."""
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
    """Return the values by argument."""
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
    """Return the values of texts, read as on the command line, and of lists of columns."""
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
    """Check the form of a value, for which no schema is needed."""
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
    if kind is ParameterKind.VALUES and not _is_list(value):
        raise InvalidParameter(f"{place}: expected a list of values, got {value_text(value)}")
    if isinstance(value, str):
        try:
            parameter.entry.check(value)
        except InvalidParameter as error:
            raise InvalidParameter(f"{name}: {error}") from None


def _are_names(value: object) -> bool:
    if isinstance(value, str):
        return True
    return _is_list(value) and all(isinstance(name, str) for name in cast("Iterable[str]", value))


def _is_list(value: object) -> bool:
    return not isinstance(value, Mapping | Schema) and hasattr(value, "__iter__")


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


GROUP = "askance.learners"
"""Entry-point group under which distributions list learners."""

_FIELDS = (ParameterKind.FIELD, ParameterKind.FIELDS)
_PACKAGE = __name__.rpartition(".")[0]
T = TypeVar("T")
Made = TypeVar("Made", bound=Callable[..., Learner[Any]])


@dataclass(frozen=True, slots=True)
class SmallSettings:
    """Settings for the conformance tests: few values and users, so that a run takes a second.

    Args:
        oracles: of the learner and its population, on a small table where tolerances are met.
        fleets: of both, such that a plan at epsilon 8 needs few users; None: the same.
        fleet_users: users at those settings; None: as many as the plan needs.
    """

    oracles: Mapping[str, str] = field(default_factory=dict)
    fleets: Mapping[str, str] | None = None
    fleet_users: int | None = None

    @property
    def on_fleets(self) -> dict[str, str]:
        """Return the settings for fleets."""
        return dict(self.oracles if self.fleets is None else self.fleets)


@dataclass(frozen=True, slots=True)
class LearnerEntry:
    """Learner that is available by name.

    Args:
        version: of the learners that `function` returns, 1 or more.
        summary: the hypothesis, in a line.
        error: the meaning of the error of its assessments (`assessments.assess`), in a line.
        function: makes the learner; its annotated arguments can be set by text.
        example: makes a schema to plan with where there is no data; its annotated arguments can be
            set by text as well.
        population: name of the generated population that it runs on by default; None: it needs one
            to be named, or a data file.
        held_out: whether the error is measured on rows of users who were not asked; of a data file
            some are then put aside.
        distribution: "name==version" of the distribution that has it; empty: this one.
        guess: the constant guess whose error is their baseline, in a few words; empty: none.
        success: the meaning of a success, in a few words; empty: its runs are not called right
            or wrong.
    """

    name: str
    version: int
    summary: str
    error: str
    function: Callable[..., Learner[Any]]
    example: Callable[..., Schema]
    population: str | None = None
    small: SmallSettings = field(default_factory=SmallSettings)
    held_out: bool = False
    distribution: str = ""
    guess: str = ""
    success: str = ""

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by the decorated function, which another process imports with its annotations."""
        for made, entry in _ENTRIES.items():
            if entry.function is self.function and made.__module__ != "__main__":
                return _entry_of, (made, self.distribution)
        return object.__reduce_ex__(self, 2)

    @property
    def parameters(self) -> tuple[ParameterEntry, ...]:
        """Parameters that can be set by text; those of the example follow the first fields."""
        own = [one.entry for one in declared(self.function)]
        fields = list(takewhile(lambda one: one.kind in _FIELDS, own))
        shape = [replace(one.entry, default=None) for one in declared(self.example)]
        return (*fields, *shape, *own[len(fields) :])

    def build(
        self, schema: Schema | None = None, parameters: Mapping[str, str] | None = None
    ) -> Learner[Any]:
        """Build the learner, with its schema set.

        Without a schema it has its own for its parameters (enough to plan). A field may be given by
        its column's own name, "sepal length (cm)".

        Raises:
            InvalidParameter: a parameter has no such name or a wrong value, the schema does not
                suit the learner, or the function makes a learner of another name or version.
        """
        given = self._named(parameters or {})
        about = self._schema(schema, given)
        arguments = {"schema": about} if "schema" in signature(self.function).parameters else {}
        chosen: dict[str, object] = {}
        for one in declared(self.function):
            value = one.value(self.name, about, given.get(one.entry.name))
            arguments |= value
            if one.entry.kind in _FIELDS and one.entry.name not in given:
                chosen[one.entry.name] = value.get(one.argument)
        made = self.function(**arguments)
        if (made.name, made.version) != (self.name, self.version):
            raise InvalidParameter(
                f"{self.name}: expected a function that makes version {self.version},"
                f" got {made.name} version {made.version}"
            )
        return replace(
            made, schema=about, distribution=self.distribution, chosen=_chosen(about, chosen)
        )

    def check(self, parameters: Mapping[str, str]) -> None:
        """Check what can be known of parameters without a schema: their names and forms.

        Raises:
            InvalidParameter: a parameter has no such name, or a text of another form.
        """
        given = self._named(parameters)
        for parameter in self.parameters:
            if parameter.name in given:
                parameter.check(given[parameter.name])

    def _named(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return parameters as canonical texts; refuse a name that the learner does not have."""
        given = {name: canonical_text(value) for name, value in parameters.items()}
        known = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in known:
                hint = nearest_text(name, known)
                raise InvalidParameter(
                    f"{self.name} has no parameter {name!r}{hint}; it has {', '.join(known)}"
                )
        return given

    def _schema(self, schema: Schema | None, given: Mapping[str, str]) -> Schema:
        """Return the schema of the records, or the example for what is given."""
        shape: dict[str, Any] = {}
        for one in declared(self.example):
            text = given.get(one.entry.name)
            if text is not None:
                shape[one.argument] = whole(one.entry.name, text)
        if schema is None:
            return self.example(**shape)
        if shape and not self.example(**shape).fields.items() <= schema.fields.items():
            raise InvalidParameter(
                f"{self.name}: {', '.join(shape)} and the schema expect different records"
                f" ({', '.join(shape)}: to plan without data)"
            )
        return schema

    def spell(self, learner: Learner[Any], schema: Schema) -> dict[str, str]:
        """Find the text from which `build` makes this learner again on this schema, to be signed.

        A learner records the digest of its query; a column is found by trying each.

        Raises:
            InvalidParameter: no text makes it (a query that is no column, say).
        """
        known = [parameter.name for parameter in self.parameters]
        kept = {name: text for name, text in learner.parameters.items() if name in known}
        columns = [{"column": name} for name in schema.fields] if "column" in known else [{}]
        for column in columns:
            text = {**kept, **column}
            with suppress(InvalidParameter, InvalidQuery):
                built = self.build(schema, text)
                if (built.version, built.parameters) == (learner.version, learner.parameters):
                    return text
        raise InvalidParameter(
            f"{self.name}: expected a learner that {', '.join(known)} and the schema describe,"
            f" got one of {value_text(dict(learner.parameters))}"
        )


class Catalogued(Protocol):
    """Decorator that lists a learner; the function that it returns may do without a schema."""

    @overload
    def __call__(
        self, function: ByColumns[P, NonAdaptive[T]], /
    ) -> OfColumns[P, NonAdaptive[T], T]: ...
    @overload
    def __call__(self, function: ByColumns[P, Adaptive[T]], /) -> OfColumns[P, Adaptive[T], T]: ...
    @overload
    def __call__(
        self, function: ByQuery[P, NonAdaptive[T]], /
    ) -> OfQuery[P, NonAdaptive[T], T]: ...
    @overload
    def __call__(self, function: Made, /) -> Made: ...


def _chosen(schema: Schema, chosen: Mapping[str, object]) -> str:
    """Note the fields that no parameter named, if others are of their types."""
    # `chosen` has names or expressions by parameter; None: all that suit.
    used = {name: _fields_in(part) for name, part in chosen.items()}
    every = frozenset().union(*used.values())
    types = {type(kind) for name, kind in schema.fields.items() if name not in every}
    open_ones = {
        option: [
            name for name in schema.fields if name in some and type(schema.fields[name]) in types
        ]
        for option, some in used.items()
    }
    names = [name for some in open_ones.values() for name in some]
    options = ", ".join(f"--{option}" for option, some in open_ones.items() if some)
    told = f"chosen: {', '.join(names)}, of several that suit; name others by {options}"
    return told if names else ""


def _fields_in(part: object) -> frozenset[str]:
    """Return the fields that a value of a parameter names or asks about."""
    texts = (part,) if isinstance(part, str) else part
    named = [one for one in texts if isinstance(one, str)] if isinstance(texts, tuple) else []
    return fields_used_by(part) | frozenset(named)


_CATALOGUE: dict[str, LearnerEntry] = {}
_ENTRIES: dict[Callable[..., Learner[Any]], LearnerEntry] = {}  # by the decorated function


def _entry_of(made: Callable[..., Learner[Any]], distribution: str) -> LearnerEntry:
    return replace(_ENTRIES[made], distribution=distribution)


def register(entry: LearnerEntry) -> LearnerEntry:
    """Add a learner to the catalogue.

    Raises:
        InvalidParameter: its name is taken.
    """
    if entry.name in _CATALOGUE:
        raise InvalidParameter(f"the learner {entry.name!r} is registered already")
    _CATALOGUE[entry.name] = entry
    return entry


def catalogued(
    *,
    summary: str,
    error: str,
    example: Callable[..., Schema],
    guess: str = "",
    success: str = "",
    population: str | None = None,
    small: SmallSettings | None = None,
    held_out: bool = False,
    made_by: Callable[..., Learner[Any]] | None = None,
) -> Catalogued:
    """List a learner in the catalogue; decorates the function that makes it.

    The function can then be called without its schema: see `schema_later`. For the other arguments
    see `LearnerEntry`. Name and version are those of `adaptive` or `non_adaptive`, on the decorated
    function or on `made_by`, which it calls. An entry point of a distribution of its own refers to
    the decorated function.
    """

    def decorate(function: Callable[..., Learner[Any]]) -> Callable[..., Learner[Any]]:
        name, version = identity_of(made_by or function)
        entry = LearnerEntry(
            name,
            version,
            summary,
            error,
            function,
            example,
            population,
            SmallSettings() if small is None else small,
            held_out,
            guess=guess,
            success=success,
        )
        made = schema_later(name, version, function)
        _ENTRIES[made] = register(entry)
        return made

    return cast("Catalogued", decorate)


def learners() -> tuple[LearnerEntry, ...]:
    """Return the catalogue, sorted by name; learners of installed distributions are in it.

    Raises:
        InvalidParameter: an installed distribution lists a learner that cannot be had.
    """
    _import_modules()
    for point in entry_points(group=GROUP):
        _listed(point.name)
    return tuple(_CATALOGUE[name] for name in sorted(_CATALOGUE))


def find(name: str) -> LearnerEntry:
    """Return the learner of that name, of this distribution or of an installed one.

    Raises:
        InvalidParameter: there is none, or its distribution lists it and it cannot be had.
    """
    _import_modules()
    _listed(name)
    if name not in _CATALOGUE:
        names = {*_CATALOGUE, *(point.name for point in entry_points(group=GROUP))}
        hint = nearest_learner(name, names)
        raise InvalidParameter(
            f"no learner {value_text(name)}{hint}; there are {', '.join(sorted(names))}"
        )
    return _CATALOGUE[name]


_CALLED: Mapping[str, str] = MappingProxyType(
    {
        "average": "mean",
        "count": "frequency",
        "counts": "frequency",
        "histogram": "ranges, or frequency of a category",
        "median": "quantiles, or ranges for all quartiles",
        "percentile": "quantiles",
        "percentiles": "quantiles",
        "proportion": "frequency, or mean of a bit",
        "quartiles": "ranges",
        "regression": "linear-regression",
        "share": "frequency, or mean of a bit",
        "top-k": "heavy-hitters",
        "value-counts": "frequency",
    }
)
"""Learners by other names of what they answer."""


def nearest_learner(name: object, names: Iterable[str]) -> str:
    """Format the learner that a name may mean as a question in brackets; empty if none is near."""
    meant = _CALLED.get(str(name).lower().replace("_", "-"))
    return nearest_text(name, names) if meant is None else f" (did you mean {meant}?)"


@cache
def _import_modules() -> None:
    """Import the modules of this package, so that their learners are listed."""
    for module in pkgutil.iter_modules(import_module(_PACKAGE).__path__):
        import_module(f"{_PACKAGE}.{module.name}")


def _listed(name: str) -> None:
    """Take a learner over from the installed distribution that lists it, if one does."""
    entry = _CATALOGUE.get(name)
    if entry is not None and (entry.distribution or _is_built_in(entry)):
        return
    points = {_distribution(point): point for point in entry_points(group=GROUP, name=name)}
    if len(points) > 1:
        raise InvalidParameter(
            f"learner {name!r}: expected one distribution that lists it,"
            f" got {', '.join(sorted(points))}"
        )
    for distribution, point in points.items():
        _CATALOGUE[name] = replace(_loaded(point, distribution), distribution=distribution)


def _loaded(point: EntryPoint, distribution: str) -> LearnerEntry:
    """Import the entry that an entry point refers to; code of any distribution may fail."""
    place = f"learner {point.name!r} of {distribution}"
    try:
        found = point.load()
    except Exception as error:
        raise InvalidParameter(
            f"{place}: expected {point.value} to be imported, got {type(error).__name__}: {error}"
        ) from error
    entry = _ENTRIES.get(found) if callable(found) else None
    if entry is None or entry.name != point.name:
        raise InvalidParameter(
            f"{place}: expected {point.value} to be the catalogued learner of that name,"
            f" got {type(found).__name__ if entry is None else entry.name!r}"
        )
    return entry


def _distribution(point: EntryPoint) -> str:
    """Format the distribution of an entry point as "name==version"."""
    return "" if point.dist is None else f"{point.dist.name}=={point.dist.version}"


def _is_built_in(entry: LearnerEntry) -> bool:
    return str(entry.function.__module__).startswith(f"{_PACKAGE}.")
