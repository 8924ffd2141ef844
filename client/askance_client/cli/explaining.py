"""Ledger rows in plain words: the question, the answer and the study, decoded from kept bytes."""

from __future__ import annotations

from functools import lru_cache

from askance_client.cli.wording import level_name, listed, question
from askance_client.codec import decode_request, decode_study
from askance_client.errors import AskanceError
from askance_client.exact_laws import probability
from askance_client.ledger import Posting, PostingKind
from askance_client.messages import Request, StudyTerms
from askance_client.printable import printable
from askance_client.queries import Query
from askance_client.queries.kinds import Op
from askance_client.service.clock import utc_text

_MOST_LEVELS = 64  # of a randomizer whose likeliest levels are named; the others' are counted
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
        **({"question": _UNKNOWN} if request is None else asked(request.query)),
        "answer": charge.symbol.hex() if request is None else answer(request, charge.symbol),
    }


def asked(query: Query) -> dict[str, str]:
    """Return a question in plain words, and its expression where that is more than a field."""
    value = query.expression
    formula = {} if value.op == Op.FIELD else {"formula": printable(repr(value))}
    return {"question": question(query), **formula}


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
    return listed(tuple(names))


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
