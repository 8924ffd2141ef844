"""Settings of the documentation's build: `sphinx-build -W docs build/docs`, offline.

Pages are the Markdown files of this folder. The references are made from the code: the Python
interface by its docstrings, the command line from its parsers, the wire from the .proto files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
for source in ("docs/extensions", "papers", "simulation", "aggregator", "client", "protos", ""):
    sys.path.insert(0, str(ROOT / source))

from askance_client.version import __version__  # noqa: E402

project = "askance"
author = "the developers of askance"
project_copyright = "the developers of askance, Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "notebook_pages",
    "repository",
    "command_line",
    "configuration",
    "wire",
]
exclude_patterns = ["extensions", "proxy", "static"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4
default_role = "code"  # docstrings mark code with single backquotes
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"askance {release}"
html_theme_options = {"source_view_link": "", "source_edit_link": ""}
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]


def setup(app: Sphinx) -> None:
    """Leave the decisions out of the tree beside each page: their own page lists them."""
    app.connect("doctree-read", _outside_the_tree)


def _outside_the_tree(app: Sphinx, _: object) -> None:
    name = app.env.docname
    if name.startswith("adr/"):
        app.env.metadata[name]["orphan"] = True
