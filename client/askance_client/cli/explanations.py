"""Studies and requests in plain words: possible answers, exact loss, and what is left to spend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from askance_client.accounting import MAX_NANO_NATS, NANO_NATS_PER_NAT, exp_bounds, format_nats
from askance_client.cli.explaining import asked, likeliest_levels
from askance_client.cli.wording import level_name
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.ledger import SECONDS_PER_DAY, LedgerFile
from askance_client.messages import Request, StudyTerms
from askance_client.owner import KnownStudy
from askance_client.owner.laws import classes, percent, table, truths
from askance_client.printable import printable
from askance_client.queries import Bit, Query, QueryKind, Schema
from askance_client.randomizers import Randomizer
from askance_client.risk import cost
from askance_client.service.clock import utc_text

_ANY = Schema("any", 1, any=Bit())
ANY_STUDY = StudyTerms(bytes(16), "", 1, (), _ANY, MAX_NANO_NATS, 0, "", fields=())
"""Terms that promise no budget: the owner's limits alone hold for them."""

_BITS = 64  # binary places of the odds
_HUNDREDTHS = 100
_MOST_EXPONENT = 40 * NANO_NATS_PER_NAT  # of more nats the odds have no use: 10^17 times


def odds(nano_nats: int) -> str:
    """Return e^(nano_nats / 10^9), rounded up to two decimals, as text."""
    if nano_nats > _MOST_EXPONENT:
        return "more than 10^17"
    _, high = exp_bounds(nano_nats, _BITS)
    hundredths = -(-high * _HUNDREDTHS >> _BITS)
    whole, rest = divmod(hundredths, _HUNDREDTHS)
    return f"{whole:,}.{rest:02}" if rest else f"{whole:,}"


def explained_request(request: Request, payload: bytes) -> dict[str, Any]:
    """Return a request as a JSON object: question, answers, probabilities and loss."""
    return {
        "request": digest_of(payload).hex(),
        "round": request.round,
        **explained_question(request),
    }


def explained_question(request: Request) -> dict[str, Any]:
    """Return a question with its possible answers and their probabilities for each truth."""
    query, randomizer = request.query, request.randomizer
    nano_nats = randomizer.loss.nano_nats
    return {
        **asked(query),
        "nano_nats": nano_nats,
        "odds": odds(nano_nats),
        "randomizer": randomizer.name,
        "rounded": query.kind in (QueryKind.REAL, QueryKind.VECTOR),
        **_law(request, query, randomizer),
    }


def _law(request: Request, query: Query, randomizer: Randomizer) -> dict[str, Any]:
    found = table(randomizer)
    if found is None:
        return _classes(query, randomizer)
    names = [likeliest_levels(request, answer) or answer.hex() for answer, _ in found]
    if len(set(names)) < len(names):
        names = [f"answer {place}, likeliest for {name}" for place, name in enumerate(names)]
    return {
        "truths": [
            level_name(query, level, randomizer.levels) for level in range(randomizer.levels)
        ],
        "answers": [
            {"answer": name, "count": 1, "chances": [str(chance) for chance in chances]}
            for name, (_, chances) in zip(names, found, strict=True)
        ],
    }


def _classes(query: Query, randomizer: Randomizer) -> dict[str, Any]:
    """Classes of answers by name: not every truth has each, and their sizes may differ by truth."""
    # A class that a truth does not have has the chance None; of different sizes the count is 0.
    levels = truths(randomizer)
    names = [level_name(query, level, randomizer.levels) for level in levels]
    rows: dict[str, tuple[set[int], list[str | None]]] = {}
    for place, level in enumerate(levels):
        for found in classes(randomizer, level):
            counts, chances = rows.setdefault(found.name, (set(), [None] * len(levels)))
            counts.add(found.answers)
            chances[place] = str(found.chance)
    return {
        "truths": names if len(levels) > 1 else ["any value"],
        "answers": [
            {"answer": name, "count": max(counts) if len(counts) == 1 else 0, "chances": chances}
            for name, (counts, chances) in rows.items()
        ],
    }


def explained_study(known: KnownStudy, terms: StudyTerms, state: str) -> dict[str, Any]:
    """Return a study as a JSON object: terms, the owner's decision, and the most it may cost."""
    decision = known.decision
    entry: dict[str, Any] = {
        "study": known.digest.hex(),
        "analyst": known.analyst.hex(),
        **explained_terms(terms),
        "first_asked": utc_text(known.first_s),
        "state": state,
    }
    if decision is not None and decision.verdict.value == state:
        entry |= {"decided": utc_text(decision.at_s), "why": decision.why}
        if decision.until_s:
            entry["until"] = utc_text(decision.until_s)
    return entry


def explained_terms(terms: StudyTerms) -> dict[str, Any]:
    """Return what an analyst signed, in plain words."""
    return {
        "purpose": printable(terms.purpose),
        "learner": printable(terms.learner),
        "parameters": {printable(name): printable(value) for name, value in terms.parameters},
        "fields": [printable(name) for name in terms.fields],
        "budget_nano_nats": terms.budget_nano_nats,
        "budget_odds": odds(terms.budget_nano_nats),
        "most_answers": terms.most_answers,
        **_repeated(terms),
        "expires": utc_text(terms.expires_unix_s),
    }


