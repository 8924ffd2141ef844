"""Ledger rows in plain words: the question, the answer and the study, decoded from kept bytes."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from askance_client.codec import decode_request, decode_study
from askance_client.errors import AskanceError
from askance_client.exact_laws import probability
from askance_client.ledger import Posting, PostingKind
from askance_client.messages import Request, StudyTerms
from askance_client.printable import fixed, printable
from askance_client.queries import Query, QueryKind
from askance_client.queries.categories import cell_names, signed_cells
from askance_client.queries.kinds import Kind, Op
from askance_client.queries.rendering import render
from askance_client.service.clock import utc_text

_MOST_LEVELS = 64  # of a randomizer whose likeliest levels are named; the others' are counted
_MOST_NAMED = 8
_REMEMBERED = 256  # requests: a gateway's members are asked the same ones
_UNKNOWN = "not kept (answered before payloads were kept)"
_EVENTS = {
    PostingKind.LOSS: "loss accepted: what was left of the life budget was charged",
    PostingKind.CLOCK: "clock repaired: time is believed again from here on",
}


def explain(posting: Posting) -> dict[str, object]:
    """Return one row as a JSON object of plain words and numbers."""
    charge = posting.charge
    entry: dict[str, object] = {"member": posting.member} if posting.member else {}
    entry |= {
        "sequence": posting.sequence,
        "kind": posting.kind.value,
        "time": utc_text(charge.at_s),
        "day": charge.day,
        "nano_nats": charge.nano_nats,
    }
    if posting.kind is not PostingKind.ANSWER:
        return entry | {"event": _EVENTS[posting.kind]}
    entry |= {"study": charge.study_digest.hex(), "request": charge.request_digest.hex()}
    request = kept_request(charge.payload, charge.study)
    terms = kept_study(charge.study)
    return entry | {
        "purpose": None if terms is None else printable(terms.purpose),
        "learner": None if terms is None else printable(terms.learner),
        "question": _UNKNOWN if request is None else question(request.query),
        "answer": charge.symbol.hex() if request is None else answer(request, charge.symbol),
    }


def question(query: Query) -> str:
    """Return a query as a question in plain words; bounds are those of the value itself."""
    value = query.expression
    text = printable(render(value))
    text = text[1:-1] if text.startswith("(") else text
    yours = f"your {text}" if value.op == Op.FIELD else text
    match query.kind:
        case QueryKind.CATEGORY:
            return f"Which of {_listed(cell_names(query))} is {yours}?"
        case QueryKind.SIGNED:
            return f"Which position of {signed_cells(query)}, with which sign, is {text}?"
        case QueryKind.VECTOR:
            return f"Which signs have {query.components} numbers, {_span(query)}: {text}?"
        case QueryKind.REAL if value.kind != Kind.BOOLEAN:
            return f"What is {yours}, {_span(query)}?"
        case _:
            return f"Yes or no: {text}?"


def answer(request: Request, symbol: bytes) -> str:
    """Return a randomized answer in plain words: the values that it makes likeliest."""
    likeliest = likeliest_levels(request, symbol)
    if likeliest is None:
        return f"{symbol.hex()} (randomized, {request.randomizer.name})"
    return f"{likeliest} (randomized)"


def likeliest_levels(request: Request, symbol: bytes) -> str | None:
    """Return the values that an answer is likeliest for; None if there are too many to compare."""
    randomizer, query = request.randomizer, request.query
    if randomizer.levels > _MOST_LEVELS:
        return None
    chances = [probability(randomizer, level, symbol) for level in range(randomizer.levels)]
    likeliest = [level for level, chance in enumerate(chances) if chance == max(chances)]
    names = [level_name(query, level, randomizer.levels) for level in likeliest]
    return _listed(tuple(names))


def level_name(query: Query, level: int, levels: int) -> str:
    """Return a level of a randomizer in plain words: the value of the query that it stands for."""
    match query.kind:
        case QueryKind.PREDICATE:
            return ("no", "yes")[level]
        case QueryKind.CATEGORY:
            return printable(cell_names(query)[level])
        case QueryKind.REAL:
            value = query.low + level * Fraction(query.high - query.low, levels - 1)
            if value == query.default > query.expression.high:
                return "no value"
            return _decimal(value * Fraction(1, 1 << query.frac))
        case QueryKind.SIGNED:
            if level == query.high:
                return "none"
            return f"{'+-'[level % 2]}1 at {level // 2}"
        case QueryKind.VECTOR:
            return "".join("-+"[level >> place & 1] for place in range(query.components))


def _listed(names: tuple[str, ...]) -> str:
    shown = [printable(name) for name in names[:_MOST_NAMED]]
    if len(names) > _MOST_NAMED:
        shown.append(f"{len(names) - _MOST_NAMED} more")
    return ", ".join(shown)


def _span(query: Query) -> str:
    """Format the bounds; those of a number that may be missing lie beyond its own."""
    inside = query.expression if query.kind == QueryKind.REAL else query
    ends = max(query.low, inside.low), min(query.high, inside.high)
    return "from {} to {}".format(*(_decimal(Fraction(end, 1 << query.frac)) for end in ends))


def _decimal(value: Fraction) -> str:
    """Format a number with at most six decimals."""
    return fixed(value, 6).rstrip("0").rstrip(".")


@lru_cache(maxsize=_REMEMBERED)
def kept_study(data: bytes) -> StudyTerms | None:
    """Return the study's terms; None if its bytes were not kept."""
    try:
        return decode_study(data) if data else None
    except AskanceError:
        return None


@lru_cache(maxsize=_REMEMBERED)
def kept_request(payload: bytes, study: bytes) -> Request | None:
    """Return the request that was answered; None if its bytes were not kept."""
    terms = kept_study(study)
    if terms is None or not payload:
        return None
    try:
        return decode_request(payload, terms.schema)
    except AskanceError:
        return None
