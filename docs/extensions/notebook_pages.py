"""The directive `notebook`: a page that is a notebook of `examples/`, with its outputs.

A page's source that is only this directive becomes the notebook's text before it is parsed, so that
its headings and links are those of any page. Pictures are data within the page. `myst-nb` does the
same with 100 MB of packages more, and only for notebooks that lie within the folder of the pages.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_PAGE = re.compile(r"\A```\{notebook\} (?P<name>\w+)\n```\n\Z")
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)")
_FENCE = "`" * 6  # longer than any that a text of a notebook has


def _text(lines: str | list[str]) -> str:
    """Return a notebook's text, which is kept as one string or as lines."""
    return lines if isinstance(lines, str) else "".join(lines)


def _block(language: str, text: str, style: str) -> str:
    return f"{_FENCE}{{code-block}} {language}\n:class: {style}\n\n{text.rstrip()}\n{_FENCE}"


def _of_output(output: dict[str, Any], words: str) -> Iterator[str]:
    """Yield an output: a picture where there is one, else its text."""
    if output["output_type"] == "stream":
        yield _block("text", _text(output["text"]), "output")
    elif "image/png" in output["data"]:
        data = "".join(_text(output["data"]["image/png"]).split())
        yield f"![{words}](data:image/png;base64,{data})"
    else:
        yield _block("text", _text(output["data"]["text/plain"]), "output")


def as_page(notebook: dict[str, Any], folder: Path, page: Path) -> str:
    """Return a notebook as a page's text, in MyST Markdown.

    Args:
        notebook: the content of its file, format 4.
        folder: where it lies; relative links begin there.
        page: where the page lies; a link to another notebook becomes one to its page.
    """

    def relinked(match: re.Match[str]) -> str:
        target = (folder / match["path"]).resolve()
        if target.suffix == ".ipynb" and target.exists():
            return f"{target.stem}.md"
        return os.path.relpath(target, page.parent)

    parts, heading = [], ""
    for cell in notebook["cells"]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(_LINK.sub(relinked, source))
            headings = re.findall(r"^#+ (.+)$", source, re.MULTILINE)
            heading = headings[-1] if headings else heading
        else:
            parts.append(_block("python", source, "input"))
            for output in cell["outputs"]:
                parts += _of_output(output, f"Picture: {heading}")
    return "\n\n".join(parts) + "\n"


def _on_source(app: Sphinx, name: str, source: list[str]) -> None:
    page = _PAGE.match(source[0])
    if page is None:
        return
    folder = Path(app.srcdir).resolve().parent / "examples"
    path = folder / f"{page['name']}.ipynb"
    if not path.exists():
        raise ExtensionError(f"{name}: expected a notebook of examples/, got {page['name']!r}")
    app.env.note_dependency(str(path), docname=name)
    shown = Path(app.srcdir).resolve() / f"{name}.md"
    source[0] = as_page(json.loads(path.read_text(encoding="utf-8")), folder, shown)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _on_source, priority=400)  # before `repository`
    return {"parallel_read_safe": True, "parallel_write_safe": True}
