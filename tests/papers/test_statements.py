"""The page of papers: every statement of the sources, every reproduction, and true counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from askance_papers.reproduce import REPRODUCTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "papers.md"

SOURCES: Mapping[str, str] = {
    "KLNRS08": "001_50f10d5e2005d579.txt",
    "notes": "000_2dd5a87c25aa60c5.txt",
    "DRV10": "002_2cddc240b7520054.txt",
    "CM08": "004_4b7ba625aa1251f3.txt",
}
"""Each source's text, where the folder `shared/papers` stands beside a checkout."""

_KINDS = "Theorem|Corollary|Claim|Definition|Proposition|Figure|Table|Algorithm|L?emma"
_NUMBERED = re.compile(rf"\b({_KINDS})s?\s*((?:\d+|[IVX]+)(?:\.\d+)?)(?![\w])")
_REMARK = re.compile(r"\bRemark:")
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
_COUNT = re.compile(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Statement:
    """A row of the page."""

    name: str
    commands: tuple[str, ...]
    finding: str

    @property
    def run(self) -> bool:
        return bool(self.commands)


def statements(page: str) -> dict[str, list[Statement]]:
    """Return the page's rows by source."""
    found = {}
    for part in page.split("\n## ")[1:]:
        source = part.split(":")[0]
        rows = [row for row in _ROW.findall(part) if row[0] not in ("statement", "---")]
        if rows:
            found[source] = [
                Statement(name, tuple(re.findall(r"`([^`]+)`", commands)), finding)
                for name, _, commands, finding in rows
            ]
    return found


def numbered(text: str) -> set[str]:
    """Return the numbered statements that a paper's text has."""
    return {
        f"{'Lemma' if kind.endswith('emma') else kind} {number}"
        for kind, number in _NUMBERED.findall(text)
    }


def papers() -> Path | None:
    """Find the papers' texts beside a checkout or above it."""
    folders = (folder / "shared" / "papers" for folder in ROOT.parents)
    return next((folder for folder in folders if folder.is_dir()), None)


@pytest.fixture(scope="module")
def page() -> dict[str, list[Statement]]:
    return statements(PAGE.read_text(encoding="utf-8"))


def test_the_sources_are_the_four(page: dict[str, list[Statement]]) -> None:
    assert list(page) == list(SOURCES)


def test_every_command_exists_and_every_reproduction_is_on_the_page(
    page: dict[str, list[Statement]],
) -> None:
    named = {command for rows in page.values() for row in rows for command in row.commands}
    assert named - set(REPRODUCTIONS) == set(), "commands that do not exist"
    assert set(REPRODUCTIONS) - named == set(), "reproductions that are not on the page"


def test_every_statement_has_a_finding_or_a_reason(page: dict[str, list[Statement]]) -> None:
    for rows in page.values():
        for row in rows:
            if row.run:
                assert re.match(r"holds(, corrected)?(; .+)?$", row.finding), row
            else:
                assert re.match(r"not run: \w+", row.finding), row


def test_no_statement_is_listed_twice(page: dict[str, list[Statement]]) -> None:
    for source, rows in page.items():
        twice = [name for name, times in Counter(row.name for row in rows).items() if times > 1]
        assert twice == [], source


def test_the_counts_are_those_of_the_rows(page: dict[str, list[Statement]]) -> None:
    counts = _COUNT.findall(PAGE.read_text(encoding="utf-8"))
    assert {source: tuple(map(int, numbers)) for source, *numbers in counts} == {
        source: (len(rows), sum(row.run for row in rows), sum(not row.run for row in rows))
        for source, rows in page.items()
    }


@pytest.mark.parametrize("source", SOURCES)
def test_all_statements_of_the_text_are_on_the_page(
    source: str, page: dict[str, list[Statement]]
) -> None:
    folder = papers()
    if folder is None:
        pytest.skip("shared/papers is not here")
    text = (folder / SOURCES[source]).read_text(encoding="utf-8")
    listed = [row.name for row in page[source]]
    assert numbered(text) - set(listed) == set(), "statements that are not on the page"
    own = {name for name in listed if _NUMBERED.fullmatch(name)}
    assert own - numbered(text) == set(), "rows that the text does not have"
    remarks = sum(name.startswith("Remark after ") for name in listed)
    assert remarks == len(_REMARK.findall(text)), "remarks"


def test_a_page_that_leaves_something_out_is_noticed() -> None:
    text = (
        "Theorem 3.7 by Lemmas 4.3 and 4.4; emma 1 Let; Definition III.1; Section 3.2; Figure 1a)"
    )
    assert numbered(text) >= {"Theorem 3.7", "Lemma 4.3", "Lemma 1", "Definition III.1"}
    rows = statements(
        "x\n## A: b\n\n| Claim 1 | c | `d` | holds |\n| Claim 2 | c | — | not run: e |\n"
    )
    assert [(row.name, row.commands, row.run) for row in rows["A"]] == [
        ("Claim 1", ("d",), True),
        ("Claim 2", (), False),
    ]
