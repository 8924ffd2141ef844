"""Every route of the table: without a session, without the form's token, and by each role."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from askance.console.application import ROUTES
from askance.console.link import permitted
from askance.console.routes import ConsoleRoute
from askance_aggregator.server.callers import RULES, Role
from tests.aggregator.server.callers.role_server import served
from tests.askance.console.consoles import Answer, Visitor, console_of

READ = [route for route in ROUTES if route.method == "GET"]
WRITTEN = [route for route in ROUTES if route.method == "POST"]
PARAMETERS = {"{digest}": "00" * 32, "{id}": "00"}


@pytest.fixture(scope="module")
def visitors() -> Iterator[dict[Role, Visitor]]:
    """A visitor of each role, logged in, of consoles of one aggregator."""
    from contextlib import ExitStack

    with served() as (address, _), ExitStack() as held:
        found = {}
        for role in Role:
            found[role] = held.enter_context(console_of(role, aggregator=address))
            found[role].log_in()
        yield found


def path_of(route: ConsoleRoute) -> str:
    path = route.path
    for name, value in PARAMETERS.items():
        path = path.replace(name, value)
    return path


def ask(visitor: Visitor, route: ConsoleRoute, csrf: str | None = None) -> Answer:
    if route.method == "POST":
        return visitor.post(path_of(route), csrf=csrf)
    return visitor.get(path_of(route))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_route_answers_without_a_session(
    route: ConsoleRoute, visitors: dict[Role, Visitor]
) -> None:
    known = visitors[Role.ADMIN]
    unknown = Visitor(known.address, cookie=known.cookie[:-2] + "xx", csrf=known.csrf)
    answer = ask(unknown, route)
    assert (answer.status, answer.headers.get("location")) in (((303, "/login")), (401, None))
    assert "csrf" not in answer.text


@pytest.mark.parametrize("route", WRITTEN, ids=lambda route: route.path)
@pytest.mark.parametrize("csrf", ["", "0" * 64, "ü"])
def test_no_form_passes_without_the_sessions_token(
    route: ConsoleRoute, csrf: str, visitors: dict[Role, Visitor]
) -> None:
    answer = ask(visitors[Role.ADMIN], route, csrf)
    assert answer.status == 403
    assert "token of this session" in answer.text
    assert visitors[Role.ADMIN].get("/").status == 200  # logout was not done either


@pytest.mark.parametrize("route", [r for r in ROUTES if r.calls], ids=lambda route: route.path)
def test_a_role_sees_the_pages_of_its_calls_and_no_other(
    route: ConsoleRoute, visitors: dict[Role, Visitor]
) -> None:
    assert set(route.calls) <= set(RULES)
    for role, visitor in visitors.items():
        if permitted(role, route.calls):
            if "live" not in route.path:  # a stream has no end
                assert ask(visitor, route).status in (200, 303, 400, 404), role
        else:
            answer = ask(visitor, route)
            assert answer.status == 403, role
            assert "Not for your role" in answer.text
            assert f"yours is {role}" in answer.text


def test_the_navigation_has_the_pages_of_a_role_and_leads_to_the_first(
    visitors: dict[Role, Visitor],
) -> None:
    listed = [route for route in ROUTES if route.is_listed]
    for role, visitor in visitors.items():
        text = visitor.get("/").text
        for route in listed:
            seen = f'<li><a href="{route.path}"' in text
            assert seen == permitted(role, route.calls), (role, route.path)
        first = next((r.path for r in listed if permitted(role, r.calls)), "/")
        assert visitor.get("/start").headers["location"] == first


def test_the_overview_has_a_row_per_webhook(visitors: dict[Role, Visitor]) -> None:
    text = visitors[Role.OPERATOR].get("/").text
    table = text.partition('<div class="scroll" role="region" aria-label="Table of webhooks"')[2]
    rows = [re.findall(">([^<>]+)<", row) for row in table.partition("</table>")[0].split("<tr>")]
    assert [[cell for cell in row if cell.strip()] for row in rows[2:]] == [
        ["archive", "0", "–", "0", "1,500", "–"],
        ["warehouse", "2", "30 min 0 s", "1", "1,204", "expected status 2xx, got 500"],
    ]


@pytest.mark.parametrize("path", ["/", "/silence"])
def test_an_open_round_leads_to_its_study(path: str, visitors: dict[Role, Visitor]) -> None:
    assert '<a href="/studies/0001020304050607">' in visitors[Role.OPERATOR].get(path).text
