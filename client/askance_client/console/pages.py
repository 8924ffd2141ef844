"""Pages of the owner: budgets, questions, studies, one study, and the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from askance_client.console.markup import Markup, fill, joined, template
from askance_client.console.parts import OwnersView, bars, cards, frame, nats, pairs, time_of, turns
from askance_client.owner.laws import percent
from askance_client.risk import cost

Entry = Mapping[str, Any]
"""Object of an operation's answer (`askance_client.cli.folder`)."""

_STATES = {"waiting": "waits for the owner", "pinned": "answered, because its analyst is pinned"}
_TONES = {"waiting": "warn", "pinned": "good", "approved": "good", "denied": "bad"}
_NO_QUESTION = "No question was charged."
_EXPORT = Markup('<p>Each question that was charged; <a href="history.csv">export as CSV</a>.</p>')
_QUESTION = template("question.html")
_DECISION = template("decision.html")


def budgets(
    view: OwnersView, policy: Entry, studies: Sequence[Entry], newest: Sequence[Entry]
) -> bytes:
    """Make the first page: budgets, studies that wait, budgets of studies, newest questions."""
    general = [name for name in policy["left"] if name not in ("study", "epoch")]
    waiting = [found for found in studies if found.get("state") == "waiting"]
    others = [found for found in studies if found not in waiting]
    gateway = any("member" in entry for entry in newest) and not view.member
    return frame(
        view,
        "Budgets",
        "",
        "Each bar shows the member with the least left:" if gateway else "",
        bars(policy["left"], general),
        _heading("Studies that wait for a decision"),
        cards([_card(view, found) for found in waiting], "No study waits."),
        _heading("Budgets of other studies"),
        cards([_card(view, found) for found in others], "There is none."),
        _heading("Newest questions"),
        cards([_asked(view, entry) for entry in newest], _NO_QUESTION),
    )


def history(view: OwnersView, entries: Sequence[Entry], page: int, *, older: bool) -> bytes:
    """Make a page of the history, newest first."""
    listed = cards([_asked(view, entry) for entry in entries], _NO_QUESTION)
    return frame(view, "Questions", "history", _EXPORT, listed, turns("history", page, older=older))


def studies(view: OwnersView, found: Sequence[Entry], page: int, *, older: bool) -> bytes:
    """Make a page of the studies that the device was asked about, newest first."""
    listed = cards([_card(view, study) for study in found], "No study was asked about.")
    head = _heading("Newest first")
    return frame(view, "Studies", "studies", head, listed, turns("studies", page, older=older))


def study(view: OwnersView, found: Entry) -> bytes:
    """Make the page of a study: terms, budgets, questions with their chances, and the decision."""
    if "fields" not in found:
        return frame(view, "Study", "studies", "Its terms cannot be read.")
    return frame(
        view,
        found["purpose"] or "Study without a purpose",
        "studies",
        pairs(
            ("State", _state(view, found)),
            ("Reason", found.get("why", "") if not view.member else ""),
            ("May ask about", ", ".join(found["fields"]) or "no field"),
            ("Costs at most", _price(found)),
            ("Each time", _each_time(found)),
            ("All studies cost at most", cost(found["left"]["life"]["of_nano_nats"])),
            ("Learner", found["learner"]),
            ("Parameters", ", ".join(f"{k} = {v}" for k, v in found["parameters"].items())),
            ("First asked", time_of(view, found["first_asked"])),
            ("Ends", time_of(view, found["expires"])),
            ("Analyst", _code(found["analyst"])),
            ("Study", _code(found["study"])),
        ),
        _heading("Budgets"),
        bars(found["left"], found["left"]),
        _heading("Questions so far"),
        cards([_question(asked) for asked in found["questions"]], "No question is kept."),
        _heading("Decide"),
        _decision(view, found),
    )


def policy(view: OwnersView, found: Entry) -> bytes:
    """Make the page of what the owner's configuration allows."""
    days, fields, refresh = found["consent_days"], found["fields"], found["refresh_days"]
    shown = (
        ("New studies", "wait for the owner" if found["consent"] == "ask" else "are answered"),
        ("An approval holds", f"{days} days at most" if days else "until its study ends"),
        ("Fields that may be asked", "all" if fields is None else ", ".join(fields) or "none"),
        ("May collect again", f"after {refresh} days or more" if refresh else "never"),
        *((f"At most per {name}", cost(of["of_nano_nats"])) for name, of in found["left"].items()),
        ("Analysts", joined(map(_code, found["analysts"])) or "none"),
    )
    text = fill("<p>{}</p>", "Set in device.toml, [policy]; a device reads it when it starts.")
    return frame(view, "Policy", "policy", text, pairs(*shown))


