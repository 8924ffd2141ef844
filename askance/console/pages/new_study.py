"""New study: a form for its definition, the plan of it, and its signature and submission.

The definition, the plan and the signature are those of `askance study submit`: the form's fields
are the same options (`askance_aggregator.study_options`), and this process has the key.
"""

from __future__ import annotations

import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from askance.console.charts.axes import epsilon_chart
from askance.console.routes import ConsoleForm, ConsoleRoute, Visit, refusal_status
from askance_aggregator.analyst import (
    CallRefused,
    StudyDefinition,
    StudyHandle,
    definition_of_table,
)
from askance_aggregator.analyst.templates import find_template
from askance_aggregator.learners import LearnerEntry, find, learners
from askance_aggregator.reports.figures import risk_line
from askance_aggregator.reports.guarantees import guarantees_text
from askance_aggregator.studies.least_epsilon import GRID, plan_least_epsilon
from askance_aggregator.study_options import (
    OPTIONS,
    OptionKind,
    StudyOption,
    definition_text,
    table_of_options,
)
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import AskanceError, InvalidParameter, PlanRefused
from askance_client.printable import value_text

_CALLS = ("Analysts/Plan", "Analysts/Submit")
_LEARNER = "frequency"
_WITH_THE_QUESTION = ("schema", "fields", "purpose")
"""Options that the form shows with the question."""
_OFTEN = ("epsilon", "confidence", "days", "tags")
"""Options that the form shows with the budget; all others stand below, and are opened."""
_DIGITS = 9
_PARAMETER = "set."  # before a learner's parameter in a field's name
_REFUSED = ("not-permitted", "no-role", "no-key", "untrusted-key", "bad-token", "bad-signature")

_UNFIT = (
    *("malformed", "unknown-learner", "missing-fields", "expired", "keep-refused"),
    *("plan-refused", "over-user-budget", "over-quota", "too-many-studies"),
)
"""Reasons of refusals of the study itself: it is refused again unless something changes."""
_CERTAIN = (*_REFUSED, *_UNFIT)
"""Reasons of refusals after which no study is stored."""
_UNCERTAIN = (
    "It is not known whether the study was submitted: look for it in the list of studies before you"
    " submit it again. "
)
_EXPECTED = re.compile(" expect(?:ed|s) ")
_NAME = re.compile(r"[\w-]+")
_ONCE_BYTES = 16  # of the text by which a form is known when it comes a second time


@dataclass(frozen=True, slots=True)
class DraftStudy:
    """A form that was filled in, and what came of it.

    Args:
      values: text by the names of the fields.
      text: TOML of the definition; empty: it is not one yet.
      plan: as `askance plan --json` has it; None: there is none.
      curve: of a plan whose epsilon was found, the chart of its curve; None: it was given.
      offered: titles of the schemas to choose from; none: they were not asked for.
      chosen: of them, the one in the form.
      problem: why there is no plan, or why the study was not submitted; empty: there is one, or
        none was asked for.
      is_refused: whether the study would be refused as it is, so that it cannot be submitted.
    """

    learner: LearnerEntry
    values: Mapping[str, str]
    text: str = ""
    plan: Mapping[str, Any] | None = None
    curve: Markup | None = None
    offered: tuple[str, ...] = ()
    chosen: str = ""
    problem: str = ""
    is_refused: bool = False

    @property
    def field(self) -> str:
        """Name of the form's field that the problem is about; empty: it is about none alone.

        A message names the field before what it expects: "frequency: column: expected ...".
        """
        head, *expected = _EXPECTED.split(self.problem, 1)
        parameters = {one.name: _PARAMETER + one.name for one in self.learner.parameters}
        fields = {option.name: option.name for option in OPTIONS}
        known = {**fields, **parameters}
        named = [known[word] for word in _NAME.findall(head) if word in known] if expected else []
        return named[-1] if named else ""

    @property
    def risk(self) -> str:
        """Return what the planned budget means for a user; empty without a plan."""
        return "" if self.plan is None else risk_line(self.plan["epsilon"])

    @property
    def guarantees(self) -> str:
        """Return what a user is promised towards whom; empty where one epsilon holds for all."""
        if self.plan is None or "outer" not in self.plan:
            return ""
        return guarantees_text(self.plan["epsilon"], self.plan["outer"], "its tallies")


