"""Questions in plain words, each of which follows from the expression that a device evaluates.

Where an answer depends on one part of the record, the expression is evaluated on all values of that
part, and the words name those that lead to the answer. A number with many values is evaluated once
between any two neighbouring constants, if it is compared with constants only: in between no answer
changes. Where an answer depends on more, or on too much to be evaluated at once, the fields and the
number of possible answers are named. A label that could be read as more than a name is in quotes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from askance_client.printable import fixed, printable
from askance_client.queries import Expression, Query, QueryKind
from askance_client.queries.categories import cell_names, signed_cells
from askance_client.queries.evaluate import compile_expression
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.limits import WORD
from askance_client.queries.program import postorder

_MOST_NAMED = 8
_MOST_TRIED = 1024  # values of a part of the record, and cells
_MOST_STEPS = 1 << 18  # nodes, arguments and constants, times the values that are tried
_REMEMBERED = 256  # expressions: a table asks for each level's name
_OTHER, _NONE, _NEVER = "any other", "no value", ", which no value has"
# Printable ASCII without quotes, commas and semicolons, one space at a time; no word that joins.
_JOINS = r"(any other|no value|(.* )?(and|if|is|neither|nor|not|or)( |$))"
_PLAIN = re.compile(rf"(?i)(?!{_JOINS})[!#-&(-+\--:<-~]+( [!#-&(-+\--:<-~]+)*")
_COMPARED = (Op.LESS, Op.LESS_EQUAL, Op.EQUAL)
_JOINED = {Op.AND: " and ", Op.OR: " or "}

Spans = list[tuple[int, int]]
"""Values first .. stop - 1 each, in ascending order."""


def question(query: Query) -> str:
    """Return a query as a question in plain words; bounds are those of the value itself."""
    value, span = query.expression, _span(query)
    yours = f"your {listed(query.compiled.names, ' and ', len(query.compiled.names))}"
    match query.kind:
        case QueryKind.CATEGORY if (names := _cell_words(query)) is not None:
            named = [name for name in names if not name.endswith(_NEVER)]
            named.sort(key=lambda name: name.startswith((_OTHER, _NONE)))
            return f"Which of {listed(tuple(named))} is {_part_text(_parts(value)[0])}?"
        case QueryKind.CATEGORY:
            return f"Which of {query.cells:,} groups are you in, by {yours}?"
        case QueryKind.SIGNED:
            return (
                f"Which of {signed_cells(query):,} positions, and which sign, follow from {yours}?"
            )
        case QueryKind.VECTOR:
            return (
                f"Which signs have {query.components:,} numbers, {span}, that follow from {yours}?"
            )
        case QueryKind.REAL if value.op == Op.FIELD and value.kind != Kind.BOOLEAN:
            return f"What is {yours}, {span}?"
        case QueryKind.REAL if value.op == Op.WHERE and (said := _chosen(value)) is not None:
            return f"What is {said}, {span}?"
        case QueryKind.REAL if value.kind != Kind.BOOLEAN:
            return f"What is the number, {span}, that follows from {yours}?"
    said, missing = _clause(value), ", or is a value missing" * (query.default == 1)
    return f"Yes or no{f', by a rule on {yours}' if said is None else f': {said}'}{missing}?"


def level_name(query: Query, level: int, levels: int) -> str:
    """Return a level of a randomizer in plain words: the value of the query that it stands for."""
    match query.kind:
        case QueryKind.PREDICATE:
            return ("no", "yes")[level]
        case QueryKind.CATEGORY:
            return (_cell_words(query) or tuple(map(_label, cell_names(query))))[level]
        case QueryKind.REAL:
            value = query.low + level * Fraction(query.high - query.low, levels - 1)
            if value == query.default > query.expression.high:
                return _NONE
            return _decimal(value, query.frac)
        case QueryKind.SIGNED:
            if level == query.high:
                return "none"
            return f"{'+-'[level % 2]}1 at {level // 2}"
        case QueryKind.VECTOR:
            return "".join("-+"[level >> place & 1] for place in range(query.components))


def listed(names: tuple[str, ...], last: str = ", ", most: int = _MOST_NAMED) -> str:
    """Return names with commas; of more than `most` the first ones and how many others."""
    shown = [printable(name) for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return last.join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _parts(value: Expression) -> list[Expression]:
    """Return the parts of a record that a value depends on: fields, and single bits of them."""
    nodes = postorder(value)
    asked = [arg for node in nodes if node.op != Op.COMPONENT for arg in node.args]
    found = [node for node in (*asked, value) if node.op in (Op.FIELD, Op.COMPONENT)]
    return [*{node.digest: node for node in found}.values()]


def _label(label: str) -> str:
    """Return a label as it is, or in quotes if it could be read as more than a name."""
    return label if _PLAIN.fullmatch(label) else repr(label)


def _part_text(part: Expression) -> str:
    bit = f"bit {part.constants[0]} of " if part.op == Op.COMPONENT else ""
    return f"{bit}your {printable(part.name or part.args[0].name)}"


@lru_cache(maxsize=_REMEMBERED)
def _outcomes(value: Expression) -> dict[int, Spans] | None:
    """Return by result the values of the only part that lead to it; None: they are not known."""
    parts = _parts(value)
    starts = _starts(value, parts[0]) if len(parts) == 1 else None
    steps = sum(1 + len(node.args) + len(node.constants) for node in postorder(value))
    if starts is None or steps * len(starts) > _MOST_STEPS:
        return None
    found: dict[int, Spans] = {}
    run = compile_expression(value).run
    for first, stop in zip(starts, [*starts[1:], parts[0].high + 1], strict=True):
        spans = found.setdefault(run([_slot(parts[0], first)]), [])
        if spans and spans[-1][1] == first:
            first = spans.pop()[0]
        spans.append((first, stop))
    return found


def _slot(part: Expression, value: int) -> int | tuple[int, ...]:
    """Return what the evaluation reads of a record whose part is this."""
    if part.op == Op.FIELD:
        return value
    place, words = part.constants[0], [0] * (-(-part.args[0].width // WORD))
    words[place // WORD] = value << place % WORD
    return tuple(words)


def _starts(value: Expression, part: Expression) -> list[int] | None:
    """Return values, rising, between which a result does not change; None: they are not known."""
    if part.kind == Kind.BITS:
        return None
    if part.high - part.low < _MOST_TRIED:
        return [*range(part.low, part.high + 1)]
    found = {part.low}
    for node in postorder(value):
        if all(arg.digest != part.digest for arg in node.args):
            continue
        constant = next((arg for arg in node.args if arg.op == Op.CONSTANT), node)
        if node.op != Op.BUCKETIZE and (node.op not in _COMPARED or constant is node):
            return None
        for edge in constant.constants:
            below = (edge << part.frac) >> constant.grid
            found |= {below, below + 1}
    return sorted(each for each in found if part.low <= each <= part.high)


def _values_text(part: Expression, spans: Spans, join: str = " or ") -> str | None:
    """Return values of a part, joined; None: they are too many, or there is none."""
    names = [name for span in spans for name in _span_names(part, *span)]
    return join.join(names) if 1 <= len(names) <= _MOST_NAMED else None


def _span_names(part: Expression, first: int, stop: int) -> list[str]:
    """Return the names of the values first .. stop - 1; beyond its ends a number is clamped."""
    if part.kind == Kind.BOOLEAN:
        return [("no", "yes")[value] for value in range(first, stop)]
    if part.labels is not None:
        return [*map(_label, part.labels[first:stop][: _MOST_NAMED + 1])]
    one, last, end = (_decimal(each, part.frac) for each in (first, stop - 1, stop))
    if first == part.low:
        below = f"below {end}" if part.frac else f"at most {last}"
        return ["any value" if stop > part.high else below]
    if stop > part.high:
        return [f"at least {one}"]
    between = f"{one} to below {end}" if part.frac else f"{one} to {last}"
    return [one if stop - first == 1 else between]


@lru_cache(maxsize=_REMEMBERED)
def _cell_words(query: Query) -> tuple[str, ...] | None:
    """Return the values that lead to each cell; None: they are not known."""
    if query.expression.op == Op.FIELD and query.expression.labels is not None:
        return tuple(map(_label, query.expression.labels))
    found = _outcomes(query.expression) if query.cells <= _MOST_TRIED else None
    if found is None:
        return None
    (part,) = _parts(query.expression)
    names = []
    for cell in range(query.cells):
        spans = found.get(cell, [])
        words = [_values_text(part, spans) or _OTHER] if spans else []
        names.append(" or ".join(words + [_NONE] * (cell == query.default)) or f"{cell}{_NEVER}")
    return tuple(names) if len({*names}) == len(names) else None


def _clause(value: Expression) -> str | None:
    """Return a condition in words; None: it is neither of one part nor joined from such ones."""
    joined = _joined(value)
    said = [*filter(None, map(_condition, joined))]
    comma = "," * (value.op == Op.AND and any(re.search(" n?or ", one) for one in said))
    told = len(said) == len(joined) > 0
    return (comma + _JOINED.get(value.op, "")).join(said) if told else None


def _joined(value: Expression) -> list[Expression]:
    """Return what AND or OR joins, each once and down to those of one part; none: too many."""
    stack, seen, found = [value], set[bytes](), list[Expression]()
    while stack and len(seen) < 2 * _MOST_NAMED:
        node = stack.pop()
        if node.digest not in seen and node.op == value.op in _JOINED and _outcomes(node) is None:
            stack += reversed(node.args)
        elif node.digest not in seen:
            found.append(node)
        seen.add(node.digest)
    return [] if stack else found


def _condition(value: Expression) -> str | None:
    """Return a condition of one part in words; None: it has more, or too many values."""
    found = _outcomes(value)
    if found is None or len(found) < 2:
        return None
    (part,) = _parts(value)
    yes, no = _values_text(part, found[1]), _values_text(part, found[0], " nor ")
    told = yes if yes is not None or no is None else f"{'neither' if ' nor ' in no else 'not'} {no}"
    return None if told is None else f"{_part_text(part)} is {told}"


def _chosen(value: Expression) -> str | None:
    """Return a field under a condition, and the number that stands for it elsewhere."""
    condition, field, other = value.args
    said = _clause(condition)
    if said is None or field.op != Op.FIELD or other.op != Op.CONSTANT:
        return None
    number = _decimal(other.constants[0], other.grid)
    return f"{_part_text(field)} if {said}, and {number} if not"


def _span(query: Query) -> str:
    """Format the bounds; those of a number that may be missing lie beyond its own."""
    inside = query.expression if query.kind == QueryKind.REAL else query
    ends = max(query.low, inside.low), min(query.high, inside.high)
    return "from {} to {}".format(*(_decimal(end, query.frac) for end in ends))


def _decimal(mantissa: int | Fraction, frac: int) -> str:
    """Format a number over 2^frac with six decimals at most, or with those that tell it apart."""
    return fixed(Fraction(mantissa, 1 << frac), max(6, frac * 3 // 10 + 1)).rstrip("0").rstrip(".")
