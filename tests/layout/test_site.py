"""The documentation's site: built without a warning, complete, and loading nothing foreign."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import askance as ask
from docs.extensions.docstrings import as_signature
from docs.extensions.notebook_pages import as_page
from docs.extensions.repository import unlinked
from tests.examples.documents import clone, command_of
from tools.notebooks import notebooks

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["'](?P<src>[^"']+)"""
    r"""|<link[^>]*\srel=["'](?:stylesheet|preload|icon)["'][^>]*\shref=["'](?P<href>[^"']+)"""
    r"""|<link[^>]*\shref=["'](?P<before>[^"']+)["'][^>]*\srel=["'](?:stylesheet|preload|icon)"""
    r"""|url\(["']?(?P<url>[^"')]+)|@import\s+["'](?P<imported>[^"']+)"""
)


def loaded(text: str) -> set[str]:
    """The addresses that a page or a style loads by itself."""
    return {address for match in _LOADED.finditer(text) for address in match.groups() if address}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as CONTRIBUTING.md builds it, in a clean clone."""
    folder = tmp_path_factory.mktemp("clone")
    clone(folder)
    program, *words = command_of("CONTRIBUTING.md", "sphinx-build")
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return folder / words[-1]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("furo") is None, reason="the extra docs builds the site")
class TestSite:
    def test_no_page_loads_anything_from_elsewhere(self, site: Path) -> None:
        files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
        assert len(files) > 40
        for path in files:
            for address in loaded(path.read_text(encoding="utf-8")):
                assert not re.match(r"(https?:)?//", address), f"{path}: {address}"

    def test_every_link_within_the_site_has_its_page_and_anchor(self, site: Path) -> None:
        pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
        anchors = {path: set(re.findall(r'\sid="([^"]+)"', text)) for path, text in pages.items()}
        checked = 0
        for path, text in pages.items():
            for link in re.findall(r'<a[^>]*\shref="([^"]+)"', text):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = (path.parent / name).resolve() if name else path
                assert target.exists(), f"{path}: {link}"
                if anchor and target in anchors:
                    assert anchor in anchors[target], f"{path}: {link}"
                checked += 1
        assert checked > 1_000

    def test_the_references_have_what_the_code_has(self, site: Path) -> None:
        read = {page: (site / "reference" / f"{page}.html").read_text(encoding="utf-8") for page in
                ("python", "command_line", "configuration", "wire")}  # fmt: skip
        assert 'id="askance.learners.masked_parity"' in read["python"]
        assert "~askance" not in read["python"]  # of a signature that was not parsed
        assert "askance aggregator init" in read["command_line"]
        assert "release_ms" in read["configuration"]
        assert "trusted_proxies" in read["configuration"]
        assert "RandomCodebook" in read["wire"]

    def test_every_notebook_is_a_page_with_its_outputs_and_in_the_navigation(
        self, site: Path
    ) -> None:
        index = (site / "index.html").read_text(encoding="utf-8")
        for path in notebooks():
            page = f"notebooks/{path.stem}.html"
            assert f'href="{page}"' in index
            text = (site / page).read_text(encoding="utf-8")
            kept = path.read_text(encoding="utf-8")
            assert text.count('src="data:image/png;base64,') == kept.count('"image/png": ')
            assert text.count('<div class="output ') == kept.count('"text/plain": [') - kept.count(
                '"image/png": '
            ) + kept.count('"output_type": "stream"')


def test_a_notebook_becomes_a_page_with_its_links_and_outputs() -> None:
    links = "[x](own_learner.ipynb), [y](../a.md)"
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# A title\n", links],
        },
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "aa\n", "text/plain": "F"}},
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
            ],
        },
    ]
    page = as_page({"cells": cells}, ROOT / "examples", DOCS / "notebooks" / "x.md")
    assert page.startswith("# A title\n[x](own_learner.md), [y](../../a.md)\n")
    order = ["print(1)", "\n1\n", "![Picture: A title](data:image/png;base64,aa)", "\n2\n"]
    assert [page.index(part) for part in order] == sorted(page.index(part) for part in order)
    assert "F\n" not in page
    assert page.count(":class: output") == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[README](../README.md)", "`README.md`"),
        ("[the people](../examples/people.py)", "the people (`examples/people.py`)"),
        ("[a run](../examples/real_data.ipynb)", "[a run](notebooks/real_data.md)"),
        ("[glossary](glossary.md)", "[glossary](glossary.md)"),
        ("[no such](../missing.py)", "[no such](../missing.py)"),
    ],
)
def test_a_link_to_a_file_that_is_no_page_becomes_its_path(text: str, shown: str) -> None:
    assert unlinked(text, DOCS / "simulation.md", ROOT) == shown


def test_a_default_that_is_no_expression_is_left_out_of_a_signature() -> None:
    assert as_signature("(a: int = <factory>, b=<x object>)") == "(a: int = ..., b=...)"


def test_every_notebook_has_a_page() -> None:
    pages = {path.stem: path.read_text("utf-8") for path in (DOCS / "notebooks").glob("*.md")}
    assert pages == {path.stem: f"```{{notebook}} {path.stem}\n```\n" for path in notebooks()}


def test_a_foreign_address_would_be_found() -> None:
    for text in (
        '<script src="https://cdn.example/x.js">',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        "@import 'https://cdn.example/x.css'",
        "src: url(https://cdn.example/f.woff)",
    ):
        assert any(re.match(r"(https?:)?//", address) for address in loaded(text)), text


def test_the_python_reference_lists_every_public_name() -> None:
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\.\. auto(?:class|function|exception|data):: (\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(set(ask.__all__) - {"__version__", "learners"})
    assert ".. automodule:: askance.learners" in text


@pytest.mark.parametrize(
    ("page", "learners"), [("README.md", 2), ("docs/explanations/epsilon.md", 3)]
)
def test_the_table_of_users_is_the_planners(page: str, learners: int) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^\| ([\d.]+)((?: \| [\d,]+)+)(?: \| 0\.\d+)? \|$", text, re.MULTILINE)
    rows = [(epsilon, *users.split(" | ")[1:]) for epsilon, users in found]
    assert [row[0] for row in rows] == ["0.5", "1", "2", "4"]
    settings: list[tuple[str, dict[str, str]]] = [
        ("mean", {"tau": "0.05"}),
        ("frequency", {"cells": "16", "tau": "0.05"}),
        ("masked-parity", {"d": "16"}),
    ]
    for epsilon, *users in rows:
        for count, (name, parameters) in zip(users, settings[:learners], strict=True):
            plan = ask.plan(name, epsilon=epsilon, settings=parameters)
            assert plan.users_needed == int(count.replace(",", "")), (epsilon, name)


def test_the_column_of_outer_epsilons_is_the_accountants() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+)(?: \| [\d,]+)+ \| (0\.\d+) \|$", text, re.MULTILINE)
    assert [epsilon for epsilon, _ in rows] == ["0.5", "1", "2", "4"]
    for epsilon, outer in rows:  # 1,000,000 answers, of which 1 % are assumed to lie
        ends = ask.amplification(
            "randomized-response", epsilon=epsilon, answers=990_000, delta="1e-8"
        )
        assert ends.upper <= float(outer) < 1.01 * ends.upper, epsilon  # rounded upward