async def _new(visit: Visit) -> Response:
    """Return the form of a learner, with a schema that devices have, or else a template's."""
    offered = await visit.call(_offered, visit)
    asked, entry = visit.query("records", ""), find(visit.query("learner", _LEARNER))
    chosen = asked if asked in offered else next(iter(offered), "")
    values = {"schema": offered.get(chosen) or _schema_text(), "epsilon": "1"}
    if entry.name == _LEARNER and not offered:
        values[_PARAMETER + "column"] = "education"
    return await _page(visit, DraftStudy(entry, values, offered=tuple(offered), chosen=chosen))


def _offered(visit: Visit) -> dict[str, str]:
    """Return the schemas that the aggregator offers, each as a file, by their titles."""
    try:
        found = visit.link.aggregator.schemas()
    except CallRefused as error:
        if error.reason == "unimplemented":  # by an aggregator of an earlier version
            return {}
        raise
    titles = (
        f"{one.name}, version {one.version}{'' if one.registered else ', of an earlier study'}"
        for one in found
    )
    offered: dict[str, str] = {}
    for title, one in zip(titles, found, strict=True):
        offered.setdefault(title, one.toml)  # the newest of those with one title
    return offered


async def _plan(visit: Visit) -> Response:
    """Return the form with its plan; nothing is signed."""
    entry, text = find(visit.form.text("learner")), ""
    try:
        table = table_of_form(visit.form)
        text = definition_text(table)
        plan = await visit.call(_planned, visit, table, await _public_key(visit))
        text = definition_text({**table, "epsilon": f"{plan['epsilon']:.9g}"})
    except AskanceError as error:
        if isinstance(error, CallRefused) and error.reason in _REFUSED:
            raise
        return await _page(visit, _refused(visit, entry, error, text))
    values = dict(visit.form.fields)
    return await _page(visit, DraftStudy(entry, values, text, plan, _chart(plan)))


async def _public_key(visit: Visit) -> bytes:
    """Return the caller's public key where this console has no key; empty: it has one."""
    if visit.link.aggregator.has_key:
        return b""
    identity = await visit.link.identity()
    if identity is None or not identity.public_key:
        raise CallRefused(
            "no-key",
            "plan: expected a caller with an analyst's key, got one without (the operator enters it"
            " under callers.oidc.analysts)",
        )
    return identity.public_key


async def _submit(visit: Visit) -> Response:
    """Sign the study with the caller's key, submit it, and go to its page."""
    # A study that is refused comes back as it was entered, with the reason at its field.
    if not visit.link.aggregator.has_key:
        raise CallRefused(
            "no-key", "submit: expected a console with a key, which signs the study, got none"
        )
    entry = find(visit.form.text("learner"))
    try:
        handle = await _submitted(visit)
    except AskanceError as error:
        if isinstance(error, CallRefused) and error.reason in _REFUSED:
            raise
        return await _page(visit, _refused(visit, entry, error), refusal_status(error))
    return visit.redirect(f"/studies/{handle.id}", "The study is signed and submitted.")


async def _submitted(visit: Visit) -> StudyHandle:
    """Submit the study of a form, once; what is raised after the call says if none is stored."""
    definition, once = definition_of_form(visit.form), visit.form.text("once")
    if len(once) != 2 * _ONCE_BYTES:
        raise InvalidParameter("once: expected the text of this form, got none; load it again")
    if not visit.session.begin_submission(once):  # each signature would be another study
        raise InvalidParameter(
            "form: expected one that was not submitted before, got it a second time; its study is"
            " in the list of studies, or soon will be; plan again for another study"
        )
    try:
        return await visit.call(visit.link.aggregator.submit_definition, definition)
    except (PlanRefused, InvalidParameter, CallRefused) as error:
        if not isinstance(error, CallRefused) or error.reason in _CERTAIN:
            visit.session.withdraw_submission(once)
            raise
        raise CallRefused(error.reason, f"{_UNCERTAIN}{error}") from error


def _refused(visit: Visit, entry: LearnerEntry, error: AskanceError, text: str = "") -> DraftStudy:
    """Return the form as it was entered, with the reason why its study is refused."""
    unfit = not isinstance(error, CallRefused) or error.reason in _UNFIT
    values, problem = dict(visit.form.fields), str(error)
    for place in ("study: ", "parameters: "):  # of a file
        problem = problem.removeprefix(place)
    return DraftStudy(entry, values, text, problem=problem, is_refused=unfit)