def _repeated(terms: StudyTerms) -> dict[str, Any]:
    """Epochs of a repeated study, and the most that all of them may cost together."""
    repeat = terms.repeat
    if repeat is None:
        return {}
    course = repeat.epochs * terms.budget_nano_nats
    first_s = repeat.first * repeat.every_days * SECONDS_PER_DAY
    return {
        "epochs": repeat.epochs,
        "every_days": repeat.every_days,
        "first_epoch": utc_text(first_s, "%Y-%m-%d"),
        "course_nano_nats": course,
        "course_odds": odds(course),
    }


def left(
    ledgers: LedgerFile, policy: Policy, study: bytes, terms: StudyTerms, now_s: int, member: str
) -> dict[str, Any]:
    """Return what is left of each budget, in nano-nats.

    With an empty `member`: of each budget, what the member has who has the least left.
    """
    day = now_s // SECONDS_PER_DAY
    limits = policy.limits(terms, day)
    totals = [
        ledgers.ledger(name).standing(bytes(32), bytes(32), study, day, limits).totals
        for name in ((member,) if member else ledgers.members())
    ]
    spent = {
        "life": (limits.life, max((found.life for found in totals), default=0)),
        "day": (limits.day, max((found.day for found in totals), default=0)),
        "study": (limits.study, max((found.study for found in totals), default=0)),
    }
    if limits.window is not None:
        most = max((found.window for found in totals), default=0)
        spent[f"{policy.window_days} days"] = (limits.window.nano_nats, most)
    if limits.epoch is not None:
        most = max((found.epoch for found in totals), default=0)
        spent["epoch"] = (limits.epoch.nano_nats, most)
    return {
        name: {"left_nano_nats": max(limit - most, 0), "of_nano_nats": limit}
        for name, (limit, most) in spent.items()
    }


def tell_explanation(entry: Mapping[str, Any]) -> str:
    """Format an explained study, with its questions, or a question alone."""
    return "\n".join(_lines(entry))


def _lines(entry: Mapping[str, Any]) -> Iterator[str]:
    if "fields" in entry:
        purpose = entry["purpose"] or "no purpose"
        name = entry.get("file") or entry["study"][:16]
        yield f"study {name}: {purpose} ({entry['learner']})"
        if "analyst" in entry:
            yield f"  analyst        {entry['analyst']}"
        yield f"  may ask about  {', '.join(entry['fields']) or 'no field'}"
        yield from _price(entry)
        yield f"  answers        at most {entry['most_answers']:,}, each charged for"
        yield f"  ends           {entry['expires']}"
        yield from _state(entry)
        yield from _left(entry)
    for one in entry.get("questions", ()):
        yield from _question(one)


def _price(entry: Mapping[str, Any]) -> Iterator[str]:
    price = cost(entry["budget_nano_nats"])
    if "epochs" not in entry:
        yield f"  costs at most  {price}"
        return
    yield (
        f"  repeats        {entry['epochs']} times, every {entry['every_days']} days, from"
        f" {entry['first_epoch']}"
    )
    yield f"  costs at most  {cost(entry['course_nano_nats'])}"
    yield f"  each time      {price}"


def _state(entry: Mapping[str, Any]) -> Iterator[str]:
    if entry.get("state") == "waiting":
        yield f"  waits for the owner: device approve FOLDER {entry['study'][:16]}, or deny"
    elif entry.get("state") == "pinned":
        yield "  answered, because its analyst is pinned"
    elif "state" in entry:
        until = f" until {entry['until']}" if "until" in entry else ""
        why = f": {printable(entry['why'])}" if entry.get("why") else ""
        yield f"  {entry['state']}{until}{why}"


def _left(entry: Mapping[str, Any]) -> Iterator[str]:
    parts = [
        f"{format_nats(found['left_nano_nats'])} of {format_nats(found['of_nano_nats'])} nats"
        f" ({name})"
        for name, found in entry.get("left", {}).items()
    ]
    if parts:
        yield f"  left           {', '.join(parts)}"
        yield f"  all studies    at most {cost(entry['left']['life']['of_nano_nats'])}"


def _question(entry: Mapping[str, Any]) -> Iterator[str]:
    number = f" {entry['request'][:16]}" if "request" in entry else ""
    yield f"question{number}: {entry['question']}"
    if "formula" in entry:
        yield f"  formula: {entry['formula']}"
    yield f"  an answer costs {cost(entry['nano_nats'])}"
    if entry["rounded"]:
        yield "  a number between two of these values is rounded to one of them at random"
    yield from _chances(entry)


def _chances(entry: Mapping[str, Any]) -> Iterator[str]:
    rows = [["possible answer", *(f"if {truth}" for truth in entry["truths"])]]
    for row in entry["answers"]:
        count = f" ({_counted(row['count'])})" if row["count"] > 1 else ""
        rows.append([f"{row['answer']}{count}", *map(percent, row["chances"])])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        first, *others = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(["", first, *others])


def _counted(number: int) -> str:
    text = f"{number:,}"
    return f"{text} of them" if len(text) < 14 else f"about 10^{len(str(number)) - 1} of them"