def failure(view: OwnersView, title: str, message: str) -> bytes:
    """Make the page of an operation that failed."""
    return frame(view, title, None, fill('<p class="notice bad" role="alert">{}</p>', message))


def _heading(text: str) -> Markup:
    return fill("<h2>{}</h2>", text)


def _code(text: str) -> Markup:
    return fill("<code>{}</code>", text)


def _state(view: OwnersView, found: Entry) -> Markup:
    text: str = _STATES.get(found["state"]) or found["state"]
    until = joined((" until ", time_of(view, found["until"]))) if "until" in found else ""
    tone = _TONES.get(found["state"], "")
    return fill('<span class="state {}">{}</span>{}', tone, text, until)


def _price(found: Entry) -> str:
    return cost(found.get("course_nano_nats", found["budget_nano_nats"]))


def _each_time(found: Entry) -> str:
    if "epochs" not in found:
        return ""
    price, epochs, days = nats(found["budget_nano_nats"]), found["epochs"], found["every_days"]
    return f"{price}, {epochs} times, every {days} days from {found['first_epoch']}"


def _card(view: OwnersView, found: Entry) -> Markup:
    if "fields" not in found:
        return _link(found, found["study"][:16])
    return fill(
        "<h3>{}</h3><p>{}</p><p>About {}. Costs at most {}.</p>{}<p><small>Analyst {}</small></p>",
        _link(found, found["purpose"] or "no purpose"),
        _state(view, found),
        ", ".join(found["fields"]) or "no field",
        _price(found),
        bars(found["left"], ["study"]),
        found["analyst"][:16],
    )


def _asked(view: OwnersView, entry: Entry) -> Markup:
    member, spent = entry.get("member", ""), nats(entry["nano_nats"])
    head = fill("<p>{} <strong>{}</strong> {}</p>", time_of(view, entry["time"]), spent, member)
    if "event" in entry:
        return fill("{}<p>{}</p>", head, entry["event"])
    named = {"study": entry["study"], "analyst": (entry["analysts"] or [""])[0]}
    purpose = entry["purpose"] or entry["study"][:16]
    shown = (
        ("Asked", entry["question"]),
        ("Formula", entry.get("formula", "")),
        ("Answered", entry["answer"]),
        ("Study", _link(named, purpose) if entry["analysts"] else purpose),
    )
    return joined((head, pairs(*shown)))


def _question(asked: Entry) -> Markup:
    rounded = " A number between two of these values is rounded to one of them at random."
    return fill(
        _QUESTION,
        question=asked["question"],
        formula=pairs(("Formula", asked.get("formula", ""))),
        cost=cost(asked["nano_nats"]),
        rounded=rounded if asked["rounded"] else "",
        truths=joined(
            fill('<th scope="col" class="number">if {}</th>', truth) for truth in asked["truths"]
        ),
        rows=joined(_row(row) for row in asked["answers"]),
    )


def _row(row: Entry) -> Markup:
    name = f"{row['answer']} ({row['count']:,} of them)" if row["count"] > 1 else row["answer"]
    chances = joined(fill('<td class="number">{}</td>', percent(found)) for found in row["chances"])
    return fill('<tr><th scope="row">{}</th>{}</tr>', name, chances)


def _decision(view: OwnersView, found: Entry) -> Markup:
    if view.member:
        return fill("<p>{}</p>", "The gateway's owner decides for all its members.")
    if found["state"] == "expired":
        return fill("<p>{}</p>", "The study has ended: nothing is left to decide.")
    return fill(_DECISION, token=view.form_token, study=found["study"], analyst=found["analyst"])


def study_path(study: str, analyst: str) -> str:
    """Return the path of a study's page."""
    return f"study?{urlencode({'study': study, 'analyst': analyst})}"


def _link(found: Entry, text: str) -> Markup:
    return fill('<a href="{}">{}</a>', study_path(found["study"], found.get("analyst", "")), text)