def table_of_form(form: ConsoleForm) -> dict[str, Any]:
    """Return the table of the study's definition in a form."""
    given: dict[str, Any] = {
        option.name: _given(option, text)
        for option in OPTIONS
        if (text := form.text(option.name)) or option.kind is OptionKind.FILE
    }
    parameters = {
        name.removeprefix(_PARAMETER): value.strip()
        for name, value in form.fields
        if name.startswith(_PARAMETER) and value.strip()
    }
    return table_of_options(form.text("learner"), given, parameters)


def definition_of_form(form: ConsoleForm) -> StudyDefinition:
    """Return the study that a form defines."""
    return definition_of_table(table_of_form(form))


def _planned(visit: Visit, table: Mapping[str, Any], public_key: bytes) -> dict[str, Any]:
    """Return the plan; without an epsilon, at the least from which on the users are enough."""

    def plan_of(definition: StudyDefinition) -> dict[str, Any]:
        return visit.link.aggregator.plan(definition, public_key)

    if "epsilon" in table:
        return plan_of(definition_of_table(table))

    def definition_at(epsilon: object) -> StudyDefinition:
        return definition_of_table({**table, "epsilon": str(epsilon)})

    greatest = plan_of(definition_at(GRID[-1] / NANO_NATS_PER_NAT))  # refused: none is enough
    found = plan_least_epsilon(lambda nats: definition_at(nats).study, greatest["users"])
    plan = plan_of(definition_at(f"{found.epsilon:.9g}"))
    return {**plan, "curve": found.to_json()["curve"]}


def _chart(plan: Mapping[str, Any]) -> Markup | None:
    if "curve" not in plan:
        return None
    rows = plan["curve"]["points"]
    points = [(row["epsilon"], row["users_needed"]) for row in rows if row["users_needed"]]
    return epsilon_chart(points, plan["users"])


def _schema(text: str) -> dict[str, Any]:
    """Return the schema of a form; raise InvalidParameter if it is no TOML, or has no name."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"schema: expected TOML, got other text ({error})") from None
    if "name" not in found:  # a file's own name stands for it, and a form has none
        raise InvalidParameter('schema: expected a name, as name = "people", got none')
    return found


def _schema_text() -> str:
    """Return the schema of the first template as a file of its own."""
    text = find_template(_LEARNER).text.split("\n[schema]\n")[1]
    return text.replace("[schema.fields]", "[fields]")


def _given(option: StudyOption, text: str) -> Any:
    """Return the value of a field as a file has it."""
    match option.kind:
        case OptionKind.FILE:
            return _schema(text)
        case OptionKind.POSITIVE | OptionKind.NATURAL:
            return _whole(option.name, text)
        case OptionKind.WORDS:
            return text.split()
        case OptionKind.NAMES:
            return [name.strip() for name in text.split(",")]
    return text


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InvalidParameter(f"{name}: expected a whole number, got {value_text(text[:40])}")
    return int(text)


async def _page(visit: Visit, draft: DraftStudy, status: int = 200) -> Response:
    more = [one for one in OPTIONS if one.name not in (*_WITH_THE_QUESTION, *_OFTEN)]
    return await visit.page(
        "new_study.html",
        status,
        has_key=visit.link.aggregator.has_key,
        draft=draft,
        learners=[entry.name for entry in learners()],
        prefix=_PARAMETER,
        once=secrets.token_hex(_ONCE_BYTES),
        question=[option for option in OPTIONS if option.name in _WITH_THE_QUESTION[1:]],
        budget=[option for option in OPTIONS if option.name in _OFTEN],
        more=more,
        more_is_open=any(draft.values.get(one.name) or draft.field == one.name for one in more),
        schema=next(option for option in OPTIONS if option.kind is OptionKind.FILE),
    )


ROUTES = (
    ConsoleRoute("/studies/new", _new, _CALLS, "New study", is_listed=True),
    ConsoleRoute("/studies/new/plan", _plan, _CALLS, "New study", "POST"),
    ConsoleRoute("/studies/new/submit", _submit, _CALLS, "New study", "POST"),
)
