"""Reports as HTML: whatever a text holds, it is text; and objects in one line."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.reports.html import LINE, html_of, line_of
from askance_aggregator.reports.report import CommandReport, Grid, MoreRows

HOSTILE = "<script>alert('x')</script>&\"<img src=x onerror=y>"
KNOWN = {"div", "p", "strong", "em", "table", "thead", "tbody", "tr", "th", "td"}


class Elements(HTMLParser):
    """Reader of the elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def report_of(text: str) -> CommandReport:
    """Return a report that has a text in every place."""
    with_heads = Grid((text, "b"), left=(text,), rows=[(text, "1")])
    without = Grid(rows=[(text, "2", text)])
    return CommandReport(text, [text, with_heads, without, MoreRows(3)], text, text, [text], [text])


@given(st.one_of(st.text(), st.just(HOSTILE)))
def test_no_text_becomes_an_element_or_an_attribute(text: str) -> None:
    found = Elements(html_of(report_of(text)))
    assert found.names <= KNOWN
    assert found.attributes <= {"class", "style"}


def test_a_hostile_text_is_shown_as_it_is() -> None:
    page = html_of(report_of(HOSTILE))
    assert "<script" not in page
    assert Elements(page).texts.count(HOSTILE) == 8  # all places but the details


def test_control_characters_are_spelled_out() -> None:
    assert "\x1b" not in html_of(report_of("a\x1b[2J"))
    assert r"a\x1b[2J" in html_of(report_of("a\x1b[2J"))


def test_details_are_left_out() -> None:
    assert "secret" not in html_of(CommandReport("title", details=["secret"]))


@given(st.text())
def test_a_line_is_one_line_of_at_most_120_characters(text: str) -> None:
    line = line_of("Study", text)
    assert len(line) <= LINE == 120
    assert line.isprintable()
    assert line.startswith("<Study: ")
    assert line.endswith(">")


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_a_line_is_cut_only_where_it_is_too_long(spare: int) -> None:
    text = "a" * (LINE - len("<Kind: >") - spare)
    assert (line_of("Kind", text) == f"<Kind: {text}>") is (spare >= 0)
