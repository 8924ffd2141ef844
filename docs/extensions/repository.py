"""Links from a page to files of the repository that are no pages become the file's path, as code.

A page is read in two places: on a repository's site, where such a link works, and here, where the
file is not part of the site. A link to a file that does not exist stays as it is, and fails the
build. A link to a notebook becomes one to the page that shows it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

_LINK = re.compile(r"\[(?P<text>[^\]\n]+)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def unlinked(text: str, page: Path, root: Path) -> str:
    """Return a page's text in which links to files that are no pages are the files' paths.

    Args:
        text: the page, as Markdown.
        page: where it lies.
        root: the folder of the repository; pages lie in its folder `docs`.
    """

    def replaced(match: re.Match[str]) -> str:
        target = (page.parent / match["path"]).resolve()
        notebook = root / "docs" / "notebooks" / f"{target.stem}.md"
        if target.suffix == ".ipynb" and notebook.exists():
            return f"[{match['text']}]({os.path.relpath(notebook, page.parent)})"
        outside = root in target.parents and root / "docs" not in target.parents
        shown = target.suffix in (".md", ".svg") and not outside
        if not target.exists() or shown:
            return match[0]
        path = f"`{target.relative_to(root)}`"
        text = match["text"]
        named = text.strip("`") in (path.strip("`"), target.stem)
        return path if named else f"{text} ({path})"

    return _LINK.sub(replaced, text)


def _on_source(app: Sphinx, name: str, source: list[str]) -> None:
    page = Path(app.srcdir) / f"{name}.md"
    source[0] = unlinked(source[0], page, Path(app.srcdir).resolve().parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _on_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
